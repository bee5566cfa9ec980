"""Swaps of positions in a ring, in every order of messages."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from shoal.overlays.dynatops.members.membership import ViewMembership
from shoal.overlays.dynatops.topics.interests import Interests
from tests.examples import at_length
from tests.exploration.views import ONE, SEVERAL, Swaps

TWICE, ROUND = ("A,B", "B,C"), ("B,C", "A,C")


@pytest.mark.parametrize("has_restarted", [False, True])
@pytest.mark.parametrize(
    ("publications", "swaps", "topics"),
    [
        (1, TWICE, ONE),
        *at_length(
            [
                (2, TWICE, SEVERAL),
                (3, TWICE, SEVERAL),
                (3, TWICE, ONE),
                (1, ROUND, ONE),
                (2, ROUND, SEVERAL),
            ]
        ),
    ],
)
def test_publications_arrive_once_and_in_order(
    publications: int, swaps: tuple[str, ...], topics: str, has_restarted: bool
) -> None:
    ring = Swaps(publications, *swaps, topics=topics, has_restarted=has_restarted)
    found = ring.explore()
    assert not found.problems, "\n".join(found.problems)
    assert found.ends
    print(f"{found.states} states, {found.steps} steps, {found.ends} ends")


# --- mutants: rules left out ----------------------------------------------------------------------

Patch = pytest.MonkeyPatch


def drops_retransmissions_of_views_that_it_was_in(patch: Patch) -> None:
    patch.setattr(ViewMembership, "may_have_been_in", lambda self, age: self._may_have_been)


def sends_before_it_knows_the_rows(patch: Patch) -> None:
    patch.setattr(Interests, "is_complete", True)


@pytest.mark.parametrize(
    ("mutant", "publications", "swaps", "topics"),
    [
        (drops_retransmissions_of_views_that_it_was_in, 1, TWICE, SEVERAL),
        (sends_before_it_knows_the_rows, 1, TWICE, ONE),
    ],
)
def test_the_judges_notice_a_rule_that_is_left_out(
    mutant: Callable[[Patch], None],
    publications: int,
    swaps: tuple[str, ...],
    topics: str,
    monkeypatch: Patch,
) -> None:
    mutant(monkeypatch)
    found = Swaps(publications, *swaps, topics=topics).explore()
    print(found.states, found.problems[-1:])
    assert found.problems
    assert not found.problems[-1].startswith(("TypeError", "AttributeError", "NameError"))
