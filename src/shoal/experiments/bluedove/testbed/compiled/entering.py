"""Moves the publications of a plain cluster from its machines into arrays."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any

import numpy as np

from shoal.broker.effects import MatchingWork, Received, Requested
from shoal.broker.messages import Message, Publish, RoutedPublication
from shoal.experiments.bluedove.testbed.compiled.arrays import (
    ANSWER,
    ASK,
    DONE,
    FIRST_RESULT,
    FIRST_SLOTS,
    LATENCY,
    MADE,
    MATCH,
    MATCHED,
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
    coded,
    empty_events,
    empty_slots,
    with_more_room,
)
from shoal.experiments.bluedove.testbed.compiled.heap import put
from shoal.experiments.bluedove.testbed.compiled.kernel import append, take_slot
from shoal.experiments.bluedove.testbed.compiled.layout import (
    ClusterLayout,
    FiledSets,
    layout_of,
    matcher_of,
)
from shoal.experiments.bluedove.testbed.compiled.plain import (
    CompiledCluster,
    SimulatedCluster,
    is_plain,
    runs,
)
from shoal.experiments.bluedove.testbed.stream import MessageStream, publisher_of
from shoal.model import BrokerId, MessageId
from shoal.overlays.bluedove.cluster.forwarding import Policy
from shoal.overlays.bluedove.dispatching.dispatcher import Dispatcher
from shoal.overlays.bluedove.dispatching.lines import Pending
from shoal.overlays.bluedove.messages import MatchAnswer, Matched, MatchRequest, Receipt
from shoal.overlays.bluedove.serving.queues import QueuedMatch
from shoal.simulation.event_queue import Event
from shoal.simulation.nodes import BrokerNode

OF_PUBLICATIONS = (MatchRequest, Matched, MatchAnswer, Receipt)
# In the kernel's order.
POLICIES = (Policy.RANDOM, Policy.SUBSCRIPTIONS, Policy.RESPONSE_TIME, Policy.ADAPTIVE)


def enter(cluster: SimulatedCluster, filed: FiledSets) -> CompiledCluster | None:
    """Move a plain cluster's publications into arrays; None if it is not plain."""
    if not is_plain(cluster):
        return None
    layout = layout_of(cluster.strategies, cluster.dispatchers, cluster.attributes, filed)
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
        brokers=BrokerArrays(*(np.zeros(count + matchers, np.int64) for _ in BrokerArrays._fields)),
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
            if runs(cluster, name):
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
        for matcher, named in enumerate(layout.matchers):
            arrays.heard_us[number, matcher] = outbox._heard_us.get(named, 0)
            arrays.usable[number, matcher] = named not in node.lost and named not in outbox._silent
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
            request: Any = argument.request
            (publication,) = request.publications
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
