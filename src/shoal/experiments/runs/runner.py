"""One scenario, run in the simulator: workload in, trace tables and first checks out.

Clients start one after the other, advertisements first, then subscriptions; when all has settled,
the events are replayed at their times. A subscription that comes later is made ahead of its time,
and one that goes is withdrawn after it, each by the settling time, or longer where publishers move;
its deliveries beyond its time do not count. Faults, joins, leaves and moves happen at the times the
scenario gives, counted from the start of the run like everything else; those that are drawn happen
during the replay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path

import msgspec

from shoal.broker.messages import Publish
from shoal.broker.strategy import Strategy
from shoal.broker.wire import COMMON, Codec
from shoal.experiments.networks.topologies import scenario_links
from shoal.experiments.networks.underlays import build_underlay
from shoal.experiments.run_files import (
    RunEvent,
    RunFileError,
    SubscriptionRow,
    WorkloadFiles,
    read_workload,
)
from shoal.experiments.runs.run_totals import RunTotals
from shoal.experiments.runs.trace_sinks import MemorySink, Tables, TraceSink
from shoal.experiments.runs.trace_tables import Checks, RunTrace
from shoal.experiments.scenarios.costs import message_costs
from shoal.experiments.scenarios.faults import bandwidths, check_faults, link_faults
from shoal.experiments.scenarios.planned_changes import PlannedChanges, with_bursts
from shoal.experiments.scenarios.scenario import Scenario, costs_by_broker
from shoal.language import FilterSyntaxError, parse
from shoal.language.conflation_rules import (
    ConflationRule,
    ConflationRuleError,
    read_conflation,
)
from shoal.model import Advertisement, BrokerId, ClientId, Filter, Publication, Subscription
from shoal.overlays.registry import SYSTEMS, strategy_factory
from shoal.overlays.shapes import Link
from shoal.simulation.conflation import pace_of
from shoal.simulation.faults import LinkFaults
from shoal.simulation.sizes import message_sizes
from shoal.simulation.world import World

# Filters of the last workloads: a study's runs on one network have the same.
REMEMBERED_FILTERS = 16_384
# Told the virtual time, its end, and how far the busiest broker is behind, in µs.
Progress = Callable[[int, int, int], None]


class RunResult(msgspec.Struct, frozen=True, kw_only=True):
    """Output of a run: columns by table (see `run_files.RUN_TABLES`), counts that judge it, and
    sums over its rows.
    """

    tables: Tables
    checks: Checks
    totals: RunTotals


def run_scenario(
    scenario: Scenario,
    progress: Progress | None = None,
    *,
    observe: Callable[[Sequence[Strategy]], None] | None = None,
    sink: TraceSink | None = None,
    connect: Mapping[ClientId, BrokerId] | None = None,
    replay_until_us: int | None = None,
) -> RunResult:
    """Simulate a scenario.

    `progress` is told about once per virtual second; as often, `observe` may look at the system at
    every broker. The rows go to `sink` while the run goes on; without one, into memory. `connect`
    lets publishers start at other brokers than the workload says, without standing elsewhere; the
    replay may end before its last event. Unusable files, brokers or filters in the scenario are a
    ValueError that names the key.
    """
    workload = changed(read_workload(Path(scenario.workload.path)), connect or {}, replay_until_us)
    links = scenario_links(scenario, workload)
    return run_workload(scenario, workload, links, progress, observe=observe, sink=sink)


def run_workload(
    scenario: Scenario,
    workload: WorkloadFiles,
    links: list[Link],
    progress: Progress | None = None,
    *,
    observe: Callable[[Sequence[Strategy]], None] | None = None,
    sink: TraceSink | None = None,
    make_world: Callable[..., World] = World,
) -> RunResult:
    """Simulate a scenario with this workload and these links, whatever it says of either."""
    workload = with_bursts(workload, scenario.bursts, scenario.seed)
    changes, built = _planned(scenario, workload, links, make_world)
    world = built()
    subscriptions = _start_clients(world, workload, scenario, changes)
    settled_us = world.queue.last_us + scenario.run.settle_us
    changes.draw_moves(settled_us, settled_us + workload.events.last_replay_us)
    _come_and_go(world, workload, subscriptions, settled_us, scenario, changes)
    _change_network(world, scenario, changes)
    _Replay(world, iter(workload.events), settled_us).start()
    for crash in scenario.faults.crashes:
        world.crash(crash.at_us, crash.broker)
        world.restart(crash.back_us, crash.broker)
    for down in scenario.faults.link_downs:
        world.cut(down.at_us, down.left, down.right)
        world.heal(down.back_us, down.left, down.right)
    end_us = settled_us + workload.events.last_replay_us
    sink = sink or MemorySink()
    workload = workload._replace(brokers=[*workload.brokers, *changes.broker_rows])
    links = [*links, *changes.joined_links]
    trace = RunTrace(world, workload, links, subscriptions, settled_us, sink, changes.spells)

    most_behind_us = 0

    def tick(now_us: int) -> None:
        nonlocal most_behind_us
        trace.take(now_us)
        behind_us = world.behind_us
        most_behind_us = max(most_behind_us, behind_us)
        if progress is not None:
            progress(min(now_us, end_us), end_us, behind_us)
        if observe is not None:
            observe([node.machine.strategy for node in world.brokers.values()])

    world.run(end_us + scenario.run.drain_us, tick)
    trace.finish()
    tables = sink.close()
    checks = trace.checks(scenario.seed)
    leaving = {each.broker for each in scenario.membership.leaves}
    more = {"most_behind_us": most_behind_us, "derived_subscriptions": workload.derived}
    if leaving:
        more["unfinished_leaves"] = len(leaving - world.departures.keys())
    return RunResult(tables=tables, checks={**checks, **more}, totals=trace.totals)


def check_scenario(scenario: Scenario, workload: WorkloadFiles) -> None:
    """ValueError for a key that this workload cannot serve; nothing is simulated."""
    _planned(scenario, workload, scenario_links(scenario, workload), World)


def changed(
    workload: WorkloadFiles, connect: Mapping[ClientId, BrokerId], replay_until_us: int | None
) -> WorkloadFiles:
    """The workload with publishers that start at other brokers, and a replay that ends earlier."""
    publishers = [
        msgspec.structs.replace(
            row, broker=connect.get(row.publisher, row.broker), place=row.place or row.broker
        )
        for row in workload.publishers
    ]
    events = workload.events
    if replay_until_us is not None:
        events = events.before(replay_until_us)
    return workload._replace(publishers=publishers, events=events)


def _planned(
    scenario: Scenario,
    workload: WorkloadFiles,
    links: list[Link],
    make_world: Callable[..., World],
) -> tuple[PlannedChanges, Callable[[], World]]:
    """The changes of a run, and its world, which is not built yet; ValueError names a key."""
    brokers = [row.broker for row in workload.brokers]
    check_faults(scenario.faults, {*brokers}, links)
    underlay = build_underlay(scenario.underlay, workload.brokers, scenario.seed)
    changes = PlannedChanges(scenario, workload, links, underlay)
    joining = {join.broker: changes.place_of(join) for join in scenario.membership.joins}
    return changes, partial(
        make_world,
        links,
        strategy_factory(scenario.system, scenario.parameters, brokers),
        underlay,
        brokers=brokers,
        costs=scenario.service,
        own_costs=costs_by_broker(scenario.service, brokers),
        link_faults=LinkFaults(
            loss=scenario.faults.link_loss, jitter_us=scenario.faults.link_delay_jitter_us
        ),
        own_faults=link_faults(scenario.faults),
        bandwidths=bandwidths(scenario.bandwidth, {*brokers, *joining}),
        message_costs=message_costs(
            scenario.costs,
            scenario.service.processing_us,
            {**{name: name for name in brokers}, **joining},
            [*links, *changes.joined_links],
            underlay,
        ),
        takes_clients=changes.takes_clients,
        seed=scenario.seed,
        window_us=scenario.trace.window_us,
        sizes=message_sizes(Codec(COMMON + tuple(SYSTEMS[scenario.system].messages))),
    )


def _start_clients(
    world: World, workload: WorkloadFiles, scenario: Scenario, changes: PlannedChanges
) -> dict[str, Filter]:
    """Schedule every client's start; the filters by subscription."""
    path = Path(scenario.workload.path)
    spacing_us = scenario.run.client_spacing_us
    at_us = scenario.run.advertise_at_us
    started = set()
    for row in workload.publishers:
        if row.publisher not in started:
            started.add(row.publisher)
            world.add_publisher(row.publisher, row.broker, row.place or row.broker)
        promise = _parse(row.advertisement, path, "publishers", row.advertisement_id)
        advertisement = Advertisement(
            id=row.advertisement_id, publisher=row.publisher, filter=promise
        )
        world.advertise(at_us, advertisement)
        at_us += spacing_us
    at_us = max(at_us, scenario.run.subscribe_at_us)
    filters = {}
    for interest in workload.subscriptions:
        filters[interest.subscription] = _parse(
            interest.filter, path, "subscriptions", interest.subscription
        )
        world.add_subscriber(interest.client, interest.place or interest.broker)
        rule = _rule_of(interest, path)
        if rule is not None:
            world.conflation.add(interest.subscription, interest.client, rule)
        first_us, _ = next(iter(changes.spells_of(interest)), (None, None))
        if first_us is None or first_us > scenario.run.settle_us:
            continue
        broker = changes.broker_of(interest.client, interest.broker, at_us)
        world.subscribe(at_us, broker, _subscription(interest, filters))
        at_us += spacing_us
    return filters


def _subscription(row: SubscriptionRow, filters: Mapping[str, Filter]) -> Subscription:
    pace = pace_of(read_conflation(row.every, row.changed))
    return Subscription(
        id=row.subscription, client=row.client, filter=filters[row.subscription], pace=pace
    )


def _rule_of(row: SubscriptionRow, path: Path) -> ConflationRule | None:
    try:
        return read_conflation(row.every, row.changed)
    except ConflationRuleError as error:
        raise RunFileError(
            f"{path / 'subscriptions'}.parquet: subscription {row.subscription!r}: {error}"
        ) from None


def _come_and_go(
    world: World,
    workload: WorkloadFiles,
    filters: Mapping[str, Filter],
    start_us: int,
    scenario: Scenario,
    changes: PlannedChanges,
) -> None:
    """Schedule the changes of subscriptions during the replay."""
    settle_us, withdrawal_us = scenario.run.settle_us, scenario.withdrawal_us
    for row in workload.subscriptions:
        subscription = _subscription(row, filters)
        for from_us, until_us in changes.spells_of(row):
            if from_us > settle_us:
                at_us = start_us + from_us - settle_us
                broker = changes.broker_of(row.client, row.broker, at_us)
                world.subscribe(at_us, broker, subscription)
            if until_us is not None:
                world.unsubscribe(start_us + until_us + withdrawal_us, row.broker, subscription)


def _change_network(world: World, scenario: Scenario, changes: PlannedChanges) -> None:
    """Schedule joins and leaves of brokers, and moves of clients."""
    places = {join.broker: changes.place_of(join) for join in scenario.membership.joins}
    for join in scenario.membership.joins:
        world.add_broker(join.at_us, join.broker, join.links, places[join.broker])
    for leave in scenario.membership.leaves:
        world.drain_broker(leave.at_us, leave.broker)
    for move in changes.moves:
        place = places.get(move.broker, move.broker)
        world.move(move.at_us, move.client, move.broker, place)


@lru_cache(REMEMBERED_FILTERS)
def parsed(text: str) -> Filter:
    """The filter of a text; FilterSyntaxError."""
    return parse(text)


def _parse(text: str, path: Path, table: str, name: str) -> Filter:
    try:
        return parsed(text)
    except FilterSyntaxError as error:
        raise RunFileError(f"{path / table}.parquet: filter of {name!r}: {error}") from None


class _Replay:
    """Feeds events into the world one by one, so that the event queue stays small."""

    def __init__(self, world: World, events: Iterator[RunEvent], start_us: int) -> None:
        self._world = world
        self._events = events
        self._start_us = start_us

    def start(self) -> None:
        self._schedule_next()

    def _schedule_next(self) -> None:
        event = next(self._events, None)
        if event is not None:
            self._world.queue.push(self._start_us + event.replay_us, self._publish, event)

    def _publish(self, now_us: int, event: RunEvent) -> None:
        publication = Publication(
            publisher=event.publisher,
            sequence=event.sequence,
            published_us=now_us,
            attributes=event.attributes,
        )
        self._world.request(now_us, event.publisher, Publish((publication,)))
        self._schedule_next()
