"""The future: events in order of time, and of their making where times are equal.

>>> queue = EventQueue()
>>> queue.push(20, lambda now_us, what: print(now_us, what), "second")
>>> queue.push(10, lambda now_us, what: print(now_us, what), "first")
>>> queue.run_until(20)
10 first
20 second
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Any

Action = Callable[[int, Any], None]
Event = tuple[int, int, Action, Any]


class EventQueue:
    """A heap of (time, order of making, action, argument); never compares actions."""

    def __init__(self) -> None:
        self.heap: list[Event] = []
        self.made = 0
        self.now_us = 0

    @property
    def last_us(self) -> int:
        """When the last event is due; now when there is none."""
        return max((event[0] for event in self.heap), default=self.now_us)

    def push(self, at_us: int, action: Action, argument: Any) -> None:
        """Run `action(at_us, argument)` at `at_us`, which must not be in the past."""
        if at_us < self.now_us:
            raise ValueError(f"event at {at_us} us, but it is {self.now_us} us already")
        self.made += 1
        heappush(self.heap, (at_us, self.made, action, argument))

    def run_until(self, until_us: float) -> None:
        """Run the events due by then, also those that they bring about."""
        heap = self.heap
        while heap:
            event = heappop(heap)
            at_us, _, action, argument = event
            if at_us > until_us:
                heappush(heap, event)
                return
            self.now_us = at_us
            action(at_us, argument)

    def drop(self, doomed: Callable[[Action, Any], bool]) -> int:
        """Remove the events for which `doomed(action, argument)`; how many there were."""
        kept = [event for event in self.heap if not doomed(event[2], event[3])]
        dropped = len(self.heap) - len(kept)
        # In place: a running loop may hold on to the heap.
        self.heap[:] = kept
        heapify(self.heap)
        return dropped
