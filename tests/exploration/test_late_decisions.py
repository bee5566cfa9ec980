"""A decider of an exchange returns after the others aborted, in every order of messages."""

from __future__ import annotations

from random import Random

import pytest

from shoal.overlays.self_organising.link_reconfiguration.known_decisions import KnownDecisions
from tests.examples import at_length
from tests.exploration.late_decisions import Decided, LateDecisions
from tests.exploration.test_exchanges import explored

ONE: list[Decided] = [
    (cycle, remove)
    for cycle in [(1, 2, 3, 4), (4, 3, 2, 1), (2, 3, 4), (3, 2, 1), (1, 2, 3)]
    for remove in range(len(cycle) - 1)
]
# Each exchange removes a link of the other's cycle, and the two share no end.
CROSSED: list[tuple[Decided, Decided]] = [
    (((1, 2, 3, 4, 5), 1), ((2, 3, 4, 5), 2)),
    (((1, 2, 3, 4, 5), 3), ((5, 4, 3, 2), 2)),
    (((5, 4, 3, 2, 1), 1), ((4, 3, 2, 1), 2)),
    (((5, 4, 3, 2, 1), 3), ((1, 2, 3, 4), 2)),
]


@pytest.mark.parametrize("decided", ONE)
def test_a_late_decision_leaves_one_tree_in_every_order(decided: Decided) -> None:
    print(explored(LateDecisions((decided,))))


@pytest.mark.parametrize("decided", [ONE[0], *at_length((each,) for each in ONE[1:3])])
def test_a_late_decision_leaves_the_oracles_tables_in_every_order(decided: Decided) -> None:
    print(explored(LateDecisions((decided,), publisher="B1", subscribers=("B4",))))


def _walk(meeting: LateDecisions, random: Random) -> list[str]:
    """One random order; the faults at its end."""
    state = meeting.start
    while found := [after for _, after in meeting.steps(state)]:
        state = random.choice(found)
    return meeting.judge(state)


def _walks(decided: tuple[Decided, Decided]) -> list[str]:
    meeting = LateDecisions(decided, brokers=5)
    return [each for seed in range(20) for each in _walk(meeting, Random(seed))]


@pytest.mark.parametrize("decided", CROSSED)
def test_two_late_decisions_that_exclude_each_other_leave_one_tree(
    decided: tuple[Decided, Decided],
) -> None:
    """Both committed would make a cycle and cut brokers off. All orders are too many, so random
    ones are walked.
    """
    assert _walks(decided) == []


@pytest.mark.parametrize("decided", CROSSED)
def test_the_judge_notices_when_both_are_committed(
    decided: tuple[Decided, Decided], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(KnownDecisions, "have_taken_a_link_since", lambda self, verdict: False)
    assert _walks(decided)
