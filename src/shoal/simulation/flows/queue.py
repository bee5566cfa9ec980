"""Events of a world with flows, in one order: those of objects, and those of the loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from typing import Any

from shoal.broker.effects import Received
from shoal.simulation.event_queue import Action, EventQueue
from shoal.simulation.flows.flows import Flows, GivenBack
from shoal.simulation.flows.loop import NEVER_US


class FlowQueue(EventQueue):
    """An event queue that runs the loop between its events.

    `arrive` brings publications that the loop gives back to their brokers.
    """

    def __init__(self, flows: Flows, arrive: Callable[[GivenBack], None]) -> None:
        super().__init__()
        self._flows = flows
        self._arrive = arrive

    @property
    def next_us(self) -> int | None:
        own, flow = super().next_us, self._flows.next_us
        if flow == NEVER_US:
            return own
        return flow if own is None else min(own, flow)

    @property
    def last_us(self) -> int:
        if self._flows.under_way:
            raise ValueError("the loop does not know its last event")
        return super().last_us

    def run_until(self, until_us: float) -> None:
        self._until_us = until_us
        heap, later, flows = self.heap, self._later, self._flows
        while later and later[0][0] <= until_us:
            heappush(heap, heappop(later))
        end_us = NEVER_US - 1 if until_us >= NEVER_US else int(until_us)
        while True:
            first_us = heap[0][0] if heap else NEVER_US
            if flows.next_us <= min(first_us, end_us):
                limit_us, limit_made = end_us, NEVER_US
                if first_us <= end_us:
                    limit_us, limit_made = heap[0][:2]
                self.made, given_back = flows.advance(limit_us, limit_made, self.made)
                self.now_us = max(self.now_us, flows.now_us)
                if given_back is not None:
                    self.now_us = given_back.at_us
                    self._arrive(given_back)
                    continue
                if flows.next_us < first_us or first_us > end_us:
                    continue
            if first_us > end_us:
                return
            at_us, _, action, argument = heappop(heap)
            self.now_us = at_us
            action(at_us, argument)

    def drop(self, doomed: Callable[[Action, Any], bool]) -> int:
        """ValueError: nothing is lost in a world with flows."""
        raise ValueError("a world with flows has no faults")

    def __iter__(self) -> Iterator[Any]:
        yield from super().__iter__()
        for link, batch in self._flows.in_transit():
            yield Received(self._flows.ends(link)[0], batch)
