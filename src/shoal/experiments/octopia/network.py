"""The network of section VIII: its brokers, clients' places, and subscriptions.

The tree of figure 10, of which the shape is lost, has four inner brokers and ten others. We take
the path F-G-H-I with three, two, two and three of these.

>>> product = overlay(5)
>>> len(product.brokers), len(product.links)
(70, 205)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import NamedTuple

from shoal.broker.strategy import BrokerContext, Strategy, StrategyFactory
from shoal.experiments.octopia.grid import PUBLISHERS, OctopiaSetting, Way
from shoal.language import parse
from shoal.model import Advertisement, BrokerId, Subscription
from shoal.overlays.octopia.parameters import Congestion, Dynamic, OctopiaParameters
from shoal.overlays.octopia.places.labels import Product
from shoal.overlays.octopia.protocol import Octopia
from shoal.overlays.tid.parameters import TidParameters
from shoal.overlays.tid.protocol import Tid

REGIONS = "FGHIABCDEJKLMN"
PARENTS = (0, 1, 2, 0, 0, 0, 1, 1, 2, 2, 3, 3, 3)
# Each subscription is for two of a hundred publishers: 2 % (VIII).
WANTED = 2
# 2 % of the subscribers want each burst.
WANT_A_BURST = 40
# Every publication has one of so many lots, and a subscription wants some of them.
LOTS = 100
ROUTING: Mapping[Way, tuple[Dynamic, Congestion]] = {
    "snr": (Dynamic.STATIC, Congestion.PAPER),
    "idr": (Dynamic.FREE, Congestion.PAPER),
    "steady": (Dynamic.FREE, Congestion.STEADY),
    "ordered": (Dynamic.ORDERED, Congestion.STEADY),
    "spread": (Dynamic.SPREAD, Congestion.STEADY),
}


def overlay(clusters: int) -> Product:
    """Its brokers are named by region and cluster, such as F0."""
    rows = [[f"{region}{cluster}" for cluster in range(clusters)] for region in REGIONS]
    return Product(rows, PARENTS)


def factory(
    way: Way, product: Product, tap: Callable[[type[Strategy]], type[Strategy]]
) -> StrategyFactory:
    """Return the factory of a way's brokers, of a class that `tap` makes of the system's."""
    if way in ("tid", "tid-dynamic"):
        tid = TidParameters(dynamic=way == "tid-dynamic").for_brokers(product.brokers)
        return _building(tap(Tid), tid)
    dynamic, congestion = ROUTING[way]
    octopia = OctopiaParameters(
        rows=product.rows, parents=product.parents, dynamic=dynamic, congestion=congestion
    )
    return _building(tap(Octopia), octopia)


def _building(kind: type[Strategy], parameters: object) -> StrategyFactory:
    def build(context: BrokerContext) -> Strategy:
        return kind(context, parameters)  # type: ignore[call-arg]  # both take these two

    return build


class StudyClients(NamedTuple):
    """Clients' places and subscriptions; sources from `PUBLISHERS` on publish bursts.

    wanted_by  by source: number of subscribers of its publications of each lot
    """

    publishers: list[tuple[Advertisement, BrokerId]]
    subscribers: list[tuple[Subscription, BrokerId]]
    wanted_by: Mapping[int, Sequence[int]]


def draw_clients(setting: OctopiaSetting, product: Product) -> StudyClients:
    """Draw random places for all clients; the subscribers of a burst are in every cluster, and not
    at its host.
    """
    random = Random(f"{setting.seed}/{setting.clusters}/clients")
    is_burst = setting.burst > 0
    publishers = setting.count if setting.part == "publishers" else PUBLISHERS
    homes = [random.choice(product.brokers) for _ in range(publishers)]
    edge = [broker for row in product.rows[4:] for broker in row]
    homes += [random.choice(edge) for _ in range(setting.sources * is_burst)]
    promises = [
        (Advertisement(id=f"A{n}", publisher=f"P{n}", filter=parse(f"source = {n}")), home)
        for n, home in enumerate(homes)
    ]
    subscribers: list[tuple[Subscription, BrokerId]] = []
    wanted_by = {source: [0] * LOTS for source in range(len(homes))}
    lots = Random(f"{setting.seed}/lots")

    def subscribe(home: BrokerId, *sources: int) -> None:
        name = f"S{len(subscribers)}"
        first = lots.randrange(LOTS)
        text = f"source IN ({', '.join(map(str, sources))}){_of_lots(first, setting.matched)}"
        subscribers.append((Subscription(id=name, client=name, filter=parse(text)), home))
        for source in sources:
            for lot in range(first, first + setting.matched):
                wanted_by[source][lot % LOTS] += 1

    if setting.part != "publishers":
        for _ in range(setting.count):
            subscribe(random.choice(product.brokers), *random.sample(range(PUBLISHERS), WANTED))
    for source in range(publishers, len(homes)):
        elsewhere = [broker for broker in product.brokers if broker != homes[source]]
        for number in range(WANT_A_BURST):
            cluster = number % product.clusters
            here = [each for each in elsewhere if product.position(each).cluster == cluster]
            subscribe(random.choice(here), source)
    return StudyClients(promises, subscribers, wanted_by)


def _of_lots(first: int, count: int) -> str:
    """A condition for so many lots from the first one on, around the end.

    >>> _of_lots(20, 50), _of_lots(60, 50), _of_lots(7, 100)
    (' AND lot BETWEEN 20 AND 69', ' AND (lot >= 60 OR lot < 10)', '')
    """
    if count >= LOTS:
        return ""
    if first + count <= LOTS:
        return f" AND lot BETWEEN {first} AND {first + count - 1}"
    return f" AND (lot >= {first} OR lot < {first + count - LOTS})"
