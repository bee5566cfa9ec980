"""Retracted subscriptions that are kept for moves, and the end of their retention."""

from __future__ import annotations

import pytest

from shoal.broker.effects import Effect
from shoal.overlays.publisher_relocation.retractions import Retractions
from shoal.overlays.tree.propagation import Propagation
from tests.broker.transcript import subscription


@pytest.fixture
def propagation() -> Propagation:
    """A broker between B1 and B3; B1 has sent s, B3 has sent t."""
    made, out = Propagation(["B1", "B3"]), list[Effect]()
    made.add_subscription(subscription("s"), "B1", out)
    made.add_subscription(subscription("t"), "B3", out)
    return made


def test_a_retraction_ends_with_its_last_move(propagation: Propagation) -> None:
    retractions, out = Retractions(propagation), list[Effect]()
    retractions.keep("B1", "s", {"P", "Q"})
    retractions.complete("P", out)
    assert "s" in propagation.tables.subscriptions
    retractions.complete("Q", out)
    assert list(propagation.tables.subscriptions) == ["t"]
    assert not retractions


def test_a_retracted_subscription_wanted_again_stays(propagation: Propagation) -> None:
    retractions = Retractions(propagation)
    retractions.keep("B1", "s", {"P"})
    retractions.undo("B1", "s")
    retractions.complete("P", [])
    assert list(propagation.tables.subscriptions) == ["s", "t"]


def test_a_changed_link_drops_its_neighbours_retractions(propagation: Propagation) -> None:
    retractions = Retractions(propagation)
    retractions.keep("B1", "s", {"P"})
    retractions.keep("B3", "t", {"P"})
    retractions.forget("B1")
    retractions.complete("P", [])
    assert list(propagation.tables.subscriptions) == ["s"]


def test_a_neighbour_cannot_retract_anothers_subscription(propagation: Propagation) -> None:
    retractions = Retractions(propagation)
    retractions.keep("B3", "s", {"P"})
    retractions.keep("B1", "unknown", {"P"})
    assert not retractions
