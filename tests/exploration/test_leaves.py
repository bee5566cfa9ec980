"""Leaves of brokers in every order of messages, with one fault, or with a rule left out."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from shoal.broker.effects import CancelTimer
from shoal.overlays.coordination.coordinator import LIFE, Coordinator
from shoal.overlays.coordination.part import DECISIONS, VOTE, ChangeEvent, Stage
from shoal.overlays.tree import contraction
from shoal.overlays.tree.contraction import Contraction
from shoal.overlays.tree.propagation import Propagation
from shoal.overlays.tree.routing import TreeRouting
from tests.examples import at_length
from tests.exploration.leaves import LONG, STAR, Leaves, Play

TO_C = {"publishing": "A", "subscribing": "C"}
TO_A = {"publishing": "C", "subscribing": "A"}
PAIR = (("A", "B"),)
# C asks A to decide while D asks B.
CROSSED = (("A", "C"), ("C", "D"), ("D", "B"))

# At B, C's subscription covers D's, and goes; the publisher is beyond A.
COVERED = Play((*STAR, ("A", "E")), publishing="E", subscribing="D", goes="C", covering=True)


def explored(play: Play, most: int = 400_000) -> None:
    """AssertionError with the shortest path to a fault."""
    found = Leaves(play).explore(most)
    assert not found.problems, "\n".join(found.problems)
    assert found.ends
    print(f"{found.states} states, {found.steps} steps, {found.ends} ends")


def links(*faults: str) -> list[tuple[str, ...]]:
    return [("link", *each) for each in faults]


def brokers(names: str) -> list[tuple[str, ...]]:
    return [("broker", each) for each in names]


EARLY = ("early",)
QUICK = {
    **{
        f"two publications at {way['publishing']}, {'awaited' if awaited else 'not awaited'}": Play(
            publications=2,
            awaited=awaited,
            **way,  # type: ignore[arg-type]
        )
        for way in (TO_C, TO_A)
        for awaited in (True, False)
    },
    "two neighbours": Play(LONG, ("B", "C"), subscribing="D"),
    "two neighbours, crossed": Play(CROSSED, ("C", "D"), subscribing="B"),
    "a star": Play(STAR),
    **{f"{' '.join(each)}": Play(fault=each) for each in (*links("AB", "BC", "AC"), EARLY)},
    **{f"{' '.join(each)}": Play(fault=each) for each in brokers("AC")},
    "a publication, A - C breaks": Play(publications=1, fault=("link", "A", "C"), **TO_C),
    "a publication back, A - C breaks": Play(publications=1, fault=("link", "A", "C"), **TO_A),
    **{
        f"subscriptions come and go at {place}": Play(comes=place, goes=place, **way)  # type: ignore[arg-type]
        for place in "AC"
        for way in (TO_C, TO_A)
    },
    **{
        f"a leaf, {' '.join(each)}": Play(PAIR, subscribing="A", fault=each)
        for each in (*links("AB"), *brokers("AB"), EARLY)
    },
    **{
        f"a line's leaf, {' '.join(each)}": Play(
            leaving_brokers=("C",), subscribing="B", fault=each
        )
        for each in (*links("AB", "BC"), *brokers("BC"), EARLY)
    },
}


# One of each kind: order, several leaves, a fault at a link, at a broker, at a leaf.
FEW = (
    *("two publications at C, not awaited", "a star", "link B C", "early"),
    *("subscriptions come and go at A", "a leaf, broker A", "a line's leaf, link B C"),
)


@pytest.mark.parametrize("name", [*FEW, *at_length(each for each in QUICK if each not in FEW)])
def test_a_leave(name: str) -> None:
    explored(QUICK[name])


def test_both_searches_meet_the_same_states() -> None:
    leaves = Leaves(QUICK["a leaf, broker B"])
    wide, deep = leaves.explore(), leaves.exhaust()
    assert wide == deep
    assert wide.states > 100


# Two neighbours leave: one is a participant of the other's leave.
BOTH: dict[str, Any] = {"leaving_brokers": ("B", "C"), "subscribing": "A"}

SOAK = {
    **{
        f"two neighbours, {' '.join(each)}": Play(fault=each, **BOTH)
        for each in (*links("AB", "BC"), *brokers("ABC"))
    },
    "a broker joins": Play(joins=("J", "B")),
    "a star, covered": COVERED,
    "broker B": Play(fault=("broker", "B")),
    **{
        f"a publication at {way['publishing']}, {' '.join(each)}": Play(
            publications=1,
            fault=each,
            **way,  # type: ignore[arg-type]
        )
        for way in (TO_C, TO_A)
        for each in links("AB", "BC")
    },
    "a star, a publication": Play(STAR, publications=1),
    "a star, subscriptions come and go": Play(STAR, comes="D", goes="C"),
    **{f"a star, {' '.join(each)}": Play(STAR, fault=each) for each in links("AB", "BC", "AC")},
    "two neighbours, crossed, link B C": Play(
        CROSSED, ("C", "D"), subscribing="B", fault=("link", "B", "C")
    ),
}
# There are too many states: the nearest are explored.
NEAREST = {
    **{f"a star, {' '.join(each)}": Play(STAR, fault=each) for each in (*brokers("ABC"), EARLY)},
    **{
        f"a broker joins, {' '.join(each)}": Play(joins=("J", "B"), fault=each)
        for each in (*links("BJ", "AB"), *brokers("JAB"), EARLY)
    },
    "two neighbours, crossed, a publication": Play(
        CROSSED, ("C", "D"), publications=1, subscribing="B"
    ),
}


@pytest.mark.soak
@pytest.mark.parametrize("play", SOAK.values(), ids=SOAK)
def test_a_leave_among_many(play: Play) -> None:
    explored(play, 5_000_000)


@pytest.mark.soak
@pytest.mark.parametrize("play", NEAREST.values(), ids=NEAREST)
def test_the_nearest_states_of_a_leave(play: Play) -> None:
    with suppress(OverflowError):
        explored(play, 500_000)


# --- mutants: rules left out ----------------------------------------------------------------------

Patch = pytest.MonkeyPatch


def _forget(patch: Patch, name: str, at: str = "") -> None:
    """Drop this record from the disk, only at one broker if `at` names it."""
    whole: Any = Coordinator.facts
    kept = {VOTE: None, DECISIONS: []}[name]

    def facts(self: Any) -> Any:
        return whole.fget(self) | ({name: kept} if at in ("", self._broker) else {})

    patch.setattr(Coordinator, "facts", property(facts))


def no_vote_on_disk(patch: Patch) -> None:
    _forget(patch, VOTE)


def no_vote_on_disk_at_another(patch: Patch) -> None:
    _forget(patch, VOTE, at="C")


def no_decision_on_disk(patch: Patch) -> None:
    _forget(patch, DECISIONS)


def no_decision_on_disk_at_another(patch: Patch) -> None:
    _forget(patch, DECISIONS, at="C")


def does_not_quiesce(patch: Patch) -> None:
    patch.setattr(Coordinator, "_quiesce", lambda *arguments: None)


def takes_part_in_two_changes(patch: Patch) -> None:
    """No lock: a vote, or an unconfirmed decision, does not exclude another change."""
    patch.setattr(Coordinator, "_why_busy", lambda *arguments, **options: "")
    for stage in (Stage.GATHERING, Stage.CLOSING, Stage.IN_DOUBT, Stage.DRAINING):
        votes = LIFE[Stage.FREE, ChangeEvent.PREPARE]
        patch.setitem(LIFE, (stage, ChangeEvent.PREPARE), votes)


def decides_before_all_have_voted(patch: Patch) -> None:
    def close(self: Any, now_us: int, out: list[Any]) -> None:
        self._votes = dict.fromkeys(self._change.others, 0)
        whole(self, now_us, out)

    whole = Coordinator._close_if_all_voted
    patch.setattr(Coordinator, "_close_if_all_voted", close)


def no_drain(patch: Patch) -> None:
    patch.setattr(
        Coordinator, "_begin_to_drain", lambda self, _, now_us, out: self._end_change(now_us, out)
    )


def no_return(patch: Patch) -> None:
    patch.setattr(contraction, "Recall", lambda *_, **__: CancelTimer(("nothing",)))


def leaves_unconfirmed(patch: Patch) -> None:
    def drain(self: Any, out: list[Any]) -> None:
        if self._change is not None and self._change.key in self._decisions:
            self._decisions[self._change.key].missing.clear()
        whole(self, out)

    whole = Coordinator.drain
    patch.setattr(Coordinator, "drain", drain)


def no_answer(patch: Patch) -> None:
    patch.setattr(Coordinator, "_answer_query", lambda *arguments: None)


def no_other_contact(patch: Patch) -> None:
    patch.setattr(TreeRouting, "go_elsewhere", lambda *arguments: None)


def does_not_follow(patch: Patch) -> None:
    patch.setattr(Contraction, "follow", lambda *arguments: None)


def opens_over_a_link_that_ends(patch: Patch) -> None:
    class Nothing(set[str]):
        def __ior__(self, _: Any) -> Any:
            return self

    made = Coordinator.__init__

    def make(self: Any, *arguments: Any) -> None:
        made(self, *arguments)
        self._ending = Nothing()

    patch.setattr(Coordinator, "__init__", make)


def does_not_restate(patch: Patch) -> None:
    patch.setattr(Propagation, "restate", lambda *arguments: None)


def keeps_unwanted_links(patch: Patch) -> None:
    patch.setattr(Coordinator, "opened", Coordinator._link_up)


MUTANTS: list[tuple[Callable[[Patch], None], Play]] = [
    (decides_before_all_have_voted, Play()),
    (no_drain, Play(publications=2, awaited=False, **TO_C)),
    (leaves_unconfirmed, Play(fault=("link", "B", "C"))),
    (no_other_contact, Play(joins=("J", "B"))),
    (does_not_follow, Play(publications=1)),
]


LONG_MUTANTS: list[tuple[Callable[[Patch], None], Play]] = [
    (no_decision_on_disk, Play(fault=("broker", "A"))),
    (does_not_quiesce, Play(publications=2, awaited=False, **TO_C)),
    (takes_part_in_two_changes, Play(fault=("link", "B", "C"), **BOTH)),
    (no_return, Play(publications=1, fault=("link", "A", "B"), **TO_A)),
    (no_return, Play(publications=1, fault=("link", "B", "C"), **TO_C)),
    (no_answer, Play(fault=("broker", "A"))),
    (opens_over_a_link_that_ends, Play(fault=("broker", "B"))),
    (no_vote_on_disk, Play(fault=("broker", "B"))),
    (no_vote_on_disk_at_another, Play(fault=("broker", "C"), **BOTH)),
    (no_decision_on_disk_at_another, Play(fault=("broker", "C"), **BOTH)),
    (takes_part_in_two_changes, Play(fault=("broker", "C"), **BOTH)),
    (does_not_restate, COVERED),
    (keeps_unwanted_links, Play(fault=("broker", "A"))),
]


@pytest.mark.parametrize(("mutant", "play"), [*MUTANTS, *at_length(LONG_MUTANTS)])
def test_the_judges_notice_a_rule_that_is_left_out(
    mutant: Callable[[Patch], None], play: Play, monkeypatch: Patch
) -> None:
    mutant(monkeypatch)
    found = Leaves(play).explore(400_000)
    print(found.states, found.problems[-1:])
    assert found.problems
    # The protocol breaks, not the mutant.
    assert not found.problems[-1].startswith(("TypeError", "AttributeError", "NameError"))
