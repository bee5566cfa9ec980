"""Moves of publishers while subscriptions change, and other publishers move."""

from __future__ import annotations

import pytest

from shoal.broker.messages import Advertise, Subscribe, Unadvertise, Unsubscribe
from shoal.clients.messages import Paused
from tests.broker.transcript import advertisement, publish, subscription
from tests.overlays.publisher_relocation.one_publisher import (
    BACK,
    PATH,
    A,
    announce,
    assert_nothing_is_left,
    everywhere,
    interests,
    resumed,
    stage_with_publisher,
)


@pytest.mark.parametrize("broker", ["B0", "B1", "B2", "B3", "B4"])
@pytest.mark.parametrize("progress", range(5))
def test_subscriptions_may_change_during_a_migration(broker: str, progress: int) -> None:
    stage = stage_with_publisher()
    leaving_broker = f"S{broker[1]}"
    steps = [
        lambda: stage.carry("B3", "B2"),
        lambda: stage.carry("B2", "B1"),
        lambda: stage.ask("B1", "P", Paused(PATH, 1)),
        lambda: stage.carry("B1", "B2", len(stage.links["B1", "B2"])),
    ]
    announce(stage)
    for step in steps[:progress]:
        step()
    stage.ask(broker, "N", Subscribe(new := subscription("new", "x = 3", client="N")))
    stage.ask(broker, leaving_broker, Unsubscribe(f"s of {leaving_broker}"))
    for step in steps[progress:]:
        step()
    stage.settle()
    stayed = [row for row in interests() if row[0].client != leaving_broker]
    assert not stage.problems([(A, "B3")], [*stayed, (new, broker)])
    assert_nothing_is_left(stage)


def test_a_retracted_subscription_that_is_restated_stays() -> None:
    """Q advertises at B0 while P moves: B3's subscriber is wanted at B1 again."""
    stage = stage_with_publisher()
    q = advertisement("q", publisher="Q")
    announce(stage)
    stage.carry("B3", "B2")
    stage.ask("B0", "Q", Advertise(q))
    stage.carry("B0", "B1")
    stage.carry("B1", "B2", len(stage.links["B1", "B2"]))
    stage.carry("B2", "B3", len(stage.links["B2", "B3"]))
    stage.settle()
    stage.ask("B1", "P", Paused(PATH, 1))
    stage.settle()
    assert not stage.problems([(A, "B3"), (q, "B0")], interests())
    stage.ask("B0", "Q", publish(1, publisher="Q"))
    stage.settle()
    assert everywhere(stage, 1)


# --- several publishers -----------------------------------------------------------------------

Q = advertisement("q", publisher="Q")


def test_a_completed_move_leaves_a_slower_ones_rows() -> None:
    """P and Q move together; Q's marker is there first, P's last publications are still to come."""
    stage = stage_with_publisher()
    stage.ask("B1", "Q", Advertise(Q))
    stage.settle()
    announce(stage, PATH, A)
    announce(stage, PATH, Q)  # only now B3 withdraws its subscription
    stage.settle()
    stage.ask("B1", "Q", Paused(PATH, 1))
    stage.settle()
    assert resumed(stage) == ["Q"]
    stage.ask("B1", "P", publish(1), Paused(PATH, 1))
    stage.settle()
    assert everywhere(stage, 1)
    assert not stage.problems([(A, "B3"), (Q, "B3")], interests())
    assert_nothing_is_left(stage)


def test_an_unadvertisement_leaves_a_moves_rows() -> None:
    """Q, at B1 as well, unadvertises while P's last publications to B1 are still to come."""
    stage = stage_with_publisher()
    stage.ask("B1", "Q", Advertise(Q))
    stage.settle()
    announce(stage)
    stage.settle()
    stage.ask("B1", "Q", Unadvertise("q"))  # now nothing at B1 asks for B3's subscription
    stage.settle()
    stage.ask("B1", "P", publish(1), Paused(PATH, 1))
    stage.settle()
    assert everywhere(stage, 1)
    assert not stage.problems([(A, "B3")], interests())
    assert_nothing_is_left(stage)


@pytest.mark.parametrize("first", ["B1", "B3"])
@pytest.mark.parametrize("words_first", [True, False])
def test_two_publishers_pass_each_other(first: str, words_first: bool) -> None:
    stage = stage_with_publisher()
    stage.ask("B3", "Q", Advertise(Q))
    stage.settle()
    if words_first:
        stage.ask("B1", "P", publish(1))
        stage.ask("B3", "Q", publish(2, publisher="Q"))
    announce(stage, PATH, A)
    announce(stage, BACK, Q)
    second = "B3" if first == "B1" else "B1"
    stage.carry(first, "B2", len(stage.links[first, "B2"]))
    stage.carry(second, "B2", len(stage.links[second, "B2"]))
    if not words_first:
        stage.ask("B1", "P", publish(1))
        stage.ask("B3", "Q", publish(2, publisher="Q"))
    stage.ask("B1", "P", Paused(PATH, 1))
    stage.settle()
    stage.ask("B3", "Q", Paused(BACK, 1))
    stage.settle()
    assert everywhere(stage, 1)
    assert everywhere(stage, 2)
    assert not stage.problems([(A, "B3"), (Q, "B1")], interests())
    assert_nothing_is_left(stage)
    stage.ask("B3", "P", publish(3))
    stage.ask("B1", "Q", publish(4, publisher="Q"))
    stage.settle()
    assert everywhere(stage, 3)
    assert everywhere(stage, 4)
