"""Random products against the paper's rules, computed from the whole network at once.

The model below knows all subscriptions and follows sections V to VII broker by broker; brokers know
their tables only. Messages of advertisements and subscriptions, copies with the clusters that they
owe, and hops of deliveries must be equal.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from shoal.broker.messages import Advertise, Publish, Subscribe
from shoal.overlays.octopia.messages import BitSet, HomeChange
from shoal.overlays.octopia.parameters import Dynamic
from tests.broker.transcript import advertisement, publication, subscription
from tests.examples import at_length
from tests.overlays.octopia.stages import ProductStage

SYMBOLS = "xy"
# The cost of an output is 1 more than its queue, and above 10 it is congested.
CONGESTED = 10
Place = tuple[int, int]
Copy = tuple[str, str, int]


class PapersProduct:
    """A product with publishers, subscribers and queues; `place` is a region and a cluster."""

    def __init__(self, seed: int) -> None:
        self.random = random = Random(f"papers copies/{seed}")
        self.clusters = random.randint(2, 6)
        parents = tuple(random.randrange(region) for region in range(1, random.randint(2, 6)))
        self.regions = range(len(parents) + 1)
        names = "abcdef"[: len(self.regions)]
        self.name = {(r, c): f"{names[r]}{c}" for r in self.regions for c in range(self.clusters)}
        self.near: dict[int, set[int]] = {region: set() for region in self.regions}
        for region, parent in enumerate(parents, start=1):
            self.near[region].add(parent)
            self.near[parent].add(region)
        self.dynamic = random.choice([Dynamic.STATIC, Dynamic.FREE, Dynamic.FREE])
        self.here = ProductStage(names, parents, self.clusters, self.dynamic)
        self.hosts: dict[str, tuple[Place, str]] = {}
        self.homes: dict[str, tuple[Place, str, int]] = {}
        self.queues: dict[tuple[str, str], int] = {}

    def drawn_place(self) -> Place:
        return self.random.choice(self.regions), self.random.randrange(self.clusters)

    def advertise(self, publisher: str) -> None:
        """k - 1 messages (V)."""
        place, symbol = self.drawn_place(), self.random.choice(SYMBOLS)
        self.hosts[publisher] = place, symbol
        told = len(self.here.everything_sent)
        promise = advertisement(publisher.lower(), f"s = '{symbol}'", publisher)
        self.here.ask(self.name[place], publisher, Advertise(promise))
        self.here.settle()
        assert len(self.here.everything_sent) - told == self.clusters - 1 + self.bits(publisher)

    def bits(self, publisher: str) -> int:
        """Number of the other clusters that the publisher's advertisement is for."""
        return len(self.wanted(publisher))

    def wanted(self, publisher: str) -> set[int]:
        (_, own), symbol = self.hosts[publisher]
        found = {cluster for (_, cluster), subject, _ in self.homes.values() if subject == symbol}
        return found - {own}

    def subscribe(self, client: str) -> None:
        """A message over each link of the cluster's tree, and one for each bit that is set (VI)."""
        place, symbol, least = (
            self.drawn_place(),
            self.random.choice(SYMBOLS),
            self.random.randrange(4),
        )
        before = sum(map(self.bits, self.hosts))
        self.homes[client] = place, symbol, least
        told = len(list(self.here.sent(HomeChange))), len(list(self.here.sent(BitSet)))
        wish = subscription(client.lower(), f"s = '{symbol}' and v >= {least}", client)
        self.here.ask(self.name[place], client, Subscribe(wish))
        self.here.settle()
        homes, bits = len(list(self.here.sent(HomeChange))), len(list(self.here.sent(BitSet)))
        assert homes - told[0] == len(self.regions) - 1
        assert bits - told[1] == sum(map(self.bits, self.hosts)) - before

    def congest(self) -> None:
        """Draw a queue for each output; those of one broker differ, so that one costs least."""
        for broker in self.name.values():
            ways = sorted(target for source, target in self.here.links if source == broker)
            lengths = self.random.sample(range(2 * CONGESTED), len(ways))
            self.queues |= {(broker, way): each for way, each in zip(ways, lengths, strict=True)}
        self.here.congest(*((*way, length) for way, length in self.queues.items()))

    def path(self, start: int, end: int) -> list[int]:
        ways = [[start]]
        for way in ways:
            if way[-1] == end:
                return way
            ways += [[*way, each] for each in self.near[way[-1]] if each not in way]
        raise AssertionError

    # --- the rules of VII -------------------------------------------------------------------------

    def copies(self, publisher: str, value: int) -> Iterator[Copy]:
        place, symbol = self.hosts[publisher]
        homes = {
            home
            for home, subject, least in self.homes.values()
            if subject == symbol and value >= least
        }
        yield from self._from(place, self.wanted(publisher), None, homes)

    def _from(
        self, place: Place, owed: set[int], came_from: int | None, homes: set[Place]
    ) -> Iterator[Copy]:
        region, cluster = place
        inner = [
            (near, cluster)
            for near in sorted(self.near[region] - {came_from})
            if any(c == cluster and near in self.path(region, r) for r, c in homes)
        ]
        carried = self._carried(place, inner, {each: (region, each) for each in owed})
        for target, bits in carried.items():
            yield self.name[place], self.name[target], sum(1 << each for each in bits)
            yield from self._from(target, bits, region if target in inner else None, homes)

    def _carried(
        self, place: Place, inner: list[Place], entries: dict[int, Place]
    ) -> dict[Place, set[int]]:
        """The copies' targets, with the clusters that each owes."""

        def cost(target: Place) -> int:
            return self.queues.get((self.name[place], self.name[target]), 0)

        def is_free(target: Place) -> bool:
            return self.dynamic is Dynamic.STATIC or cost(target) < CONGESTED

        free = [target for target in entries.values() if is_free(target)]
        owed = {cluster for cluster, target in entries.items() if target not in free}
        found: dict[Place, set[int]] = {target: set() for target in (*inner, *free)}
        if owed:
            if free or any(map(is_free, inner)):
                found[min(free or filter(is_free, inner), key=cost)] = owed
            else:
                entered = min(owed, key=lambda cluster: cost(entries[cluster]))
                found[entries[entered]] = owed - {entered}
        return found

    # --- publications -----------------------------------------------------------------------------

    def publish(self, publisher: str, number: int) -> int:
        """The number of its copies that carry owed clusters."""
        place, symbol = self.hosts[publisher]
        value = self.random.randrange(4)
        expected = sorted(self.copies(publisher, value))
        self.here.everything_sent.clear()
        self.here.deliveries.clear()
        sent = publication(number, publisher, s=symbol, v=value)
        self.here.ask(self.name[place], publisher, Publish((sent,)))
        self.here.settle()
        assert sorted(self.here.copies()) == expected
        clients = {
            client
            for client, (_, subject, least) in self.homes.items()
            if subject == symbol and value >= least
        }
        assert sorted(each.client for _, each in self.here.deliveries) == sorted(clients)
        carrying = sum(owed > 0 for *_, owed in expected)
        if not carrying:
            for client in clients:
                (region, cluster), *_ = self.homes[client]
                shortest = len(self.path(place[0], region)) - 1 + (cluster != place[1])
                assert self.here.hops(client) == shortest
        return carrying


def _play(seed: int) -> int:
    product = PapersProduct(seed)
    carrying = 0
    for number in range(product.random.randint(0, 3)):
        product.subscribe(f"E{number}")
    for number in range(3):
        product.advertise(f"P{number}")
    for number in range(product.random.randint(4, 16)):
        product.subscribe(f"S{number}")
    for number in range(6):
        product.congest()
        carrying += sum(product.publish(publisher, number) for publisher in product.hosts)
    return carrying


@pytest.mark.parametrize("seeds", [range(16), *at_length([range(16, 500)])])
def test_copies_are_the_papers(seeds: range) -> None:
    assert sum(map(_play, seeds)) > 0
