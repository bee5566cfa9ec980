"""Savings of moving publishers, of moving subscribers, and of both, on flights and on quotes.

For flights, brokers are at the busiest airports, connected by the shortest tree over the map; for
quotes they are in a random tree, with equal distances. A publisher's subscribers are at random
brokers, and have their places. Each workload is simulated once for each set of moving clients, and
for each aim: load, delay, or the knee between both. The table has, for the last third:

- messages that brokers receive per second, brokers' own among them, and the mean delay;
- the number of moves of publishers and subscriptions;
- regret, if subscribers move: for how many of 100 subscribers another broker would be at least 5 %
  better in the figure that counts, with all others as they are in the end; and the excess cost of
  all subscribers, in percent of their cost at the start. At the knee neither figure counts alone.

    python benchmarks/bench_moving_clients.py FOLDER [BROKERS [PUBLISHERS]]

Workloads are made in the folder by Spark, or taken from there. The whole takes some minutes.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

from shoal.experiments.networks.topologies import scenario_links
from shoal.experiments.networks.underlays import build_underlay
from shoal.experiments.run_files import RunEvent, WorkloadFiles, read_workload
from shoal.experiments.runs.runner import RunResult, run_workload
from shoal.experiments.scenarios.scenario import Scenario, parse_scenario
from shoal.experiments.studies.data import DataSet, Walks, ingest
from shoal.frames.times import instant
from shoal.language import parse
from shoal.matching.semantics import matches
from shoal.pipeline.session import spark_session
from shoal.pipeline.workloads.windows import TimeWindow
from shoal.pipeline.workloads.workload import WorkloadOptions, write_workload

SECOND_US = 1_000_000
SUBSCRIBERS = 12
DURATION_US = 240 * SECOND_US
DATA = (
    DataSet("flights", "flights from New York, ten days of 2013", ""),
    DataSet("quotes", "synthetic stock quotes", "", walks=Walks(stocks=50, days=400)),
)
AIMED_AT = {
    "flights": ("dep_delay", "arr_delay", "distance", "air_time"),
    "quotes": ("highLow%Diff", "volume", "openClose%Diff"),
}
WINDOWS = {"flights": TimeWindow(instant("2013-01-01"), instant("2013-01-11"))}
PRIORITIES = ("load", "delay", "knee")
MOVES = ("publishers", "subscribers", "both")
COLUMNS = ("messages/s", "delay (ms)", "publishers", "subscribers", "regret (%)", "excess (%)")
# A publication's time in a broker with two outputs, as in the scenario's service costs.
INSIDE_US = 1_100


class Regret(NamedTuple):
    """Subscribers for which another broker is better, and the excess cost of all of them."""

    share: float
    excess: float


def scenario(workload: Path, data: str, system: str, **grape: str) -> Scenario:
    flights = {"topology": {"kind": "minimum_spanning"}}
    quotes = {"topology": {"kind": "random"}, "underlay": {"kind": "constant"}}
    return parse_scenario(
        (flights if data == "flights" else quotes)
        | {
            "name": "moving", "system": system, "workload": {"path": str(workload)},
            "grape": {"trace_session_length": 50, **grape},
            "run": {"client_spacing_us": 0}, "service": {"matching_per_subscription_ns": 0},
        }
    )  # fmt: skip


def figures(result: RunResult) -> list[float]:
    """The first four columns; AssertionError if anything was lost or doubled."""
    assert not any(result.checks[name] for name in ("duplicates", "phantoms", "out_of_order"))
    deliveries, load = result.tables["deliveries"], result.tables["load"]
    end_us = max(deliveries["published_us"])
    from_us = end_us - DURATION_US // 3
    late = [
        delivered_us - published_us
        for published_us, delivered_us in zip(
            deliveries["published_us"], deliveries["delivered_us"], strict=True
        )
        if published_us >= from_us
    ]
    taken = sum(
        messages
        for start_us, messages in zip(load["window_start_us"], load["messages_in"], strict=True)
        if from_us <= start_us < end_us
    )
    moved = [len(result.tables[name]["source"]) for name in ("migrations", "subscriber_moves")]
    return [taken / ((end_us - from_us) / SECOND_US), mean(late) / 1_000, *map(float, moved)]


class Places:
    """The places of all clients at the end of a run, and brokers' costs for a subscriber."""

    def __init__(self, scenario: Scenario, workload: WorkloadFiles, result: RunResult) -> None:
        self.brokers = [row.broker for row in workload.brokers]
        underlay = build_underlay(scenario.underlay, workload.brokers, scenario.seed)
        self._latency_us = underlay.latency_us
        neighbours: dict[str, list[str]] = defaultdict(list)
        for left, right in scenario_links(scenario, workload):
            neighbours[left].append(right)
            neighbours[right].append(left)
        self._ways = {name: dict(_ways(neighbours, name)) for name in self.brokers}
        self.publishers = {row.publisher: row.broker for row in workload.publishers}
        tables = result.tables
        moved = tables["migrations"]
        self.publishers |= dict(zip(moved["publisher"], moved["target"], strict=True))
        self.subscribers = {row.subscription: row.broker for row in workload.subscriptions}
        moved = tables["subscriber_moves"]
        self.subscribers |= dict(zip(moved["subscription"], moved["target"], strict=True))
        self._filters = {row.subscription: parse(row.filter) for row in workload.subscriptions}
        self.homes = {row.subscription: row.place or row.broker for row in workload.subscriptions}

    def costs(self, events: list[RunEvent], figure: str) -> Mapping[str, Mapping[str, float]]:
        """For each subscriber, the summed load or delay of these publications at each broker."""
        found: dict[str, dict[str, float]] = defaultdict(lambda: dict.fromkeys(self.brokers, 0.0))
        for event in events:
            ways = self._ways[self.publishers[event.publisher]]
            wanted = [
                name for name, each in self._filters.items() if matches(each, event.attributes)
            ]
            if figure == "delay":
                delays = {broker: self._delay_us(ways[broker]) for broker in self.brokers}
            passed: dict[str, int] = defaultdict(int)
            for name in wanted:
                for broker in ways[self.subscribers[name]]:
                    passed[broker] += 1
            for name in wanted:
                own = set(ways[self.subscribers[name]])
                for broker in self.brokers:
                    if figure == "delay":
                        last_us = self._latency_us(broker, self.homes[name])
                        found[name][broker] += delays[broker] + last_us
                    else:
                        found[name][broker] += sum(
                            passed[each] == (each in own) for each in ways[broker][1:]
                        )
        return found

    def _delay_us(self, way: list[str]) -> float:
        links = pairwise(way)
        return sum(self._latency_us(*link) for link in links) + INSIDE_US * len(way)


def _ways(neighbours: Mapping[str, list[str]], start: str) -> Iterator[tuple[str, list[str]]]:
    waiting = [[start]]
    for way in waiting:
        yield way[-1], way
        waiting += [[*way, each] for each in neighbours[way[-1]] if each not in way]


def regret(places: Places, events: list[RunEvent], figure: str) -> Regret:
    worse, more, began = 0, 0.0, 0.0
    costs = places.costs(events, figure)
    for name, by_broker in costs.items():
        now, best = by_broker[places.subscribers[name]], min(by_broker.values())
        worse += now > 1.05 * best
        more += now - best
        began += by_broker[places.homes[name]]
    share = 100 * worse / max(1, len(costs))
    return Regret(share, 100 * more / (began or 1))


def last_events(workload: WorkloadFiles) -> list[RunEvent]:
    """Every tenth event of the last third."""
    from_us = workload.events.last_replay_us - DURATION_US // 3
    return [event for event in workload.events if event.replay_us >= from_us][::10]


def measure(name: str, folder: Path) -> None:
    workload = read_workload(folder)
    events = last_events(workload)
    subscriptions = len(workload.subscriptions)
    print(f"\n{name}: {len(workload.brokers)} brokers, {subscriptions} subscriptions", flush=True)
    print(f"{'':24}" + "".join(f"{column:>13}" for column in COLUMNS))
    runs: list[tuple[str, str, dict[str, str]]] = [
        ("nobody", "tree", {}),
        *(
            (f"{moves}, {priority}", "grape", {"moves": moves, "priority": priority})
            for priority in PRIORITIES
            for moves in MOVES
        ),
    ]
    for label, system, parameters in runs:
        made = scenario(folder, name, system, **parameters)
        result = run_workload(made, workload, scenario_links(made, workload))
        row: list[Any] = [f"{each:13,.1f}" for each in figures(result)]
        if parameters.get("moves", "publishers") != "publishers" and "knee" not in label:
            found = regret(Places(made, workload, result), events, parameters["priority"])
            row += [f"{each:13,.1f}" for each in found]
        print(f"{label:24}" + "".join(row), flush=True)


def prepare(folder: Path, data: DataSet, brokers: int, publishers: int) -> None:
    """Make a workload, unless it exists."""
    if folder.is_dir():
        return
    publications = folder.with_name(f"{data.name}-publications")
    options = WorkloadOptions(
        brokers=f"airports:{brokers}" if data.name == "flights" else str(brokers),
        subscriptions=SUBSCRIBERS,
        spread=min(8, brokers),
        publishers=publishers,
        aim_at=AIMED_AT[data.name],
        duration_us=DURATION_US,
        window=WINDOWS.get(data.name, TimeWindow()),
    )
    with spark_session("moving clients", memory="1g") as spark:
        ingest(spark, data, publications, seed=1)
        write_workload(spark, publications, folder, options)


def main(root: Path, brokers: int = 31, publishers: int = 12) -> None:
    for data in DATA:
        folder = root / f"{data.name}-{brokers}-{publishers}"
        prepare(folder, data, brokers, publishers)
        measure(data.name, folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
