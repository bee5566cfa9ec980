"""Runs in which a compiled loop takes publications from broker to broker (`simulation/flows`).

The figures are those of `run_workload`; deliveries are columns of arrays, judged as arrays. What a
workload's runs share is prepared once for a process: its rows, and all matches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from shoal.broker.strategy import Strategy
from shoal.experiments.networks.topologies import scenario_links
from shoal.experiments.run_files import RunEvent, RunEvents, WorkloadFiles, read_workload
from shoal.experiments.runs.runner import RunResult, parsed, run_workload
from shoal.experiments.scenarios.scenario import Scenario
from shoal.matching.compiled.kernels.choice import compiles
from shoal.overlays.registry import SYSTEMS
from shoal.simulation.flows.flows import MOST_NEIGHBOURS
from shoal.simulation.flows.matches import Matches
from shoal.simulation.flows.world import FlowWorld

# Sections of a scenario that a world with flows does not know.
EXCLUDED = ("faults", "bandwidth", "membership", "mobility", "churn", "bursts")
# A study's runs come network by network; one network's workload takes some 100 MB.
PREPARED_WORKLOADS = 1


class ListedEvents(RunEvents):
    """Events that are kept as objects, for several runs."""

    def __init__(self, events: Sequence[RunEvent]) -> None:
        self._events = events

    def __len__(self) -> int:
        return len(self._events)

    def __iter__(self) -> Iterator[RunEvent]:
        return iter(self._events)

    def before(self, replay_us: int) -> ListedEvents:
        return ListedEvents([each for each in self._events if each.replay_us < replay_us])

    def at_speed(self, speed: float) -> RunEvents:
        """As `RunEvents.at_speed`."""
        return self.at_times([int(each.replay_us / speed) for each in self._events])

    @property
    def times_us(self) -> Any:
        return np.array([each.replay_us for each in self._events], np.int64)

    def at_times(self, replay_us: Any) -> ListedEvents:
        """As `RunEvents.at_times`."""
        pairs = zip(self._events, replay_us, strict=True)
        moved = [each._replace(replay_us=int(at_us)) for each, at_us in pairs]
        key = attrgetter("replay_us", "publisher", "sequence")
        return ListedEvents(sorted(moved, key=key))

    @property
    def last_replay_us(self) -> int:
        return self._events[-1].replay_us if self._events else 0

    @property
    def publishers(self) -> list[str]:
        return sorted({each.publisher for each in self._events})


class PreparedWorkload(NamedTuple):
    """A workload, and its matches; None where a world with flows does not suit it."""

    files: WorkloadFiles
    matches: Matches | None


class Judgement(NamedTuple):
    """Counts of deliveries, as `RunningJudge` has them."""

    delivered: int
    duplicates: int
    out_of_order: int
    phantoms: int


def prepared_workload(path: Path) -> PreparedWorkload:
    """Read a workload, and find all matches, unless the last call was for the same files."""
    stamps = (each.stat().st_mtime_ns for each in path.rglob("*"))
    return _prepared(path, tuple(sorted(stamps)))


@lru_cache(PREPARED_WORKLOADS)
def _prepared(path: Path, stamps: tuple[int, ...]) -> PreparedWorkload:
    files = read_workload(path)
    events = list(files.events)
    listed = files._replace(events=ListedEvents(events))
    if not (compiles() and _is_suitable(files)):
        return PreparedWorkload(listed, None)
    filters = {row.subscription: parsed(row.filter) for row in files.subscriptions}
    publications = [(each.publisher, each.attributes) for each in events]
    return PreparedWorkload(listed, Matches.of(publications, filters))


def _is_suitable(files: WorkloadFiles) -> bool:
    """Whether each client has one subscription, which stays and takes all publications."""
    rows = files.subscriptions
    clients = {row.client for row in rows}
    return len(clients) == len(rows) and not any(
        row.every or row.changed or row.from_us is not None or row.to_us is not None for row in rows
    )


def has_flows(scenario: Scenario, prepared: PreparedWorkload) -> bool:
    """Whether a scenario can run in a world with flows: no faults, subscribers that stay, and
    brokers with few neighbours.
    """
    system = SYSTEMS[scenario.system]
    return (
        prepared.matches is not None
        and system.by_tables
        and not system.moves_subscribers(scenario.parameters)
        and not scenario.service.shared_outputs
        and all(getattr(scenario, name) == type(getattr(scenario, name))() for name in EXCLUDED)
        and _most_neighbours(scenario, prepared.files) <= MOST_NEIGHBOURS
    )


def _most_neighbours(scenario: Scenario, workload: WorkloadFiles) -> int:
    ends = chain.from_iterable(scenario_links(scenario, workload))
    return max(Counter(ends).values(), default=0)


def run_flows(
    scenario: Scenario,
    workload: WorkloadFiles,
    prepared: PreparedWorkload,
    *,
    observe: Callable[[Sequence[Strategy]], None] | None = None,
) -> RunResult:
    """Simulate a scenario on a workload, which may be changed but for filters and events.

    The result's deliveries have the columns that measures need: publisher, sequence, broker,
    published_us, delivered_us, hops, as arrays.
    """
    matches = prepared.matches
    assert matches is not None
    events = list(prepared.files.events)
    keys = [(each.publisher, each.sequence) for each in events]
    subscribers = {
        row.subscription: (row.broker, row.place or row.broker) for row in workload.subscriptions
    }
    worlds: list[FlowWorld] = []

    def make_world(*links: Any, **options: Any) -> FlowWorld:
        for unknown in ("link_faults", "own_faults", "bandwidths"):
            options.pop(unknown)
        world = FlowWorld(*links, **options, matches=matches, keys=keys, subscribers=subscribers)
        worlds.append(world)
        return world

    def look(strategies: Sequence[Strategy]) -> None:
        worlds[0].flows.make_notes()
        if observe is not None:
            observe(strategies)

    links = scenario_links(scenario, workload)
    result = run_workload(scenario, workload, links, observe=look, make_world=make_world)
    rows = worlds[0].flows.deliveries
    published_us = _published_us(result.tables["publications"], keys)
    sequences = np.array([sequence for _, sequence in keys], np.int64)
    brokers = np.array([subscribers[name][0] for name in matches.subscriptions], object)
    publishers = np.array([publisher for publisher, _ in keys], object)
    deliveries = {
        "publisher": publishers[rows[:, 0]],
        "sequence": sequences[rows[:, 0]],
        "broker": brokers[rows[:, 1]],
        "published_us": published_us[rows[:, 0]],
        "delivered_us": rows[:, 2],
        "hops": rows[:, 3],
    }
    checks = {**result.checks, **judged(rows, sequences, matches)._asdict()}
    tables = {**result.tables, "deliveries": deliveries}
    return msgspec.structs.replace(result, tables=tables, checks=checks)


def judged(
    rows: npt.NDArray[np.int64], sequences: npt.NDArray[np.int64], matches: Matches
) -> Judgement:
    """Judge deliveries (publication, subscription, time, hops) in the order they were made."""
    places = {name: number for number, name in enumerate(matches.subscriptions)}
    group_of = np.full(len(places), -1, np.int64)
    number_of = np.zeros(len(places), np.int64)
    for group, names in enumerate(matches.groups):
        for number, name in enumerate(names):
            group_of[places[name]], number_of[places[name]] = group, number
    publication, subscription = rows[:, 0], rows[:, 1]
    is_wanted = matches.group[publication] == group_of[subscription]
    is_wanted &= matches.member[publication, number_of[subscription]] == 1
    pair = subscription * len(matches.publishers) + matches.group[publication]
    # Stable: deliveries at one time keep the order in which brokers made them.
    order = np.lexsort((rows[:, 2], pair))
    pair, sequence = pair[order], sequences[publication[order]]
    is_same = pair[1:] == pair[:-1]
    # One integer for each pair and sequence.
    keys = np.sort(pair * (sequences.max(initial=0) + 1) + sequence)
    return Judgement(
        delivered=len(rows),
        duplicates=int((keys[1:] == keys[:-1]).sum()),
        out_of_order=int((is_same & (sequence[1:] < sequence[:-1])).sum()),
        phantoms=int((~is_wanted).sum()),
    )


def _published_us(
    publications: Mapping[str, Sequence[Any]], keys: Sequence[tuple[str, int]]
) -> npt.NDArray[np.int64]:
    """When each publication was published; 0 of those that were not."""
    columns = (publications[name] for name in ("publisher", "sequence", "published_us"))
    times = {
        (publisher, sequence): at_us for publisher, sequence, at_us in zip(*columns, strict=True)
    }
    return np.array([times.get(key, 0) for key in keys], np.int64)
