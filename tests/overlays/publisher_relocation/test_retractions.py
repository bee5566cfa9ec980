"""What is kept of what neighbours take back, for whose moves, and until when."""

from __future__ import annotations

import pytest

from shoal.broker.effects import Effect
from shoal.overlays.publisher_relocation.retractions import Retractions
from shoal.overlays.tree.propagation import Propagation
from tests.broker.transcript import subscription


@pytest.fixture
def propagation() -> Propagation:
    """A broker between B1 and B3; B1 has said s, B3 has said t."""
    made, out = Propagation(["B1", "B3"]), list[Effect]()
    made.add_subscription(subscription("s"), "B1", out)
    made.add_subscription(subscription("t"), "B3", out)
    return made


def test_it_goes_with_the_last_move_that_it_is_kept_for(propagation: Propagation) -> None:
    retractions, out = Retractions(propagation), list[Effect]()
    retractions.keep("B1", "s", {"P", "Q"})
    retractions.complete("P", out)
    assert "s" in propagation.tables.subscriptions
    retractions.complete("Q", out)
    assert list(propagation.tables.subscriptions) == ["t"]
    assert not retractions


def test_what_is_wanted_again_stays(propagation: Propagation) -> None:
    retractions = Retractions(propagation)
    retractions.keep("B1", "s", {"P"})
    retractions.undo("B1", "s")
    retractions.complete("P", [])
    assert list(propagation.tables.subscriptions) == ["s", "t"]


def test_a_link_that_changes_ends_what_its_neighbour_said(propagation: Propagation) -> None:
    retractions = Retractions(propagation)
    retractions.keep("B1", "s", {"P"})
    retractions.keep("B3", "t", {"P"})
    retractions.forget("B1")
    retractions.complete("P", [])
    assert list(propagation.tables.subscriptions) == ["s"]


def test_nobody_takes_back_what_came_from_elsewhere(propagation: Propagation) -> None:
    retractions = Retractions(propagation)
    retractions.keep("B3", "s", {"P"})
    retractions.keep("B1", "unknown", {"P"})
    assert not retractions
