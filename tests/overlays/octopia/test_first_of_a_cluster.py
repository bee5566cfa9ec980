"""The first broker of a new cluster: a subscriber there misses nothing after its SUBACK.

A front end grants a subscription when a mark behind it has reached every front end
(`mqtt/federation/granting`), and all bits that it sets are at their hosts (`is_awaited`). Hosts
without a link to the new broker are not sent bits. So a mark must not reach a host before the host
knows of the cluster. From then on the host's publications go there, too, as its wishes are unknown.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from shoal.broker.effects import Effect, Requested, Send
from shoal.broker.messages import Advertise, Publish, Subscribe
from shoal.overlays.octopia.parameters import Dynamic, OctopiaParameters
from shoal.overlays.octopia.places.labels import Product, rows_of
from shoal.overlays.octopia.places.news import PlaceNews
from shoal.overlays.octopia.places.roster import PlacesAnnounced, RosterPlace
from shoal.overlays.octopia.protocol import Octopia
from shoal.overlays.registry import strategy_factory
from shoal.simulation.service import ServiceCosts
from shoal.simulation.trace import DeliveryEvent
from shoal.simulation.world import World
from tests.broker.transcript import advertisement, publication, publish, subscription
from tests.seeds.networks.random_network import SeededUnderlay

SECOND_US = 1_000_000
COMES_US = 10 * SECOND_US
# The longest time of a bit over a link, behind queued messages.
BITS_US = 500_000
NEW = "N"


class Marks(list[DeliveryEvent]):
    """Deliveries; when a mark and the bits have arrived everywhere, every publisher publishes."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self._network = network
        self.unknown: list[str] = []

    def append(self, row: DeliveryEvent) -> None:
        super().append(row)
        if row.publication.publisher == "mark":
            self._network.mark_has_come(row)


class Network:
    """A product under a burst over slow outputs, joined by a broker with a new cluster."""

    def __init__(self, seed: int) -> None:
        self.random = random = Random(f"first/{seed}")
        clusters, regions = random.randint(1, 3), random.randint(2, 4)
        self.names = names = [f"B{number}" for number in range(clusters * regions)]
        parents = tuple(random.randrange(region) for region in range(1, regions))
        rows = rows_of(names, clusters)
        common = OctopiaParameters(
            rows=rows, parents=parents, dynamic=random.choice([Dynamic.ORDERED, Dynamic.FREE])
        )
        place = random.randrange(regions)
        longer = tuple((*row, NEW if at == place else "") for at, row in enumerate(rows))
        own = OctopiaParameters(rows=longer, parents=parents, dynamic=common.dynamic)
        mine, theirs = strategy_factory("octopia", own), strategy_factory("octopia", common)
        self.world = World(
            Product(rows, parents).links,
            lambda context: (mine if context.broker == NEW else theirs)(context),
            SeededUnderlay(seed),
            costs=ServiceCosts(transmission_us=random.choice([0, 2_000, 20_000])),
            seed=seed,
        )
        self.marks = Marks(self)
        self.world.trace.deliveries = self.marks
        for name in names:
            self._add_clients(name)
        for number in range(60):
            at_us = COMES_US - SECOND_US // 2 + number * 20_000
            name = random.choice(names)
            noise = publication(number, f"P{name}", x=-2)
            self.world.request(at_us, f"P{name}", Publish((noise,)))
        beside = random.choice(names)
        self.world.add_broker(COMES_US, NEW, [beside])
        self._open(COMES_US + random.choice([2, 100_000, SECOND_US]))
        self.asked: list[str] = []

    def _add_clients(self, name: str) -> None:
        """A publisher, and a subscriber of marks as a front end is."""
        self.world.add_publisher(f"P{name}", name, name)
        self.world.advertise(0, advertisement(f"p{name}", "x >= -2", publisher=f"P{name}"))
        self.world.add_subscriber(f"M{name}", name)
        marks = subscription(f"m{name}", "x <= -1", client=f"M{name}")
        self.world.subscribe(2 * SECOND_US, name, marks)

    def _open(self, at_us: int) -> None:
        """A client subscribes, maybe at once, and a mark follows.

        The front end's advertisement is made at the broker's start, before any link.
        """
        self.world.add_subscriber("S", NEW)
        promise = advertisement("mark", "x = -1", publisher="mark")
        self._ask(COMES_US, Requested("mark", Advertise(promise)))
        self._ask(at_us, Requested("S", Subscribe(subscription("s", "x >= 0", client="S"))))
        self._ask(at_us, Requested("mark", Publish((publication(0, "mark", x=-1),))))

    def _ask(self, at_us: int, request: Requested) -> None:
        def ask(now_us: int, argument: Requested) -> None:
            self.world.brokers[NEW].receive(now_us, argument)

        self.world.queue.push(at_us, ask, request)

    def mark_has_come(self, row: DeliveryEvent) -> None:
        strategy = self.world.brokers[row.broker].machine.strategy
        assert isinstance(strategy, Octopia)
        if NEW not in strategy.product:
            self.marks.unknown.append(row.broker)
        self.asked.append(row.broker)
        if len(self.asked) == len(self.names):
            at_us = self.world.queue.now_us + BITS_US
            for name in self.names:
                self.world.request(at_us, f"P{name}", publish(100, publisher=f"P{name}"))


@pytest.mark.parametrize("seed", range(12))
def test_a_mark_reaches_no_broker_before_it_knows_the_cluster(seed: int) -> None:
    network = Network(seed)
    network.world.run(COMES_US + 60 * SECOND_US)
    assert sorted(network.asked) == sorted(network.names)
    assert network.marks.unknown == []
    got = {row.publication.publisher for row in network.marks if row.client == "S"}
    assert got == {f"P{name}" for name in network.names}


def test_the_judge_notices_an_unannounced_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mutant: the broker beside the new one does not announce its place."""
    monkeypatch.setattr(PlaceNews, "send", _only_to_the_new_one(PlaceNews.send))
    unknown = []
    for seed in range(12):
        network = Network(seed)
        network.world.run(COMES_US + 60 * SECOND_US)
        unknown += network.marks.unknown
    assert unknown


def _only_to_the_new_one(say: Callable[..., None]) -> Callable[..., None]:
    def said(
        self: PlaceNews, places: list[RosterPlace], but: str | None, out: list[Effect]
    ) -> None:
        is_beside = NEW in self._linked
        kept = [each for each in places if is_beside and each.broker == NEW and not each.comes]
        say(self, [each for each in places if each not in kept], but, out)
        if kept and but != NEW:
            out.append(Send(NEW, PlacesAnnounced(tuple(kept))))

    return said
