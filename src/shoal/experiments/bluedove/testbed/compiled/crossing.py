"""Between the machines of a cluster and its arrays: `enter` and `leave` move all state.

A cluster is plain if nothing but the usual way of publications is under way:

    every owner of a place in the dispatchers' tables, which agree, serves it, or all dispatchers
    know that its broker is gone; no subscriptions or segments are on their way
    publications are at the first matcher that they were sent to, and none is assured
    messages under way are those of publications, gossip, loads, pulls, and requests to join

`enter` refuses any other cluster. Private parts of the machines are read and written here alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from heapq import heappush
from random import Random
from typing import Any, NamedTuple

import numpy as np

from shoal.broker.effects import MatchingWork, Received, Requested
from shoal.broker.messages import Message, Publish, RoutedPublication
from shoal.experiments.bluedove.testbed.compiled.arrays import (
    ANSWER,
    ASK,
    DONE,
    EVENTS,
    FIRST_RESULT,
    FIRST_SLOTS,
    FREE_SLOT,
    LATENCY,
    MADE,
    MATCH,
    MATCHED,
    MOST_DISPATCHERS,
    NO_SLOT,
    NOW,
    POLICY,
    PROCESSING,
    RECEIPT,
    REQUEST,
    SEND,
    SENT,
    WORDS,
    BrokerArrays,
    ClusterArrays,
    DispatcherArrays,
    MatcherArrays,
    TrafficArrays,
    empty_events,
    empty_slots,
    with_more_room,
)
from shoal.experiments.bluedove.testbed.compiled.kernel import append, put, take_slot
from shoal.experiments.bluedove.testbed.compiled.layout import ClusterLayout, layout_of, matcher_of
from shoal.experiments.bluedove.testbed.stream import MessageStream, publisher_of
from shoal.model import BrokerId, MessageId
from shoal.overlays.bluedove.cluster.forwarding import Policy
from shoal.overlays.bluedove.dispatching.dispatcher import Dispatcher
from shoal.overlays.bluedove.dispatching.lines import Pending
from shoal.overlays.bluedove.messages import (
    Digest,
    FoundMatches,
    GossipNews,
    JoinCluster,
    LoadReport,
    MatchAnswer,
    Matched,
    MatchRequest,
    Pull,
    Receipt,
)
from shoal.overlays.bluedove.protocol import Bluedove
from shoal.overlays.bluedove.serving.matcher import MatchingJob
from shoal.overlays.bluedove.serving.membership import MemberState
from shoal.overlays.bluedove.serving.queues import QueuedMatch
from shoal.simulation.event_queue import Event
from shoal.simulation.nodes import BrokerNode
from shoal.simulation.service import ServiceCosts
from shoal.simulation.world import World

# Messages and timers that the machines handle while the kernel has the publications.
BESIDE = (Digest, GossipNews, Pull, LoadReport, JoinCluster)
TIMERS = ("gossip", "load", "tick")
OF_PUBLICATIONS = (MatchRequest, Matched, MatchAnswer, Receipt)
POLICIES = (Policy.RANDOM, Policy.SUBSCRIPTIONS, Policy.RESPONSE_TIME, Policy.ADAPTIVE)
_KINDS, _SECONDS = 8, 1 << 16


class SimulatedCluster(NamedTuple):
    """The parts of a loaded cluster; `note_answers` has its stream note the machines' answers."""

    world: World
    strategies: Mapping[BrokerId, Bluedove]
    dispatchers: tuple[BrokerId, ...]
    costs: ServiceCosts
    stream: MessageStream
    attributes: tuple[str, ...]
    latency_us: int
    note_answers: Callable[[], None]

    @property
    def has_monitors(self) -> bool:
        """Whether brokers are told their delays."""
        return any(node._monitor is not None for node in self.world.brokers.values())

    def dispatcher(self, name: BrokerId) -> Dispatcher:
        found = self.strategies[name].dispatcher
        assert found is not None
        return found


class CompiledCluster(NamedTuple):
    """A cluster in arrays."""

    layout: ClusterLayout
    state: ClusterArrays


# --- is it plain? -------------------------------------------------------------------------------


def is_plain(cluster: SimulatedCluster) -> bool:
    """Whether nothing but the usual way of publications is under way."""
    if len(cluster.dispatchers) > MOST_DISPATCHERS:
        return False
    return (
        all(_is_plain_dispatcher(cluster, name) for name in cluster.dispatchers)
        and _agree(cluster)
        and all(map(_is_plain_matcher, _running_matchers(cluster)))
        and all(_is_plain_event(cluster, *event[2:]) for event in cluster.world.queue.events)
        and all(_is_at(cluster, *where) for where in _queued_publications(cluster))
    )


def _queued_publications(cluster: SimulatedCluster) -> Iterator[tuple[MessageId, BrokerId]]:
    """The publications that matchers have, each with its matcher."""
    for strategy in _running_matchers(cluster):
        matcher = matcher_of(strategy)
        taken = (each for job in matcher._jobs.values() for each in job.taken)
        waiting = (each for queue in matcher.queues for each in queue.waiting)
        for each in (*taken, *waiting):
            yield each.routed.message_id, strategy.node.broker


def _is_at(cluster: SimulatedCluster, message_id: MessageId, matcher: BrokerId | None) -> bool:
    """Whether a dispatcher keeps a publication, and has sent it to this matcher."""
    pending = cluster.dispatcher(message_id.broker).outbox._pending.get(message_id)
    return pending is not None and matcher in (None, pending.matcher)


def _running_matchers(cluster: SimulatedCluster) -> Iterator[Bluedove]:
    for name, strategy in cluster.strategies.items():
        if strategy.matcher is not None and _runs(cluster, name):
            yield strategy


def _runs(cluster: SimulatedCluster, name: BrokerId) -> bool:
    node = cluster.world.brokers.get(name)
    return node is not None and node.running


def _is_plain_dispatcher(cluster: SimulatedCluster, name: BrokerId) -> bool:
    strategy, dispatcher = cluster.strategies[name], cluster.dispatcher(name)
    outbox = dispatcher.outbox
    # A silent matcher is asked again as soon as it is heard from.
    is_silent = any(_runs(cluster, each) for each in outbox._silent)
    return not (
        is_silent
        or strategy.matcher is not None
        or outbox._stranded
        or outbox._keeps_order
        or dispatcher.home.unstored
        or any(
            each.tried or each.request is not None or each.matcher is None
            for each in outbox._pending.values()
        )
    )


def _agree(cluster: SimulatedCluster) -> bool:
    """Whether all dispatchers have the same table, which the matchers' segments and links bear
    out.
    """
    nodes = [cluster.strategies[name].node for name in cluster.dispatchers]
    first = nodes[0]
    for number in range(len(first.dimensions)):
        intervals = first.table.intervals(number)
        if any(node.table.intervals(number) != intervals for node in nodes[1:]):
            return False
    for member in first.table.serving():
        if not any(member.segments):
            continue
        name = member.broker
        if not _runs(cluster, name):
            if not all(name in node.lost for node in nodes):
                return False
            continue
        strategy = cluster.strategies[name]
        if member.segments != tuple(matcher_of(strategy).segments):
            return False
        is_linked = all(
            name in node.linked and name not in node.lost and node.broker in strategy.node.linked
            for node in nodes
        )
        if not is_linked:
            return False
    return all(
        other in node.linked for node in nodes for other in cluster.dispatchers
        if other != node.broker
    )  # fmt: skip


def _is_plain_matcher(strategy: Bluedove) -> bool:
    matcher, membership = matcher_of(strategy), strategy.membership
    assert membership is not None
    if not any(matcher.segments):
        # A spare: it has no publications, and nothing of it is in the arrays.
        return matcher.is_idle and not membership.handover.is_active
    return not (
        membership.state is not MemberState.SERVING
        or membership.handover.is_active
        or matcher.unready
        or matcher._preparing
        or any(matcher._before_shrinking)
        or any(job.is_void or job.slices or len(job.taken) != 1 for job in matcher._jobs.values())
    )


def _is_plain_event(cluster: SimulatedCluster, action: Any, argument: Any) -> bool:
    """Whether an event is one of the kernel's, one of the machines' beside it, or none of a
    broker.
    """
    node = getattr(action, "__self__", None)
    if not isinstance(node, BrokerNode):
        return True
    if type(argument) is Requested:
        return type(argument.request) is Publish
    if type(argument) is not Received:
        return bool(action.__name__ == "_fire")
    sender = argument.neighbour
    match argument.message:
        case MatchRequest(_, (routed,)):
            return _is_at(cluster, routed.message_id, node.id)
        case Matched((found,)):
            return _is_at(cluster, found.routed.message_id, sender)
        case MatchAnswer(_, (message_id,)):
            return _is_at(cluster, message_id, sender)
        case Receipt((message_id,)):
            return _is_at(cluster, message_id, None)
    return isinstance(argument.message, BESIDE)


# --- into the arrays ----------------------------------------------------------------------------


def enter(cluster: SimulatedCluster) -> CompiledCluster | None:
    """Move a plain cluster's publications into arrays; None if it is not plain."""
    if not is_plain(cluster):
        return None
    layout = layout_of(cluster.strategies, cluster.dispatchers, cluster.attributes)
    state = _empty_state(cluster, layout)
    pending = sum(len(cluster.dispatcher(name).outbox) for name in layout.dispatchers)
    # Requests that no dispatcher has accepted take slots, too.
    while len(state.slots.next) < 2 * pending + FIRST_SLOTS:
        state = with_more_room(state)
    return CompiledCluster(layout, _Entrance(cluster, layout, state).move())


def _empty_state(cluster: SimulatedCluster, layout: ClusterLayout) -> ClusterArrays:
    first = cluster.strategies[layout.dispatchers[0]].node
    count, dimensions = len(layout.dispatchers), len(first.dimensions)
    clock = np.zeros(16, np.int64)
    clock[NOW], clock[MADE] = cluster.world.queue.now_us, cluster.world.queue.made
    clock[PROCESSING], clock[LATENCY] = cluster.costs.processing_us, cluster.latency_us
    clock[POLICY] = POLICIES.index(first.parameters.policy)
    matchers = len(layout.matchers)
    per_queue, per_load = (matchers, dimensions), (count, matchers, dimensions)
    by_queue = {name: np.zeros(per_queue, np.int64) for name in MatcherArrays._fields}
    jobs = np.full((matchers, first.parameters.cores), NO_SLOT)
    single = {name: np.zeros(matchers, np.int64) for name in ("level", "total_us", "searched")}
    return ClusterArrays(
        clock=clock,
        events=empty_events(8 * FIRST_SLOTS),
        slots=empty_slots(FIRST_SLOTS, len(cluster.attributes), dimensions),
        dispatchers=DispatcherArrays(
            number=np.zeros(count, np.int64),
            pending=np.zeros(count, np.int64),
            heard_us=np.zeros((count, matchers), np.int64),
            usable=np.ones((count, matchers), np.bool_),
            words=np.zeros((count, WORDS), np.uint32),
            used=np.full(count, WORDS),
            is_known=np.zeros(per_load, np.bool_),
            queue=np.zeros(per_load),
            arrival=np.zeros(per_load),
            matching=np.ones(per_load),
            subscriptions=np.zeros(per_load),
            reported_us=np.zeros(per_load, np.int64),
        ),
        matchers=MatcherArrays(
            **by_queue
            | single
            | {name: jobs.copy() for name in MatcherArrays._fields if name.startswith("job_")}
        ),
        sets=layout.sets,
        brokers=BrokerArrays(
            *(np.zeros(count + matchers, np.int64) for _ in BrokerArrays._fields)
        ),
        traffic=traffic_of_stream(cluster.stream, layout),
    )


def traffic_of_stream(stream: MessageStream, layout: ClusterLayout) -> TrafficArrays:
    """The present part of a stream."""
    return TrafficArrays(
        stream.at_us,
        np.ascontiguousarray(stream.values),
        np.ascontiguousarray(layout.places(stream.values)),
        stream.answered_us,
    )


def write_loads(
    state: ClusterArrays, layout: ClusterLayout, dispatcher: Dispatcher, number: int,
    matchers: Iterable[int],
) -> None:  # fmt: skip
    """Copy what a dispatcher knows of these matchers' loads."""
    arrays, loads = state.dispatchers, dispatcher.outbox._loads
    for matcher in matchers:
        for dimension in range(arrays.queue.shape[2]):
            found = loads.get((layout.matchers[matcher], dimension))
            place = number, matcher, dimension
            arrays.is_known[place] = found is not None
            if found is not None:
                load, arrays.reported_us[place] = found
                arrays.queue[place], arrays.subscriptions[place] = load.queue, load.subscriptions
                arrays.arrival[place] = load.arrival_per_s
                arrays.matching[place] = load.matching_per_s


def draw_words(state: ClusterArrays, number: int, random: Random) -> None:
    """Give a dispatcher the next words of its random numbers, and skip those that it used."""
    skip_words(state, number, random)
    ahead = Random()
    ahead.setstate(random.getstate())
    drawn = ahead.getrandbits(32 * WORDS).to_bytes(4 * WORDS, "little")
    state.dispatchers.words[number] = np.frombuffer(drawn, "<u4")
    state.dispatchers.used[number] = 0


def skip_words(state: ClusterArrays, number: int, random: Random) -> None:
    """Have a dispatcher's random numbers go on behind the words that it used; new ones must be
    drawn.
    """
    used = int(state.dispatchers.used[number])
    if 0 < used < WORDS:
        random.getrandbits(32 * used)
    state.dispatchers.used[number] = WORDS


class _Entrance:
    """Moves a cluster's state into empty arrays."""

    def __init__(
        self, cluster: SimulatedCluster, layout: ClusterLayout, state: ClusterArrays
    ) -> None:
        self._cluster = cluster
        self._layout = layout
        self._state = state
        self._number = {name: number for number, name in enumerate(layout.dispatchers)}
        self._matcher = {name: number for number, name in enumerate(layout.matchers)}
        self._slots: dict[tuple[str, int], int] = {}

    def move(self) -> ClusterArrays:
        cluster, state = self._cluster, self._state
        for number, name in enumerate(self._layout.dispatchers):
            self._dispatcher(number, name)
        for number, name in enumerate(self._layout.matchers):
            if _runs(cluster, name):
                self._matcher_state(number, name)
            else:
                state.dispatchers.usable[:, number] = False
        for number, name in enumerate(self._layout.brokers):
            if name in cluster.world.brokers:
                state.brokers.free_us[number] = cluster.world.brokers[name]._free_us
        for at_us, made, action, argument in cluster.world.queue.take(self._is_own):
            put(state.events, state.clock, at_us, made, self._what(action, argument))
        state.clock[FIRST_RESULT] = cluster.stream.first
        state.clock[SENT] = len(cluster.stream.at_us)
        return state

    def _dispatcher(self, number: int, name: BrokerId) -> None:
        layout, state, arrays = self._layout, self._state, self._state.dispatchers
        dispatcher, node = self._cluster.dispatcher(name), self._cluster.strategies[name].node
        outbox = dispatcher.outbox
        arrays.number[number] = dispatcher._numbers.get(
            publisher_of(name), dispatcher._unused_number
        )
        write_loads(state, layout, dispatcher, number, range(len(layout.matchers)))
        for matcher, each in enumerate(layout.matchers):
            arrays.heard_us[number, matcher] = outbox._heard_us.get(each, 0)
            arrays.usable[number, matcher] = each not in node.lost and each not in outbox._silent
        arrays.pending[number] = len(outbox._pending)
        for each in outbox._pending.values():
            self._pending(number, each)
        outbox._pending.clear()
        for at in outbox._at.values():
            at.clear()

    def _pending(self, number: int, each: Pending) -> None:
        slots, slot = self._state.slots, self._slot(each.routed, number)
        assert each.matcher is not None
        slots.is_used[slot] = True
        slots.matcher[slot] = self._matcher[each.matcher]
        slots.since_us[slot] = each.since_us
        slots.number[slot] = each.routed.message_id.number
        slots.receipts[slot] = self._bits(each.receipts)
        if each.homes is not None:
            slots.answered_us[slot] = each.passed_us
            slots.awaited[slot] = self._bits(each.homes)

    def _bits(self, names: Iterable[BrokerId]) -> int:
        return sum(1 << self._number[name] for name in names)

    def _slot(self, routed: RoutedPublication, number: int) -> int:
        """The slot of a publication."""
        key = routed.publication.key
        if key not in self._slots:
            slot = self._slots[key] = self._new_slot(routed.publication, number)
            self._state.slots.number[slot] = routed.message_id.number
        return self._slots[key]

    def _new_slot(self, publication: Any, number: int) -> int:
        state, slot = self._state, take_slot(self._state)
        slots = state.slots
        slots.result[slot] = publication.sequence - self._cluster.stream.base
        slots.dispatcher[slot] = number
        slots.values[slot] = [publication.attributes[name] for name in self._cluster.attributes]
        slots.places[slot] = self._layout.places(slots.values[slot][None])[0]
        return slot

    def _matcher_state(self, number: int, name: BrokerId) -> None:
        arrays, costs = self._state.matchers, self._cluster.costs
        matcher = matcher_of(self._cluster.strategies[name])
        arrays.level[number] = matcher._turns._level
        arrays.total_us[number], arrays.searched[number] = matcher.work_us, matcher._searched
        for dimension, (rows, queue) in enumerate(zip(matcher.sets, matcher.queues, strict=True)):
            place = number, dimension
            arrays.size[place] = len(rows)
            arrays.work_us[place] = costs.work_us(MatchingWork(1, len(rows)))
            arrays.turn[place] = matcher._turns._done[dimension]
            tally = queue.tally
            arrays.arrived[place], arrays.matched[place] = tally.arrived, tally.matched
            arrays.worked_us[place] = tally.worked_us
            for waiting in queue.clear():
                slot = self._queued(waiting, number, dimension)
                append(self._state, slot)
                arrays.present[place] += 1
        for core, job in matcher._jobs.items():
            place = number, core
            arrays.job_slot[place] = self._queued(job.taken[0], number, job.dimension)
            arrays.job_dimension[place], arrays.job_since_us[place] = job.dimension, job.since_us
            arrays.job_searched[place] = job.searched
            arrays.present[number, job.dimension] += 1
        matcher._jobs.clear()

    def _queued(self, each: QueuedMatch, matcher: int, dimension: int) -> int:
        slot = self._slot(each.routed, self._number[each.dispatcher])
        self._state.slots.matcher[slot] = matcher
        self._state.slots.dimension[slot] = dimension
        return slot

    # --- events -----------------------------------------------------------------------------------

    def _is_own(self, event: Event) -> bool:
        """Whether an event becomes one of the kernel's."""
        _, made, action, argument = event
        if action == self._cluster.stream.send or type(argument) is Publish:
            return True
        if type(argument) is Received:
            return isinstance(argument.message, OF_PUBLICATIONS)
        if type(argument) is Requested:
            return True
        node = getattr(action, "__self__", None)
        if not isinstance(node, BrokerNode) or action.__name__ != "_fire":
            return False
        (kind, *_), number = argument
        return bool(kind == "match" and number == made)

    def _what(self, action: Any, argument: Any) -> int:
        if action == self._cluster.stream.send:
            return coded(SEND, argument)
        node = action.__self__
        if type(argument) is Publish:
            (publication,) = argument.publications
            number = self._number[node.machine.broker]
            return coded(ASK, self._new_slot(publication, number))
        if type(argument) is Requested:
            (publication,) = argument.request.publications
            return coded(REQUEST, self._new_slot(publication, self._number[node.id]))
        if type(argument) is not Received:
            key, _ = argument
            del node._timers[key]
            return coded(DONE, self._matcher[node.id], int(key[1]))
        return self._message(argument.neighbour, node.id, argument.message)

    def _message(self, sender: BrokerId, receiver: BrokerId, message: Message) -> int:
        slots = self._state.slots
        match message:
            case MatchRequest(dimension, (routed,)):
                slot = self._slot(routed, self._number[sender])
                slots.dimension[slot] = dimension
                return coded(MATCH, slot)
            case Matched((found,)):
                slot = self._slots[found.routed.publication.key]
                return coded(MATCHED, slot, self._number[receiver])
            case MatchAnswer(homes, (message_id,)):
                slot = self._by_id(message_id)
                slots.found[slot] = self._bits(homes)
                return coded(ANSWER, slot)
            case Receipt((message_id,)):
                return coded(RECEIPT, self._by_id(message_id), self._number[sender])
        raise AssertionError(f"{message} is of several publications")

    def _by_id(self, message_id: MessageId) -> int:
        slots, number = self._state.slots, self._number[message_id.broker]
        is_it = (slots.number == message_id.number) & (slots.dispatcher == number) & slots.is_used
        return int(np.flatnonzero(is_it)[0])


def coded(kind: int, first: int, second: int = 0) -> int:
    """A kind of event and its arguments in one number."""
    return kind + _KINDS * (second + _SECONDS * first)


# --- back to the machines -----------------------------------------------------------------------


def write_figures(cluster: SimulatedCluster, compiled: CompiledCluster) -> None:
    """Have the machines' and meters' figures up to date: loads, work, messages."""
    for number in range(len(compiled.layout.matchers)):
        write_tallies(cluster, compiled, number)
    for number, name in enumerate(compiled.layout.brokers):
        write_meter(cluster, compiled, number, name)


def write_tallies(cluster: SimulatedCluster, compiled: CompiledCluster, number: int) -> None:
    """Have one matcher's figures up to date."""
    arrays = compiled.state.matchers
    matcher = matcher_of(cluster.strategies[compiled.layout.matchers[number]])
    matcher.work_us, matcher._searched = int(arrays.total_us[number]), int(arrays.searched[number])
    for dimension, queue in enumerate(matcher.queues):
        tally, place = queue.tally, (number, dimension)
        tally.waiting, tally.arrived = int(arrays.waiting[place]), int(arrays.arrived[place])
        tally.matched, tally.worked_us = int(arrays.matched[place]), int(arrays.worked_us[place])


def write_meter(
    cluster: SimulatedCluster, compiled: CompiledCluster, number: int, name: BrokerId
) -> None:
    """Count the messages and the work of one broker since the last time."""
    node, arrays = cluster.world.brokers.get(name), compiled.state.brokers
    if node is None:
        return
    meter = node.meter
    meter.control_in += int(arrays.controls[number])
    meter.carriers_in += int(arrays.carriers[number])
    meter.carried_in += int(arrays.carriers[number])
    meter.worked_us += int(arrays.worked_us[number])
    arrays.controls[number] = arrays.carriers[number] = arrays.worked_us[number] = 0
    node._free_us = int(arrays.free_us[number])


def leave(cluster: SimulatedCluster, compiled: CompiledCluster) -> None:
    """Move all publications back to the machines."""
    write_figures(cluster, compiled)
    _Exit(cluster, compiled).move()


class _Exit:
    """Moves the state of arrays back to a cluster."""

    def __init__(self, cluster: SimulatedCluster, compiled: CompiledCluster) -> None:
        self._cluster = cluster
        self._layout, self._state = compiled
        self._sent_us = cluster.stream.sent_us
        self._routed: dict[int, RoutedPublication] = {}
        self._found: dict[int, dict[BrokerId, dict[str, int]]] = {}

    def move(self) -> None:
        cluster, state = self._cluster, self._state
        queue = cluster.world.queue
        queue.made = int(state.clock[MADE])
        queue.now_us = max(queue.now_us, int(state.clock[NOW]))
        for number, name in enumerate(self._layout.dispatchers):
            self._dispatcher(number, name)
        for number, name in enumerate(self._layout.matchers):
            if _runs(cluster, name):
                self._matcher(number, name)
        for place in range(int(state.clock[EVENTS])):
            at_us, made, what = (int(column[place]) for column in state.events)
            action, argument = self._event(made, what)
            heappush(queue.heap, (at_us, made, action, argument))

    def _publication(self, slot: int) -> Any:
        slots, stream = self._state.slots, self._cluster.stream
        index = int(slots.result[slot])
        client = publisher_of(self._layout.dispatchers[slots.dispatcher[slot]])
        # A message from before the last time that responses were taken is in no response.
        sent_us = int(self._sent_us[index]) if index >= 0 else 0
        return stream.publication(index, client, sent_us, slots.values[slot])

    def _routed_of(self, slot: int) -> RoutedPublication:
        if slot not in self._routed:
            slots = self._state.slots
            name = self._layout.dispatchers[slots.dispatcher[slot]]
            message_id = MessageId(name, publisher_of(name), int(slots.number[slot]))
            self._routed[slot] = RoutedPublication(self._publication(slot), message_id)
        return self._routed[slot]

    def _found_of(self, slot: int) -> dict[BrokerId, dict[str, int]]:
        """The subscriptions that match, by dispatcher."""
        if slot not in self._found:
            slots = self._state.slots
            name = self._layout.matchers[slots.matcher[slot]]
            matcher = matcher_of(self._cluster.strategies[name])
            attributes = self._routed_of(slot).publication.attributes
            self._found[slot] = matcher.by_home(int(slots.dimension[slot]), attributes)
        return self._found[slot]

    def _dispatcher(self, number: int, name: BrokerId) -> None:
        state, slots = self._state, self._state.slots
        dispatcher, outbox = self._cluster.dispatcher(name), self._cluster.dispatcher(name).outbox
        skip_words(state, number, self._cluster.strategies[name].node.random)
        own = np.flatnonzero(slots.is_used & (slots.dispatcher == number))
        for slot in own[np.argsort(slots.number[own])].tolist():
            each = Pending(self._routed_of(slot), None)
            each.matcher = self._layout.matchers[slots.matcher[slot]]
            each.since_us = int(slots.since_us[slot])
            each.receipts = self._names(int(slots.receipts[slot]))
            if slots.answered_us[slot]:
                each.passed_us = int(slots.answered_us[slot])
                each.homes = self._names(int(slots.awaited[slot]))
            id = each.routed.message_id
            outbox._pending[id] = outbox._at.setdefault(each.matcher, {})[id] = each
        if state.dispatchers.number[number]:
            dispatcher._numbers[publisher_of(name)] = int(state.dispatchers.number[number])
        for matcher, each_name in enumerate(self._layout.matchers):
            heard_us = int(state.dispatchers.heard_us[number, matcher])
            if heard_us > outbox._heard_us.get(each_name, 0):
                outbox._heard_us[each_name] = heard_us

    def _names(self, bits: int) -> set[BrokerId]:
        return {name for number, name in enumerate(self._layout.dispatchers) if bits >> number & 1}

    def _matcher(self, number: int, name: BrokerId) -> None:
        arrays, slots = self._state.matchers, self._state.slots
        matcher = matcher_of(self._cluster.strategies[name])
        matcher._turns._level = int(arrays.level[number])
        for dimension, queue in enumerate(matcher.queues):
            place = number, dimension
            matcher._turns._done[dimension] = int(arrays.turn[place])
            slot = int(arrays.head[place])
            for _ in range(arrays.waiting[place]):
                queue.restore(self._queued(slot))
                slot = int(slots.next[slot])
        for core in np.flatnonzero(arrays.job_slot[number] != NO_SLOT).tolist():
            dimension = int(arrays.job_dimension[number, core])
            taken = self._queued(int(arrays.job_slot[number, core]))
            matcher.queues[dimension].restore(taken, is_taken=True)
            searched = int(arrays.job_searched[number, core])
            since_us = int(arrays.job_since_us[number, core])
            matcher._jobs[core] = MatchingJob(dimension, [taken], searched, since_us)

    def _queued(self, slot: int) -> QueuedMatch:
        name = self._layout.dispatchers[self._state.slots.dispatcher[slot]]
        return QueuedMatch(name, self._routed_of(slot))

    # --- events -----------------------------------------------------------------------------------

    def _event(self, made: int, what: int) -> tuple[Any, Any]:
        kind, second, first = what % _KINDS, what // _KINDS % _SECONDS, what // _KINDS // _SECONDS
        cluster, layout, slots = self._cluster, self._layout, self._state.slots
        brokers = cluster.world.brokers
        if kind == SEND:
            return cluster.stream.send, first
        if kind == DONE:
            node, key = brokers[layout.matchers[first]], ("match", str(second))
            node._timers[key] = made
            return node._fire, (key, made)
        home = layout.dispatchers[slots.dispatcher[first]]
        if kind in (ASK, REQUEST):
            request, client = Publish((self._publication(first),)), publisher_of(home)
            if kind == ASK:
                return cluster.world._publishers[client].request, request
            return brokers[home].receive, Requested(client, request)
        sender, receiver, message = self._message(kind, first, second, home)
        return brokers[receiver].receive, Received(sender, message)

    def _message(
        self, kind: int, slot: int, other: int, home: BrokerId
    ) -> tuple[BrokerId, BrokerId, Message]:
        slots, layout = self._state.slots, self._layout
        matcher, routed = layout.matchers[slots.matcher[slot]], self._routed_of(slot)
        if kind == MATCH:
            return home, matcher, MatchRequest(int(slots.dimension[slot]), (routed,))
        if kind == RECEIPT:
            return layout.dispatchers[other], home, Receipt((routed.message_id,))
        found = self._found_of(slot)
        if kind == MATCHED:
            name = layout.dispatchers[other]
            return matcher, name, Matched((FoundMatches(routed, found[name], matcher),))
        homes = {name: (routed.message_id,) for name in found if name != home}
        return matcher, home, MatchAnswer(homes, (routed.message_id,))
