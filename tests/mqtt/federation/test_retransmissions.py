"""Retransmissions after a kill, for sessions that have moved meanwhile."""

from __future__ import annotations

from random import Random

import pytest

from tests.examples import one_in
from tests.mqtt.federation.two_brokers import come, network
from tests.seeds.sessions.random_sessions import Publisher, Subscriber
from tests.seeds.sessions.session_network import Network

__all__ = ["network"]


def moved() -> tuple[Network, Subscriber, Publisher]:
    """A session received a publication at B0 and moves to B2, which missed it, as it was down."""
    network = Network(Random(2), 3)
    assert network.pairs == [("B0", "B1"), ("B0", "B2")]
    network.settle(3)
    reader, other = Subscriber(network, "s"), Subscriber(network, "r")
    publisher = Publisher(network, "p", "B1")
    for person, home in ((reader, "B0"), (other, "B2"), (publisher, "B1")):
        person.go_to(home)
        come(network, person)
    come(network, reader, other)
    network.kill("B2")
    publisher.publish(2)
    for _ in range(3):
        come(network, reader, publisher)
    assert (reader.taken, publisher.acknowledged) == ([(b"p 1", 2)], [])
    network.kill("B0")
    network.kill("B1")
    network.start("B0")
    network.start("B2")
    network.settle(62)  # so long they wait for B1
    reader.go_to("B2")
    come(network, reader, seconds=3)
    assert reader.is_in
    return network, reader, publisher


def test_a_moved_session_gets_no_duplicate_at_its_new_broker() -> None:
    network, reader, publisher = moved()
    network.start("B1")  # it retransmits unsettled publications
    publisher.go_to("B1")
    come(network, reader, publisher, seconds=15)
    publisher.publish(2)
    come(network, publisher, seconds=5)
    come(network, reader, publisher)
    assert publisher.acknowledged == [(b"p 1", 2), (b"p 2", 2)]
    assert reader.taken == [(b"p 1", 2), (b"p 2", 2)]


def test_a_sessions_deduplication_window_survives_a_kill() -> None:
    network, *_ = moved()
    had = network.sites["B2"].clients.sessions.get("s").had
    assert had.last.keys() >= {"$mqtt/B1"}
    network.kill("B2")
    network.start("B2")
    restored = network.sites["B2"].clients.sessions.get("s").had
    assert (restored.last, restored.gaps) == (had.last, had.gaps)


def moved_to_receiving_broker(
    kill_again: bool,
) -> tuple[Network, Subscriber, Subscriber, Publisher]:
    """A session lacks publications, as its broker was down, and moves to one that has received
    them.
    """
    network = Network(Random(2), 4)
    assert network.pairs == [("B0", "B1"), ("B0", "B2"), ("B0", "B3")]
    network.settle(3)
    reader, other = Subscriber(network, "s"), Subscriber(network, "r")
    publisher = Publisher(network, "p", "B1")
    for person, home in ((reader, "B3"), (other, "B2"), (publisher, "B1")):
        person.go_to(home)
        come(network, person)
    come(network, reader, other)
    publisher.publish(2)
    for _ in range(3):
        come(network, reader, other, publisher)
    assert publisher.acknowledged == [(b"p 1", 2)]
    network.kill("B3")
    for _ in range(2):
        publisher.publish(2)
    for _ in range(3):
        come(network, other, publisher)
    assert len(publisher.acknowledged) == 1
    assert len(other.taken) == 3
    network.kill("B0")
    network.kill("B1")
    network.start("B0")
    network.start("B3")
    network.settle(62)  # so long they wait for B1
    reader.go_to("B2")
    come(network, reader, seconds=30)  # the former broker sends nothing more
    assert reader.is_in
    if kill_again:
        network.kill("B2")
        network.start("B2")
        network.settle(62)
        for person in (reader, other):
            person.go_to("B2")
            come(network, person, seconds=3)
    return network, reader, other, publisher


@pytest.mark.parametrize("kill_again", [False, True])
def test_a_moved_session_gets_missing_publications_that_others_have(kill_again: bool) -> None:
    """The broker's front end detects duplicates for all of its clients at once."""
    network, reader, other, publisher = moved_to_receiving_broker(kill_again)
    network.start("B1")  # it retransmits unsettled publications
    publisher.go_to("B1")
    come(network, reader, other, publisher, seconds=15)
    publisher.publish(2)
    come(network, publisher, seconds=5)
    come(network, reader, other, publisher)
    everything = [(b"p %d" % number, 2) for number in (1, 2, 3, 4)]
    assert publisher.acknowledged == everything
    assert reader.taken == everything
    assert other.taken == everything


def test_a_broker_that_starts_beside_a_dead_neighbour_acknowledges_nothing() -> None:
    """It knows no subscription before its neighbour is back; nothing is acknowledged until then."""
    network = Network(Random(2), 3)
    assert network.pairs == [("B0", "B1"), ("B0", "B2")]
    network.settle(3)
    reader, publisher = Subscriber(network, "s"), Publisher(network, "p", "B1")
    for person, home in ((reader, "B2"), (publisher, "B1")):
        person.go_to(home)
        come(network, person)
    network.kill("B1")
    network.start("B1")
    network.kill("B0")
    publisher.go_to("B1")
    come(network, publisher)
    publisher.publish(2)
    come(network, publisher, seconds=20)
    assert publisher.acknowledged == []
    network.start("B0")
    come(network, reader, publisher, seconds=5)
    assert (reader.taken, publisher.acknowledged) == ([(b"p 1", 2)], [(b"p 1", 2)])


# --- returns before the transfer is complete ------------------------------------------------------


@pytest.mark.parametrize("topics", ["a", "$share/g/a"])
@pytest.mark.parametrize("way", ["B1 B0 B1", "B0 B1 B2 B1", "B0 B1 B2 B1 B2 B1"])
@pytest.mark.parametrize("steps", one_in(3, range(8)))
def test_a_broker_killed_after_a_hasty_return_holds_nothing_back(
    topics: str, way: str, steps: int
) -> None:
    network = Network(Random(2), 3)
    network.settle(3)
    reader, publisher = Subscriber(network, "s", topics), Publisher(network, "p", "B0")
    for person, home in ((reader, way[:2]), (publisher, "B0")):
        person.go_to(home)
        come(network, person, seconds=3)
    come(network, reader)
    for broker in way.split()[1:]:
        reader.leave()
        publisher.publish(2)
        reader.go_to(broker)
        come(network, reader, publisher, seconds=0.7)
        assert reader.is_in
        publisher.publish(2)
    for _ in range(steps):
        network.move(*network.random.choice(list(network.buffers)), 10**6)
        network.flush()
    network.kill("B1")
    publisher.publish(2)
    network.settle(3)
    network.start("B1")
    network.settle(1)
    publisher.look()
    if not publisher.is_here:
        publisher.go_to("B0")
    reader.look()
    reader.go_to("B1")
    for _ in range(5):
        come(network, reader, publisher, seconds=3)
    assert reader.is_in
    assert len(publisher.acknowledged) == publisher.count
    assert sorted(reader.taken) == sorted(publisher.acknowledged)
    for site in network.sites.values():
        assert not site.clients.federation.session_transfer.giving._moves
        assert not site.clients.federation.session_transfer.arriving._moves


def test_messages_for_a_member_of_unknown_place_survive_a_second_kill() -> None:
    network = Network(Random(1), 2)
    network.settle(3)
    worker, publisher = Subscriber(network, "w", "$share/g/a"), Publisher(network, "p", "B0")
    for person in (worker, publisher):
        person.go_to("B0")
        come(network, person)
    come(network, worker)
    worker.go_to("B1")
    network.settle(0.3)
    for broker in ("B0", "B1"):
        network.kill(broker)
    network.start("B0")
    publisher.go_to("B0")
    network.settle(0.5)
    publisher.look()
    publisher.publish(2)
    come(network, publisher)
    assert (publisher.count, publisher.acknowledged) == (1, [])
    network.kill("B0")
    for broker in ("B0", "B1"):
        network.start(broker)
    network.settle(1)
    publisher.look()
    publisher.go_to("B0")
    worker.look()
    worker.go_to("B1")
    for _ in range(5):
        come(network, worker, publisher, seconds=3)
    assert publisher.acknowledged == worker.taken == [(b"p 1", 2)]
