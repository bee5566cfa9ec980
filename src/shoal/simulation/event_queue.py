"""The future: events in order of time, and of their making where times are equal.

Most events are about to happen, as messages arrive soon; many others only wait, like timers that
will be cancelled, and publications an hour ahead. They are kept apart, so that near events are not
sorted into late ones.

>>> queue = EventQueue()
>>> queue.push(20, lambda now_us, what: print(now_us, what), "second")
>>> queue.push(10, lambda now_us, what: print(now_us, what), "first")
>>> queue.run_until(20)
10 first
20 second
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush
from itertools import chain
from typing import Any

Action = Callable[[int, Any], None]
Event = tuple[int, int, Action, Any]


class EventQueue:
    """Heaps of (time, order of making, action, argument); never compares actions.

    Events before the end of a run are in the `heap`, which may have later events, too.
    """

    def __init__(self) -> None:
        self.heap: list[Event] = []
        self._later: list[Event] = []
        self._until_us: float = 0
        self.made = 0
        self.now_us = 0

    @property
    def next_us(self) -> int | None:
        """Return when the next event is due; None when there is none."""
        return min((heap[0][0] for heap in (self.heap, self._later) if heap), default=None)

    @property
    def first(self) -> Event | None:
        """The next event; None when there is none."""
        return min((heap[0] for heap in (self.heap, self._later) if heap), default=None)

    def run_first(self) -> None:
        """Run the next event, of at least one."""
        heap, later = self.heap, self._later
        is_near = bool(heap) and not (later and later[0] < heap[0])
        at_us, _, action, argument = heappop(heap if is_near else later)
        self.now_us = at_us
        action(at_us, argument)

    @property
    def events(self) -> Iterator[Event]:
        """All events, in no order."""
        return chain(self.heap, self._later)

    @property
    def last_us(self) -> int:
        """Return when the last event is due; now when there is none."""
        return max((event[0] for event in (*self.heap, *self._later)), default=self.now_us)

    def __iter__(self) -> Iterator[Any]:
        """The arguments of all events, in no order."""
        return (event[3] for event in (*self.heap, *self._later))

    def push(self, at_us: int, action: Action, argument: Any) -> None:
        """Run `action(at_us, argument)` at `at_us`, which must not be in the past."""
        if at_us < self.now_us:
            raise ValueError(f"event at {at_us} us, but it is {self.now_us} us already")
        self.made += 1
        heap = self.heap if at_us <= self._until_us else self._later
        heappush(heap, (at_us, self.made, action, argument))

    def run_until(self, until_us: float) -> None:
        """Run the events due by then, also those that they bring about."""
        self._until_us = until_us
        heap, later = self.heap, self._later
        while later and later[0][0] <= until_us:
            heappush(heap, heappop(later))
        while heap:
            event = heappop(heap)
            at_us, _, action, argument = event
            if at_us > until_us:
                heappush(heap, event)
                return
            self.now_us = at_us
            action(at_us, argument)

    def take(self, chosen: Callable[[Event], bool]) -> list[Event]:
        """Remove the chosen events, and return them in no order."""
        taken: list[Event] = []
        for heap in (self.heap, self._later):
            taken += filter(chosen, heap)
            heap[:] = [event for event in heap if not chosen(event)]
            heapify(heap)
        return taken

    def drop(self, doomed: Callable[[Action, Any], bool]) -> int:
        """Remove the events for which `doomed(action, argument)` holds; return their number."""
        dropped = 0
        for heap in (self.heap, self._later):
            kept = [event for event in heap if not doomed(event[2], event[3])]
            dropped += len(heap) - len(kept)
            # In place: a running loop may hold on to the heap.
            heap[:] = kept
            heapify(heap)
        return dropped
