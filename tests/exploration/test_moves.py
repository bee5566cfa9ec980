"""Moves of a publisher in every order of messages, with one fault at every moment."""

from __future__ import annotations

import pytest

from tests.exploration.moves import Fault, Moves
from tests.overlays.publisher_relocation.test_migration import in_the_papers_order, without_marker

THERE = ("B1", "B2", "B3")
LINKS: list[Fault] = [("link", "B1", "B2"), ("link", "B2", "B3")]
OWN: list[Fault] = [("impatience",), ("leave",)]


def explored(moves: Moves) -> str:
    """The summary of the search; AssertionError with the shortest path to a fault."""
    found = moves.explore()
    assert not found.problems, "\n".join(found.problems)
    assert found.ends
    return f"{found.states} states, {found.steps} steps, {found.ends} ends"


@pytest.mark.parametrize("fault", [(), *OWN])
def test_a_move_loses_nothing_in_any_order(fault: Fault) -> None:
    print(explored(Moves((THERE,), 2, fault)))


def test_a_move_where_all_subscriptions_cover_each_other() -> None:
    print(explored(Moves((THERE,), 2, is_covering=True)))


@pytest.mark.parametrize("mutate", [without_marker, in_the_papers_order])
def test_the_judges_notice_a_broken_move(mutate, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    mutate(monkeypatch)
    problems = Moves((THERE,), 1).explore().problems
    assert any("lost=((('P', 1)" in problem for problem in problems)


def test_an_announcement_left_by_a_failed_move_loses_no_publication() -> None:
    """B2's link to B3 comes up while P, announced at B3, is about to learn that it was down.

    B3 must not claim P then: B2 would withdraw the row that B1 needs for P's earlier publications.
    """
    moves = Moves((THERE,), 1, ("link", "B2", "B3"))
    state = moves.start
    for what in (
        "link", "B2 -> B3 Link", "B3 -> B2 Link", "B2 -> B1 Unsubscribe", "mended", "B3 -> B2 Link",
        "P publishes", "P is to go", "B1 -> P Relocate", "P -> B3 Migration",
    ):  # fmt: skip
        state = moves.step(state, what)
    found = moves.explore(state)
    assert not found.problems, "\n".join(found.problems)


@pytest.mark.soak
@pytest.mark.parametrize("back", [(), THERE[::-1], ("B3", "B2")])
def test_two_moves_and_three_publications(back: tuple[str, ...]) -> None:
    print(explored(Moves((THERE, back) if back else (THERE,), 3)))


@pytest.mark.soak
@pytest.mark.parametrize("is_covering", [False, True], ids=["plain", "covering"])
@pytest.mark.parametrize("fault", [*LINKS, *OWN])
def test_a_move_and_a_fault(fault: Fault, is_covering: bool) -> None:
    print(explored(Moves((THERE,), 2, fault, is_covering=is_covering)))


@pytest.mark.soak
@pytest.mark.parametrize(
    ("broker", "patient", "publications"),
    # If both links of the broker break, the states with publications are too many.
    [("B1", False, 1), ("B1", True, 1), ("B3", False, 1), ("B3", True, 1), ("B2", True, 0)],
)
def test_a_move_and_a_broker_that_dies(broker: str, patient: bool, publications: int) -> None:
    print(explored(Moves((THERE,), publications, ("broker", broker), patient=patient)))


@pytest.mark.soak
@pytest.mark.parametrize("fault", LINKS)
def test_a_move_and_a_link_whose_break_is_noticed_at_any_time(fault: Fault) -> None:
    """Only losses are excused then."""
    print(explored(Moves((THERE,), 1, fault, timely=False)))
