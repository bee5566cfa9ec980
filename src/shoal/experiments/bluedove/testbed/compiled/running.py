"""Runs a loaded cluster: its publications in the kernel, everything else in its machines.

The events of both are one sequence, by time and order of making. Before a machine handles one, it
has the figures that it needs; after it, the arrays have what has changed. An event that needs more
than figures is handled after all state has gone back to the machines (`leaving.leave`).
"""

from __future__ import annotations

from typing import Any

from shoal.broker.effects import Received
from shoal.experiments.bluedove.testbed.compiled.arrays import (
    EVENTS,
    FIRST_RESULT,
    MADE,
    NOW,
    SEND,
    ClusterArrays,
    coded,
    with_more_room,
)
from shoal.experiments.bluedove.testbed.compiled.entering import (
    draw_words,
    enter,
    skip_words,
    traffic_of_stream,
    write_loads,
)
from shoal.experiments.bluedove.testbed.compiled.heap import put
from shoal.experiments.bluedove.testbed.compiled.kernel import (
    FULL,
    NO_WORDS,
    REACHED,
    is_overdue,
    run_events,
)
from shoal.experiments.bluedove.testbed.compiled.layout import FiledSets, matcher_of
from shoal.experiments.bluedove.testbed.compiled.leaving import leave, write_figures, write_tallies
from shoal.experiments.bluedove.testbed.compiled.plain import (
    BESIDE,
    TIMERS,
    CompiledCluster,
    SimulatedCluster,
)
from shoal.matching.compiled.kernels.compiler import COMPILES
from shoal.overlays.bluedove.messages import LoadReport
from shoal.overlays.bluedove.serving.membership import MemberState
from shoal.simulation.collection import without_garbage_collection
from shoal.simulation.event_queue import Event
from shoal.simulation.nodes import BrokerNode

# Machines run whole for so long after an event that the kernel cannot have.
WHOLE_US = 500_000
FAR_US = 1 << 62


class CompiledRun:
    """Runs one cluster; without numba, its machines alone."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._compiled: CompiledCluster | None = None
        self._filed = FiledSets()
        self._whole_until_us = 0 if COMPILES else FAR_US
        # How often all state went back to the machines.
        self.crossings = 0

    @property
    def is_compiled(self) -> bool:
        """Whether the kernel has the publications."""
        return self._compiled is not None

    @property
    def pending(self) -> int:
        """The publications that dispatchers keep and the kernel has."""
        return 0 if self._compiled is None else int(self._compiled.state.dispatchers.pending.sum())

    def run_whole(self, until_us: int | None = None) -> None:
        """Give everything to the machines, and have them run to a time."""
        self._leave()
        if until_us is not None:
            self._cluster.world.run(until_us)
            self._whole_until_us = max(self._whole_until_us, until_us)

    def write_figures(self) -> None:
        """Have the machines' figures up to date."""
        if self._compiled is not None:
            write_figures(self._cluster, self._compiled)

    def responses_taken(self, count: int) -> None:
        """So many responses were taken: indices of messages count from there."""
        if self._compiled is not None:
            self._compiled.state.slots.result[:] -= count

    def run(self, until_us: int) -> None:
        """Run to a time."""
        with without_garbage_collection():
            while True:
                if self._compiled is None and not self._enter():
                    whole_us = min(until_us, self._whole_until_us)
                    self._cluster.world.run(whole_us)
                    if whole_us == until_us:
                        return
                elif self._run_compiled(until_us):
                    return

    def _enter(self) -> bool:
        queue = self._cluster.world.queue
        next_us = queue.next_us
        now_us = queue.now_us if next_us is None else next_us
        if now_us <= self._whole_until_us:
            return False
        self._compiled = enter(self._cluster, self._filed)
        if self._compiled is None:
            self._whole_until_us = now_us + WHOLE_US
            return False
        self._cluster.note_answers()
        return self._compiled is not None

    def _leave(self) -> None:
        if self._compiled is not None:
            self.crossings += 1
            leave(self._cluster, self._compiled)
            self._compiled = None
            whole_us = self._cluster.world.queue.now_us + WHOLE_US
            self._whole_until_us = max(self._whole_until_us, whole_us)

    # --- with the kernel --------------------------------------------------------------------------

    def _run_compiled(self, until_us: int) -> bool:
        """Run to a time, which is reached (True), or until everything is the machines'."""
        world, queue = self._cluster.world, self._cluster.world.queue
        self._take_up_traffic()
        while (compiled := self._compiled) is not None:
            state = compiled.state
            event = queue.first
            before_us, before_made = (FAR_US, 0) if event is None else event[:2]
            bound_us = min(until_us, int(min(world.next_report_us, FAR_US)) - 1)
            # A call takes as long as some hundred events, since numba unpacks all arrays.
            stopped = REACHED
            if _own_us(state) <= min(bound_us, before_us):
                stopped = run_events(state, bound_us, before_us, before_made)
                queue.now_us = max(queue.now_us, int(state.clock[NOW]))
                queue.made = int(state.clock[MADE])
            if stopped == FULL:
                self._compiled = compiled._replace(state=with_more_room(state))
            elif stopped == NO_WORDS:
                for number, name in enumerate(compiled.layout.dispatchers):
                    draw_words(state, number, self._cluster.strategies[name].node.random)
            elif stopped != REACHED:
                self._leave()
            else:
                next_us = min(_own_us(state), before_us)
                if next_us > until_us:
                    return True
                if next_us >= world.next_report_us:
                    if self._cluster.has_monitors:
                        self.write_figures()
                    world.report_before(next_us)
                    self._made()
                elif event is not None and not self._run_machine(event):
                    self._leave()
        return False

    def _take_up_traffic(self) -> None:
        """Move the first event of new messages to the kernel."""
        stream, compiled = self._cluster.stream, self._compiled
        assert compiled is not None
        state = compiled.state
        if state.traffic.at_us is stream.at_us:
            return
        traffic = traffic_of_stream(stream, compiled.layout)
        self._compiled = compiled._replace(state=state._replace(traffic=traffic))
        state.clock[FIRST_RESULT] = stream.first
        for at_us, made, _, number in self._cluster.world.queue.take(self._is_first_message):
            put(state.events, state.clock, at_us, made, coded(SEND, number))
        self._made()

    def _is_first_message(self, event: Event) -> bool:
        return bool(event[2] == self._cluster.stream.send)

    def _made(self) -> None:
        """Events that were made by now have lower numbers than those to come."""
        assert self._compiled is not None
        self._compiled.state.clock[MADE] = self._cluster.world.queue.made

    def _run_machine(self, event: Event) -> bool:
        """Let a machine handle the next event; False if it is to have all state before."""
        _, _, action, argument = event
        node: Any = getattr(action, "__self__", None)
        if not isinstance(node, BrokerNode) or not _is_beside(action, argument):
            return False
        compiled, queue = self._compiled, self._cluster.world.queue
        assert compiled is not None
        layout, state = compiled
        number = layout.number.get(node.id)
        if number is None:
            queue.run_first()
            self._made()
            return True
        free_us = state.brokers.free_us
        node._free_us = int(free_us[number])
        if number < len(layout.dispatchers):
            if not self._run_dispatcher(compiled, number, event):
                return False
        else:
            self._run_matcher(compiled, number - len(layout.dispatchers), event)
        if self._compiled is not None:
            free_us[number] = node._free_us
            self._made()
        return True

    def _run_dispatcher(self, compiled: CompiledCluster, number: int, event: Event) -> bool:
        layout, state = compiled
        at_us, _, _, argument = event
        name = layout.dispatchers[number]
        strategy, dispatcher = self._cluster.strategies[name], self._cluster.dispatcher(name)
        if type(argument) is not Received:
            now_us = max(at_us, int(state.brokers.free_us[number]))
            timeout_us = strategy.node.parameters.answer_timeout_us
            if is_overdue(state, number, now_us, timeout_us):
                return False
        skip_words(state, number, strategy.node.random)
        revision = strategy.node.table.revision
        self._cluster.world.queue.run_first()
        if type(argument) is Received and type(argument.message) is LoadReport:
            sender = layout.number.get(argument.neighbour)
            if sender is not None:
                matchers = (sender - len(layout.dispatchers),)
                write_loads(state, layout, dispatcher, number, matchers)
        if strategy.node.table.revision != revision:
            self._leave_after(number)
        return True

    def _run_matcher(self, compiled: CompiledCluster, number: int, event: Event) -> None:
        _, _, _, argument = event
        strategy = self._cluster.strategies[compiled.layout.matchers[number]]
        if type(argument) is not Received and argument[0][0] == "load":
            write_tallies(self._cluster, compiled, number)
        self._cluster.world.queue.run_first()
        membership = strategy.membership
        assert membership is not None
        if membership.state is not MemberState.SERVING:
            raise RuntimeError(f"{strategy.node.broker} stopped serving with publications")
        if membership.handover.is_active or matcher_of(strategy).unready:
            self._leave_after(number + len(compiled.layout.dispatchers))

    def _leave_after(self, number: int) -> None:
        """Move all state back to the machines; one broker has just handled an event."""
        compiled = self._compiled
        assert compiled is not None
        node = self._cluster.world.brokers[compiled.layout.brokers[number]]
        compiled.state.brokers.free_us[number] = node._free_us
        self._made()
        self._leave()


def _own_us(state: ClusterArrays) -> int:
    """When the kernel's next event is due."""
    return int(state.events.at_us[0]) if state.clock[EVENTS] else FAR_US


def _is_beside(action: Any, argument: Any) -> bool:
    """Whether a machine handles this event while the kernel has the publications."""
    if type(argument) is Received:
        return isinstance(argument.message, BESIDE)
    return bool(action.__name__ == "_fire" and argument[0][0] in TIMERS)
