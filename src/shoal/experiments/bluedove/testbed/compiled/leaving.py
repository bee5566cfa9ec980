"""Moves the publications of a cluster from arrays back to its machines, or only their figures."""

from __future__ import annotations

from heapq import heappush
from typing import Any

import numpy as np

from shoal.broker.effects import Received, Requested
from shoal.broker.messages import Message, Publish, RoutedPublication
from shoal.experiments.bluedove.testbed.compiled.arrays import (
    ASK,
    DONE,
    EVENTS,
    MADE,
    MATCH,
    MATCHED,
    NO_SLOT,
    NOW,
    RECEIPT,
    REQUEST,
    SEND,
    decoded,
)
from shoal.experiments.bluedove.testbed.compiled.entering import skip_words
from shoal.experiments.bluedove.testbed.compiled.layout import matcher_of
from shoal.experiments.bluedove.testbed.compiled.plain import (
    CompiledCluster,
    SimulatedCluster,
    runs,
)
from shoal.experiments.bluedove.testbed.stream import publisher_of
from shoal.model import BrokerId, MessageId
from shoal.overlays.bluedove.dispatching.lines import Pending
from shoal.overlays.bluedove.messages import (
    FoundMatches,
    MatchAnswer,
    Matched,
    MatchRequest,
    Receipt,
)
from shoal.overlays.bluedove.serving.matcher import MatchingJob
from shoal.overlays.bluedove.serving.queues import QueuedMatch


def write_figures(cluster: SimulatedCluster, compiled: CompiledCluster) -> None:
    """Have the machines' and meters' figures up to date: loads, work, messages."""
    for number in range(len(compiled.layout.matchers)):
        write_tallies(cluster, compiled, number)
    for number, name in enumerate(compiled.layout.brokers):
        write_meter(cluster, compiled, number, name)


def write_tallies(cluster: SimulatedCluster, compiled: CompiledCluster, number: int) -> None:
    """Have one matcher's figures up to date; the arrays have none of one that has crashed."""
    name, arrays = compiled.layout.matchers[number], compiled.state.matchers
    if not runs(cluster, name):
        return
    matcher = matcher_of(cluster.strategies[name])
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
            if runs(cluster, name):
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
        kind, first, second = decoded(what)
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
