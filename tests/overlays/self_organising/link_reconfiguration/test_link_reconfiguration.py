"""Exchanges in a simulated network: number of messages, brokers that quiesce, participants."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import pytest
from msgspec.structs import replace

from shoal.broker.effects import Received, TimerFired
from shoal.broker.messages import Publish
from shoal.broker.strategy import ProtocolError
from shoal.model import Pace
from shoal.overlays.self_organising.exchanges import LinkExchange
from shoal.overlays.self_organising.link_reconfiguration.ring import ExchangeRing
from shoal.overlays.self_organising.link_reconfiguration.ring_messages import ExchangeDecision, Halt
from shoal.overlays.tree.oracle import check_tables, expected_tables
from shoal.simulation.world import World
from tests.broker.transcript import advertisement, publication, subscription
from tests.forced_exchanges import BEGIN, Exchanged, Forced, Refused
from tests.seeds.networks.random_network import SECOND_US, SeededUnderlay


class Cycle:
    """A line of brokers B0, B1, ...; each has a further neighbour with a publisher and a
    subscriber.
    """

    def __init__(
        self, links: int, seed: int = 1, clocks_us: Mapping[str, int] | None = None
    ) -> None:
        self.cycle = tuple(f"B{number}" for number in range(links + 1))
        self.beside = {name: f"beside {name}" for name in self.cycle}
        self.links = [*pairwise(self.cycle), *self.beside.items()]
        self.world = World(
            self.links,
            Forced,
            SeededUnderlay(seed),
            seed=seed,
            window_us=10**12,
            clocks_us=clocks_us,
        )
        self.advertised, self.interests = [], []
        for name, home in self.beside.items():
            promise = advertisement(f"a{name}", publisher=f"P{name}")
            interest = subscription(f"s{name}", client=f"C{name}")
            self.world.add_publisher(promise.publisher, home, home)
            self.world.advertise(0, promise)
            self.world.add_subscriber(interest.client, home)
            self.world.subscribe(0, home, interest)
            self.advertised.append((promise, home))
            self.interests.append((interest, home))
        self.world.run(until_us=5 * SECOND_US)

    def exchange(self, remove: int, until_us: int | None = None) -> None:
        key = (BEGIN, str(remove), *self.cycle)
        self.world.brokers[self.cycle[-1]].bring(self.world.queue.now_us, TimerFired(key))
        self.world.run(until_us=until_us)

    def strategy(self, name: str) -> Any:
        return self.world.brokers[name].machine.strategy

    @property
    def messages_sent(self) -> dict[str, int]:
        """The number of messages of each broker."""
        return {name: node.meter.control_out for name, node in self.world.brokers.items()}


@pytest.mark.parametrize("links", [2, 3, 4, 6])
def test_an_exchange_takes_four_messages_per_link_and_none_outside_the_cycle(
    links: int,
) -> None:
    for remove in range(links):
        network = Cycle(links)
        before = network.messages_sent
        rows = {name: _rows(network, name) for name in network.beside.values()}
        network.exchange(remove)
        (record,) = network.world.trace.records
        assert isinstance(record, Exchanged)
        sent = {name: count - before[name] for name, count in network.messages_sent.items()}
        assert sum(sent.values()) == 4 * links
        assert not any(sent[name] for name in network.beside.values())
        assert rows == {name: _rows(network, name) for name in network.beside.values()}
        expected = expected_tables(network.world.links, network.advertised, network.interests)
        tables = {name: network.strategy(name).tables for name in network.world.brokers}
        assert not check_tables(expected, tables)


def _rows(network: Cycle, name: str) -> Any:
    tables = network.strategy(name).tables
    return (
        dict(tables.advertisements),
        {id: (row, set(row.forwarded_to)) for id, row in tables.subscriptions.items()},
    )


def test_publications_during_an_exchange_wait_and_arrive_in_order() -> None:
    network = Cycle(4)
    start_us = network.world.queue.now_us
    for sequence in range(400):
        for promise, _ in network.advertised:
            row = publication(sequence, promise.publisher, x=sequence)
            network.world.request(start_us + 1_000 * sequence, promise.publisher, Publish((row,)))
    network.exchange(1)
    assert [type(row) for row in network.world.trace.records] == [Exchanged]
    seen: dict[tuple[str, str], list[int]] = {}
    for delivery in network.world.trace.deliveries:
        key = delivery.client, delivery.publication.publisher
        seen.setdefault(key, []).append(delivery.publication.sequence)
    assert len(seen) == len(network.cycle) ** 2
    assert all(sequences == [*range(400)] for sequences in seen.values())


def test_two_exchanges_on_one_broker_exclude_each_other() -> None:
    network = Cycle(4)
    left, right = network.cycle[:3], network.cycle[2:]
    now_us = network.world.queue.now_us
    key, other = ("B4", now_us), LinkExchange(cycle=right, remove=0, saving=0)
    both = network.world.brokers["B2"]
    both.bring(now_us, TimerFired((BEGIN, "0", *left)))
    both.bring(now_us, TimerFired((BEGIN, "1", *left)))
    both.bring(now_us, Received("B3", Halt(key, other)))
    network.world.run()
    refused, exchanged = network.world.trace.records
    reason = "B2 exchanges links already"
    assert refused == Refused(reason)
    assert isinstance(exchanged, Exchanged)
    verdict = network.strategy("B2").overlay._ring.decisions.known[key]
    assert verdict == ExchangeDecision(
        key, other, is_done=False, at_us=0, latest_us=0, reason=reason
    )


def test_an_exchange_whose_link_does_not_come_up_is_aborted() -> None:
    network = Cycle(3)
    network.world.cut(network.world.queue.now_us, network.cycle[0], network.cycle[-1])
    network.world.run(until_us=network.world.queue.now_us)
    network.exchange(1)
    (record,) = network.world.trace.records
    assert record == Refused("B3 has lost B0")
    assert sorted(network.world.links) == sorted(tuple(sorted(ends)) for ends in network.links)


@pytest.mark.parametrize(
    ("cycle", "remove"),
    [(("B1", "B2"), 0), (("B1", "B2", "B1"), 0), (("B1", "B2", "B3"), 2), (("A", "B", "C"), 0)],
)
def test_an_exchange_without_a_cycle_is_refused(cycle: tuple[str, ...], remove: int) -> None:
    with pytest.raises(ProtocolError):
        ExchangeRing("B1", LinkExchange(cycle=cycle, remove=remove, saving=0))


@pytest.mark.parametrize("remove", range(3))
def test_publications_that_conflation_holds_are_sent_before_the_exchange(remove: int) -> None:
    network = Cycle(3)
    world, start_us = network.world, network.world.queue.now_us
    client = "paced"
    world.add_subscriber(client, "B3")
    paced = replace(subscription("paced", "y >= 0", client=client), pace=Pace(20 * SECOND_US))
    world.subscribe(start_us, "B3", paced)
    promise = advertisement("paced", "y >= 0", publisher="at B0")
    world.add_publisher(promise.publisher, "B0", "B0")
    world.advertise(start_us, promise)
    world.run(until_us=start_us + 5 * SECOND_US)
    for sequence in range(3):
        row = publication(sequence, promise.publisher, y=sequence)
        at_us = world.queue.now_us + sequence * 1_000
        world.request(at_us, promise.publisher, Publish((row,)))
    world.run(until_us=world.queue.now_us + SECOND_US)
    network.exchange(remove)
    assert [type(row) for row in world.trace.records] == [Exchanged]
    got = [each.publication.sequence for each in world.trace.deliveries if each.client == client]
    assert (got[0], got[-1]) == (0, 2)
