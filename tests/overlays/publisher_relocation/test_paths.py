"""Publishers that move while a broker of their path leaves, or after it has left."""

from __future__ import annotations

import pytest

from shoal.broker.effects import Leave, LinkChanged, LinkState, Notify, Requested, Send
from shoal.broker.messages import Advertise, Message, Subscribe
from shoal.clients.messages import MigrationAdvertisement, Paused, Resume
from shoal.overlays.publisher_relocation.messages import MigrationComplete, MigrationUpdate
from tests.broker.transcript import subscription
from tests.overlays.publisher_relocation.one_publisher import A
from tests.overlays.tree.recorded_broker import RecordedBroker, received

# B2 has left, and B3 is linked to B7 in its place.
TRACED = ("B1", "B2", "B3")
BY_NOW = ("B1", "B7", "B3")


def with_subscriber(name: str, *neighbours: str) -> RecordedBroker:
    """A target that knows a, which P has advertised beyond the first neighbour, and has a
    subscriber of it.
    """
    return RecordedBroker(name, *neighbours, system="grape").handles(
        *received(neighbours[0], Advertise(A)),
        Requested("C", Subscribe(subscription("s"))),
    )


def sent(told: RecordedBroker) -> list[tuple[str, Message]]:
    return [(each.neighbour, each.message) for each in told.did if isinstance(each, Send)]


def test_a_target_sends_the_update_towards_the_sources_present_place() -> None:
    target = with_subscriber("B3", "B7")
    target.handles(Requested("P", MigrationAdvertisement(TRACED, (A,), 1)))
    # Nothing is advertised anew, and no subscription is withdrawn before everything has come.
    assert sent(target) == [("B7", MigrationUpdate("P", BY_NOW, (A,), ("s",), 1))]
    target.handles(*received("B7", MigrationComplete("P", BY_NOW, 1, whole=True)))
    assert Notify("P", Resume(1, whole=True)) in target.did


def test_a_broker_on_the_path_sends_its_path_to_the_target() -> None:
    broker = with_subscriber("B3", "B7", "B4")
    traced, by_now = (*TRACED, "B4"), (*BY_NOW, "B4")
    broker.handles(*received("B4", MigrationUpdate("P", traced, (A,), (), 1)))
    assert ("B7", MigrationUpdate("P", by_now, (A,), ("s",), 1)) in sent(broker)
    broker.handles(*received("B7", MigrationComplete("P", by_now, 1, whole=True)))
    assert sent(broker) == [("B4", MigrationComplete("P", traced, 1, whole=True))]


def test_the_source_may_have_taken_the_leaving_brokers_place() -> None:
    target = with_subscriber("B3", "B1")
    target.handles(Requested("P", MigrationAdvertisement(TRACED, (A,), 1)))
    assert sent(target) == [("B1", MigrationUpdate("P", ("B1", "B3"), (A,), ("s",), 1))]


@pytest.mark.parametrize("path", [("B2", "B3"), TRACED])
def test_a_path_without_its_source_is_broken(path: tuple[str, ...]) -> None:
    """The source itself is gone, or its place is unknown."""
    target = RecordedBroker("B3", "B7", system="grape")
    if path[0] == "B2":
        target.handles(*received("B7", Advertise(A)))
    target.handles(Requested("P", MigrationAdvertisement(path, (A,), 1)))
    assert Notify("P", Resume(1, whole=False)) in target.did


def test_a_target_that_leaves_sends_the_publisher_back() -> None:
    leaf = RecordedBroker("B3", "B2", system="grape").handles(
        *received("B2", Advertise(A)), Leave()
    )
    leaf.handles(Requested("P", MigrationAdvertisement(TRACED, (A,), 1)))
    assert leaf.did == [Notify("P", Resume(1, whole=False))]
    leaf.handles(Requested("P", Paused(TRACED[::-1], 2)))
    assert (
        leaf.handles(LinkChanged("B2", LinkState.ENDED)).machine.strategy.tables.sizes[
            "advertisements"
        ]
        == 0
    )
