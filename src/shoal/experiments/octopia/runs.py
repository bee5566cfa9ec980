"""The runs of the study as tasks: each simulates one network and records its measurements."""

from __future__ import annotations

import statistics
from collections.abc import Container, Iterator, Mapping
from functools import partial
from pathlib import Path
from random import Random

import msgspec

from shoal.broker.messages import Publish
from shoal.broker.strategy import Strategy
from shoal.experiments.octopia.data import Rows, read_publishers
from shoal.experiments.octopia.grid import (
    LATENCY_US,
    PUBLISHERS,
    OctopiaScale,
    OctopiaSetting,
    grid,
)
from shoal.experiments.octopia.measures import (
    SECOND_US,
    CountingDeliveries,
    MessagesByBroker,
    Queues,
    Tap,
    Words,
    tapped,
)
from shoal.experiments.octopia.network import LOTS, StudyClients, draw_clients, factory, overlay
from shoal.experiments.studies.runs import RecordedRun, content_digest, run_key
from shoal.matching import matches
from shoal.model import BrokerId, ClientId, Filter, Publication, Subscription
from shoal.overlays.octopia.places.labels import Product
from shoal.overlays.octopia.protocol import Octopia
from shoal.overlays.tid.protocol import Tid
from shoal.simulation.service import ServiceCosts
from shoal.simulation.trace import Published
from shoal.simulation.world import World

PROCESSING_US, MATCHING_US = 100, 100
# A word waits for one copy's time on an output.  A subscription is held against every row of the
# broker's SRT before it goes on: this for each.
WORD_US, ROW_US = 1_000, 10
WINDOW_US = 50_000
SUBSCRIBING_US = 10_000
# The cluster whose subscriptions end and begin; all have spread after so long.
CHURNING, SETTLED_US = 0, 30 * SECOND_US
# Advertisements have spread and subscriptions have arrived by then.
START_US = 30 * SECOND_US
MONITORED = 1_000
MOST_S = 4 * 3_600
# Brokers die after so long; later publications from the second time on must arrive.
DEATH_US, REPAIRED_US = 5 * SECOND_US, 10 * SECOND_US


class OctopiaMeasures(msgspec.Struct, frozen=True, kw_only=True):
    """Results of a run: figures by name, and greatest delays in a row, in s."""

    key: str
    data: str
    setting: OctopiaSetting
    figures: dict[str, float]
    series: list[float] = []


class OctopiaRun(RecordedRun[OctopiaMeasures], frozen=True, kw_only=True):
    """One network to be simulated; `file_of_data` has its publications, "" without publishers."""

    name: str
    cost: float
    data: str
    setting: OctopiaSetting
    scale: int
    file_of_data: str

    summary_type = OctopiaMeasures

    def measure(self) -> OctopiaMeasures:
        setting = self.setting
        series: list[float] = []
        if setting.part in ("publishers", "subscribers", "uneven", "loaded"):
            figures = _spread(setting)
        elif setting.part == "churn":
            figures = _churn(setting)
        else:
            rows = read_publishers(Path(self.file_of_data))
            if setting.part == "failures":
                figures = _fail(setting, rows)
            else:
                figures, series = measure_burst(setting, rows, max(1, MONITORED // self.scale))
        return OctopiaMeasures(
            key=self.key, data=self.data, setting=setting, figures=figures, series=series
        )


def study_runs(
    scale: OctopiaScale, files: Mapping[str, Path], root: Path, seed: int
) -> list[OctopiaRun]:
    """The runs of a scale on each data set's file as tasks."""
    found = []
    for data, file in files.items():
        digest = content_digest(file)
        for setting in grid(scale, seed):
            share = scale.share if setting.part == "burst" else scale.varied
            found.append(
                OctopiaRun(
                    key=run_key([data, digest, setting]),
                    file=str(root / data / f"{setting.name}.json"),
                    name=f"{data}/{setting.name}",
                    cost=setting.cost,
                    data=data,
                    setting=setting,
                    scale=share,
                    file_of_data=str(file),
                )
            )
    return found


class _Underlay:
    """Links that are alike, or each so long at random, both ways."""

    def __init__(self, most_us: int, seed: int) -> None:
        self._most_us = most_us
        self._seed = seed

    def latency_us(self, source_place: str, target_place: str) -> int:
        if self._most_us == LATENCY_US or source_place == target_place:
            return LATENCY_US
        ends = sorted((source_place, target_place))
        return Random(f"{self._seed}/{ends}").randint(LATENCY_US, self._most_us)


def _world(
    setting: OctopiaSetting,
    product: Product,
    costs: ServiceCosts,
    tap: Tap,
    repeats_from_us: int | None = None,
) -> World:
    tap_in = partial(tapped, tap=tap, window_us=WINDOW_US, repeats_from_us=repeats_from_us)
    return World(
        product.links,
        factory(setting.way, product, tap_in),
        _Underlay(setting.latency_us, setting.seed),
        brokers=product.brokers,
        costs=costs,
        seed=setting.seed,
        window_us=3_600 * SECOND_US,
    )


def _add_clients(world: World, clients: StudyClients, advertising_us: int) -> dict[str, int]:
    """All clients, those that subscribe a second and more later; when each said its word."""
    said: dict[str, int] = {}
    for number, (promise, home) in enumerate(clients.publishers):
        world.add_publisher(promise.publisher, home, home)
        said[promise.id] = number * advertising_us
        world.advertise(said[promise.id], promise)
    first_us = len(clients.publishers) * advertising_us + SECOND_US
    for number, (subscription, home) in enumerate(clients.subscribers):
        world.add_subscriber(subscription.client, home)
        said[subscription.id] = first_us + number * SUBSCRIBING_US
        world.subscribe(said[subscription.id], home, subscription)
    return said


# --- advertisements and subscriptions (figures 9 and 11) ----------------------------------------


def _spread(setting: OctopiaSetting) -> dict[str, float]:
    product, words = overlay(setting.clusters), Words()
    clients = draw_clients(setting, product)
    is_octopia = setting.way == "ordered"
    searched_us = 0
    subscribes = setting.part != "publishers"
    if subscribes:
        brokers = setting.clusters if is_octopia else len(product.brokers)
        searched_us = ROW_US * PUBLISHERS * brokers // len(product.brokers)
    costs = ServiceCosts(processing_us=PROCESSING_US + searched_us, transmission_us=WORD_US)
    world = _world(setting, product, costs, words)
    said = _add_clients(world, clients, setting.advertising_us)
    if subscribes:
        first = clients.subscribers[0][0].id
        world.run(said[first] - 1)
        words.messages = 0
    world.run(max(said.values()) + 30 * SECOND_US)
    many = clients.subscribers if subscribes else clients.publishers
    names = {each.id for each, _ in many}
    delays = words.delays_us({name: said[name] for name in names})
    nodes = [node.machine.strategy for node in world.brokers.values()]
    return {
        "delay_ms": statistics.fmean(delays) / 1_000,
        "messages": words.messages / len(names),
        "srt": statistics.fmean(map(_advertisements_at, nodes)),
        "prt": statistics.fmean(map(_subscriptions_at, nodes)),
    }


def _churn(setting: OctopiaSetting) -> dict[str, float]:
    """All subscriptions of one cluster end, and others begin there: the messages of it, and the
    share that brokers of other clusters receive.
    """
    product, received = overlay(setting.clusters), MessagesByBroker()
    clients = draw_clients(setting, product)
    costs = ServiceCosts(processing_us=PROCESSING_US, transmission_us=WORD_US)
    world = _world(setting, product, costs, received)
    said = _add_clients(world, clients, setting.advertising_us)
    received.from_us = at_us = max(said.values()) + SETTLED_US
    cluster = [
        (each, home)
        for each, home in clients.subscribers
        if product.position(home).cluster == CHURNING
    ]
    for number, (each, home) in enumerate(cluster):
        begins_us = at_us + number * SUBSCRIBING_US
        world.unsubscribe(begins_us, home, each)
        again = Subscription(id=f"{each.id}-again", client=each.client, filter=each.filter)
        world.subscribe(begins_us + SUBSCRIBING_US // 2, home, again)
    world.run(at_us + len(cluster) * SUBSCRIBING_US + SETTLED_US)
    messages = sum(received.counts.values())
    outside = sum(
        count
        for broker, count in received.counts.items()
        if product.position(broker).cluster != CHURNING
    )
    return {"messages": messages / len(cluster), "outside": outside / messages}


def _advertisements_at(strategy: Strategy) -> int:
    if isinstance(strategy, Octopia):
        return len(strategy.hosted.rows) + len(strategy.tables.secondary)
    assert isinstance(strategy, Tid)
    return sum(len(tree.advertisements) for tree in strategy.trees.all.values())


def _subscriptions_at(strategy: Strategy) -> int:
    if isinstance(strategy, Octopia):
        return len(strategy.tables.subscriptions)
    assert isinstance(strategy, Tid)
    return sum(len(tree.entries) for tree in strategy.trees.all.values())


# --- publications (figure 12) -------------------------------------------------------------------


class _OctopiaSource:
    """A publisher that publishes its rows in turn, so many at even times."""

    def __init__(
        self, number: int, rows: Rows, from_us: int, every_us: float, count: int, seed: int
    ) -> None:
        self.client: ClientId = f"P{number}"
        self._number = number
        self._rows = rows
        self._from_us = from_us
        self._every_us = every_us
        self.count = count
        random = Random(f"{seed}/{number}/lots")
        self.lots = [random.randrange(LOTS) for _ in range(count)]

    def publications(self) -> Iterator[Publication]:
        for sequence in range(self.count):
            yield Publication(
                publisher=self.client,
                sequence=sequence,
                published_us=self._from_us + round(sequence * self._every_us),
                attributes={
                    **self._rows[sequence % len(self._rows)],
                    "source": self._number,
                    "lot": self.lots[sequence],
                },
            )


def _sources(setting: OctopiaSetting, rows: list[Rows]) -> list[_OctopiaSource]:
    random = Random(f"{setting.seed}/times")
    found = [
        _OctopiaSource(
            number,
            rows[number % len(rows)],
            START_US + random.randrange(SECOND_US),
            SECOND_US if setting.part != "failures" else SECOND_US / 2,
            setting.beside,
            setting.seed,
        )
        for number in range(PUBLISHERS)
    ]
    if setting.burst:
        every_us = 60 * SECOND_US / setting.rate
        for number in range(PUBLISHERS, PUBLISHERS + setting.sources):
            its = rows[number % len(rows)]
            found.append(
                _OctopiaSource(number, its, START_US, every_us, setting.burst, setting.seed)
            )
    return found


class _Feed:
    """Asks for a source's publications one after the other, each when its time has come."""

    def __init__(self, world: World, source: _OctopiaSource) -> None:
        self._world = world
        self._left = source.publications()
        self._next = next(self._left, None)
        if self._next is not None:
            world.queue.push(self._next.published_us, self._publish, None)

    def _publish(self, now_us: int, _: None) -> None:
        publication, self._next = self._next, next(self._left, None)
        assert publication is not None
        self._world.request(now_us, publication.publisher, Publish((publication,)))
        if self._next is not None:
            self._world.queue.push(self._next.published_us, self._publish, None)


def _costs(setting: OctopiaSetting) -> ServiceCosts:
    return ServiceCosts(
        processing_us=PROCESSING_US,
        matching_us=MATCHING_US,
        transmission_us=setting.output_us,
        shared_outputs=setting.shared,
    )


def measure_burst(
    setting: OctopiaSetting, rows: list[Rows], consecutive: int, *, whole: bool = False
) -> tuple[dict[str, float], list[float]]:
    """Publications with bursts; if `whole`, the machines handle all of them."""
    product = overlay(setting.clusters)
    clients = draw_clients(setting, product)
    host = clients.publishers[PUBLISHERS][1]
    others = [each for each in product.rows[product.position(host).region] if each != host]
    queues, deliveries = Queues(host, others, START_US), CountingDeliveries(PUBLISHERS)
    world = _world(setting, product, _costs(setting), queues, None if whole else START_US)
    world.trace.deliveries = deliveries  # type: ignore[assignment]  # it counts what it is given
    world.trace.published = _Nothing()
    _add_clients(world, clients, setting.advertising_us)
    sources = _sources(setting, rows)
    for source in sources:
        _Feed(world, source)
    expected = sum(
        clients.wanted_by[number][lot]
        for number, source in enumerate(sources)
        for lot in source.lots
    )
    until_us = START_US
    while len(deliveries) < expected and until_us < MOST_S * SECOND_US:
        until_us += 10 * SECOND_US
        world.run(until_us)
    figures, series = deliveries.figures(START_US, consecutive)
    publications = sum(source.count for source in sources)
    # So long static routing takes to send the burst: at each output, or at all one after the other.
    drained_us = setting.burst * setting.output_us * (setting.clusters if setting.shared else 1)
    figures |= {
        "missing": float(expected - len(deliveries)),
        "copies": queues.copies / publications,
        "waiting": queues.mean_until(drained_us),
    }
    return figures, series


class _Nothing(list[Published]):
    """A list that stays empty."""

    def append(self, item: Published) -> None: ...


# --- brokers that die ---------------------------------------------------------------------------


def _fail(setting: OctopiaSetting, rows: list[Rows]) -> dict[str, float]:
    """Crash all brokers of a region but one at once; clients elsewhere must get everything."""
    product = overlay(setting.clusters)
    clients = draw_clients(setting, product)
    random = Random(f"{setting.seed}/{setting.clusters}/deaths")
    row = random.choice(product.rows)
    dead: set[BrokerId] = set(random.sample(row, k=setting.clusters - 1))
    homes = [home for _, home in clients.publishers]
    words = Words()
    world = _world(setting, product, _costs(setting), words)
    _add_clients(world, clients, setting.advertising_us)
    for broker in dead:
        world.crash(START_US + DEATH_US, broker)
    sources = _sources(setting, rows)
    for number, source in enumerate(sources):
        if homes[number] not in dead:
            _Feed(world, source)
    world.run(START_US + (setting.beside + 60) * SECOND_US)
    got = {(row.client, row.publication.key) for row in world.trace.deliveries}
    wanting = _wanting(clients, dead, setting.matched)
    lost, expected, latest_us = 0, 0, 0
    for number, source in enumerate(sources):
        if homes[number] in dead:
            continue
        for publication in source.publications():
            since_us = publication.published_us - START_US - DEATH_US
            for client, filter in wanting[number]:
                if not matches(filter, publication.attributes):
                    continue
                is_late = since_us > REPAIRED_US
                expected += is_late
                if (client, publication.key) not in got:
                    lost += is_late
                    latest_us = max(latest_us, since_us)
    return {"expected": expected, "lost": lost, "repaired_s": latest_us / SECOND_US}


def _wanting(
    clients: StudyClients, dead: Container[BrokerId], matched: int
) -> dict[int, list[tuple[ClientId, Filter]]]:
    """Return, by publisher, the subscribers of its publications that are not at a dead broker."""
    lots = range(0, LOTS, matched)  # one of these is among any `matched` in a row
    living = [subscription for subscription, home in clients.subscribers if home not in dead]
    return {
        number: [
            (each.client, each.filter)
            for each in living
            if any(matches(each.filter, {"source": number, "lot": lot}) for lot in lots)
        ]
        for number in range(PUBLISHERS)
    }
