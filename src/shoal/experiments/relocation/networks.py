"""Scaling: tracing and selection on networks of more and more brokers.

The networks keep the proportions of a large installation: about 10 publishers per broker, 10
subscribers per publisher, spread at random in the paper's classes. Publishers are traced but stay
at their brokers (no gain is large enough), so that only tracing differs from the baseline: control
messages, processor time and memory per publication. A selection is timed by itself, on traces from
every broker.

Processor times are measured on the machine at hand; all else is virtual and repeats exactly.
"""

from __future__ import annotations

import fcntl
import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, Self

import msgspec

from shoal.broker.messages import Publish
from shoal.broker.strategy import BrokerContext, Strategy, StrategyFactory
from shoal.clients.records import MigrationRecord
from shoal.experiments.relocation.grid import BROKERS, LAST, RelocationScale, System
from shoal.experiments.relocation.measuring.memory import tracing_bytes
from shoal.experiments.scenarios.scenario import Service
from shoal.experiments.studies.runs import RecordedRun, run_key
from shoal.language import parse
from shoal.model import Advertisement, BrokerId, Publication, Subscription
from shoal.overlays.publisher_relocation.choosing import Priority
from shoal.overlays.publisher_relocation.grape.parameters import (
    GrapeParameters,
)
from shoal.overlays.publisher_relocation.grape.planner import Snapshot, select
from shoal.overlays.publisher_relocation.pop.parameters import PopParameters
from shoal.overlays.publisher_relocation.records import SelectionRecord
from shoal.overlays.publisher_relocation.traces import BrokerTrace
from shoal.overlays.registry import strategy_factory
from shoal.overlays.shapes import balanced_tree
from shoal.simulation.links.underlay import ConstantUnderlay
from shoal.simulation.world import World

COMPARED: tuple[System, ...] = ("tree", "grape", "pop")
PUBLISHERS_PER_BROKER = 10
MOST_PUBLISHERS = 10_000
SUBSCRIBERS_EACH = 10
# A trace session of the default length, and a few more publications to see its answers arrive.
PUBLICATIONS_EACH = 110
# The largest network's root, which sees most publications, is then busy a quarter of the time,
# and has the subscriptions behind it when publishing begins.
INTERVAL_US = 20_000_000
SUBSCRIBING_US = 20_000_000
PUBLISHING_US = 120_000_000
LATENCY_US = 2_000
# Matching by an index: its cost does not grow with the table, which here has up to 50,000 rows.
COSTS = Service(matching_per_subscription_ns=0)
# No gain is large enough.
STILL: Mapping[System, msgspec.Struct] = {
    "grape": GrapeParameters(least_gain_percent=100),
    "pop": PopParameters(least_gain_percent=100),
}
# Shares of subscribers that want all, half or a tenth, as in the paper's random workload (5.1).
CLASSES = ((5, 100), (25, 50), (70, 10))
# All publishers are traced after so many publications.
TRACED_SO_FAR = 90
# Selections are timed so often, on different traces.
TIMED_SELECTIONS = 15


class NetworkSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One network of one size under one system; times in µs.

    hops                    messages that brokers took in while publications were published
    control_per_publication control messages in and out, over all brokers, per publication
    cpu_per_hop_us          processor time of the simulation per message taken in
    memory_bytes            of tracing's tables over all brokers, while all publishers are traced
    selection_us            virtual time from asking for traces to a decision, mean; GRAPE's alone,
                            for POP's request goes nowhere if no publisher may move
    choosing_us             processor time of the choice alone, traces from every broker, median
    """

    key: str
    system: System
    brokers: int
    publishers: int
    subscribers: int
    publications: int
    deliveries: int
    expected: int
    selections: int
    migrations: int
    hops: int
    control_per_publication: float
    cpu_per_hop_us: float
    cpu_per_publication_us: float
    memory_bytes: int | None
    selection_us: float | None = None
    choosing_us: float | None = None


class NetworkRun(RecordedRun[NetworkSummary], frozen=True, kw_only=True):
    """A network to be simulated."""

    system: System
    brokers: int
    seed: int

    summary_type = NetworkSummary

    @property
    def name(self) -> str:
        return f"networks/{self.brokers:04}/{self.system}"

    @property
    def cost(self) -> float:
        """In the unit of `RunSpec.cost`; ways grow with the depth of the tree."""
        return 0.6e6 * publishers_of(self.brokers) * self.brokers.bit_length()

    @property
    def rank(self) -> int:
        """Those larger than the paper's come last."""
        return 1 if self.brokers <= BROKERS["wide"] else LAST

    def measure(self) -> NetworkSummary:
        if self.rank != LAST:
            return simulate_network(self)
        with _alone():
            return simulate_network(self)


@contextmanager
def _alone() -> Iterator[None]:
    """Wait until no other large network is simulated on this machine.

    With 1,023 brokers, each of which knows 10,000 advertisements, one takes 10 GB.
    """
    path = Path(tempfile.gettempdir()) / f"shoal-large-network-{os.getuid()}"
    with path.open("w", encoding="ascii") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def network_runs(scale: RelocationScale, runs: Path, seed: int) -> list[NetworkRun]:
    """The networks of a scale as tasks."""
    found = []
    for brokers in scale.network_sizes:
        for system in COMPARED:
            key = run_key(["network", system, brokers, seed])
            file = runs / "networks" / f"{brokers:04}" / f"{system}.json"
            found.append(
                NetworkRun(system=system, brokers=brokers, seed=seed, key=key, file=str(file))
            )
    return found


def publishers_of(brokers: int) -> int:
    """Return how many publishers a network of that size has."""
    return min(MOST_PUBLISHERS, PUBLISHERS_PER_BROKER * brokers)


class _RelocationSource:
    """Every publisher publishes once per interval, at its own moment within it."""

    def __init__(self, world: World, publishers: int, random: Random) -> None:
        self._world = world
        self._values = Random(random.random())
        self._published = [0] * publishers
        self.expected = 0
        for number in range(publishers):
            at_us = PUBLISHING_US + random.randrange(INTERVAL_US)
            world.queue.push(at_us, self._publish, number)

    def _publish(self, now_us: int, number: int) -> None:
        sequence = self._published[number]
        value = self._values.randrange(100)
        self.expected += sum(value < share for share in wanted_shares())
        publication = Publication(
            publisher=f"P{number}",
            sequence=sequence,
            published_us=now_us,
            attributes={"source": number, "value": value},
        )
        self._world.request(now_us, publication.publisher, Publish((publication,)))
        self._published[number] = sequence + 1
        if sequence + 1 < PUBLICATIONS_EACH:
            self._world.queue.push(now_us + INTERVAL_US, self._publish, number)


def wanted_shares() -> list[int]:
    """The percentage of its publisher's publications that each subscriber wants."""
    counts = [max(1, round(SUBSCRIBERS_EACH * percent / 100)) for percent, _ in CLASSES[:2]]
    counts.append(SUBSCRIBERS_EACH - sum(counts))
    return [share for count, (_, share) in zip(counts, CLASSES, strict=True) for _ in range(count)]


def build_network(run: NetworkRun, strategies: list[Strategy]) -> World:
    """The network with its clients, nothing of which has happened yet; its brokers' systems."""
    random = Random(f"{run.seed}/{run.brokers}")
    names = [f"B{number}" for number in range(run.brokers)]
    world = World(
        balanced_tree(names, fan_out=2),
        _still(run.system, strategies),
        ConstantUnderlay(LATENCY_US),
        brokers=names,
        costs=COSTS,
        seed=run.seed,
        window_us=PUBLISHING_US,
    )
    for number in range(publishers_of(run.brokers)):
        publisher = f"P{number}"
        promise = f"source = {number}"
        home = random.choice(names)
        world.add_publisher(publisher, home, home)
        world.advertise(
            0, Advertisement(id=f"{publisher}.A", publisher=publisher, filter=parse(promise))
        )
        for index, share in enumerate(wanted_shares()):
            client = f"{publisher}.S{index}"
            text = promise if share == 100 else f"{promise} AND value < {share}"
            subscription = Subscription(id=client, client=client, filter=parse(text))
            broker = random.choice(names)
            world.add_subscriber(client, broker)
            world.subscribe(SUBSCRIBING_US, broker, subscription)
    return world


def _still(system: System, strategies: list[Strategy]) -> StrategyFactory:
    """The system, tracing as by default, in which no gain is large enough to move.

    The built strategies are added to `strategies`.
    """
    factory = strategy_factory(system, STILL.get(system))

    def build(context: BrokerContext) -> Strategy:
        strategy = factory(context)
        strategies.append(strategy)
        return strategy

    return build


class _CountingList(list[Any]):
    """A list that only counts: a large network's deliveries would fill the memory."""

    def __init__(self) -> None:
        super().__init__()
        self.counted = 0

    def append(self, item: Any) -> None:
        self.counted += 1

    def __iadd__(self, items: Any) -> Self:  # type: ignore[misc]  # whatever is added is counted
        self.counted += len(items)
        return self


def simulate_network(run: NetworkRun) -> NetworkSummary:
    """Run the network to its end and sum it up."""
    strategies: list[Strategy] = []
    world = build_network(run, strategies)
    deliveries, published = _CountingList(), _CountingList()
    world.trace.deliveries, world.trace.published = deliveries, published
    world.run(PUBLISHING_US - 1)
    publishers = publishers_of(run.brokers)
    source = _RelocationSource(world, publishers, Random(f"{run.seed}/values"))
    started = time.process_time()
    world.run(PUBLISHING_US + (TRACED_SO_FAR - 1) * INTERVAL_US)
    memory_bytes = tracing_bytes(strategies)
    world.run()
    cpu_us = (time.process_time() - started) * 1e6
    rows = [row for row in world.load_rows() if row.window_start_us >= PUBLISHING_US]
    hops = sum(row.messages_in for row in rows)
    control = sum(row.control_in + row.control_out for row in rows)
    took = [
        record.decided_us - record.requested_us
        for record in world.trace.records
        if isinstance(record, SelectionRecord)
    ]
    return NetworkSummary(
        key=run.key,
        system=run.system,
        brokers=run.brokers,
        publishers=publishers,
        subscribers=publishers * SUBSCRIBERS_EACH,
        publications=published.counted,
        deliveries=deliveries.counted,
        expected=source.expected,
        selections=len(took),
        migrations=sum(isinstance(record, MigrationRecord) for record in world.trace.records),
        hops=hops,
        control_per_publication=control / published.counted,
        cpu_per_hop_us=cpu_us / hops,
        cpu_per_publication_us=cpu_us / published.counted,
        memory_bytes=memory_bytes,
        selection_us=statistics.fmean(took) if run.system == "grape" and took else None,
        choosing_us=choosing_us(run.brokers, run.seed) if run.system == "grape" else None,
    )


def choosing_us(brokers: int, seed: int) -> float:
    """Processor time of one choice among this many brokers, all of which were traced: median."""
    random = Random(f"{seed}/choices")
    times = []
    for _ in range(TIMED_SELECTIONS):
        snapshot, ping_us = _traced(brokers, random)
        started = time.process_time_ns()
        select(snapshot, Priority.DELAY, 1, ping_us)
        times.append((time.process_time_ns() - started) / 1_000)
    return statistics.median(times)


def _traced(brokers: int, random: Random) -> tuple[Snapshot, dict[BrokerId, int]]:
    """Traces of a session of 100 publications from every broker, and ping times to each."""
    names = [f"B{number}" for number in range(brokers)]
    neighbours: dict[BrokerId, list[BrokerId]] = {name: [] for name in names}
    for left, right in balanced_tree(names, fan_out=2):
        neighbours[left].append(right)
        neighbours[right].append(left)
    traces = tuple(
        BrokerTrace(
            broker=name,
            neighbours=tuple(neighbours[name]),
            bits=random.getrandbits(100),
            deliveries=random.randrange(400),
            input_queue_us=random.randrange(1_000),
            matching_us=random.randrange(1_000),
            output_queue_us=tuple((other, random.randrange(50_000)) for other in neighbours[name]),
            client_output_us=random.randrange(1_000),
        )
        for name in names
    )
    snapshot = Snapshot(current=random.choice(names), traces=traces)
    return snapshot, {name: random.randrange(1, 100_000) for name in names}
