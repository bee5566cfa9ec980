"""One direction of a simulated overlay link: an output queue, transmission, and the way.

`SimulatedLink.send_one` is part of the simulator's inner loop and written for speed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from heapq import heappush

from shoal.broker.effects import LinkLoad, Received
from shoal.simulation.event_queue import Action, EventQueue
from shoal.simulation.links.shared_outputs import OutputTurn


class SimulatedLink:
    """Messages wait in the output queue, are sent one after the other, and arrive.

    Batches of one publication come in by a front end of their own, `arrive_one`.
    """

    def __init__(
        self,
        queue: EventQueue,
        arrive: Action,
        arrive_one: Action,
        latency_us: int,
        transmission_us: int,
    ) -> None:
        self._queue = queue
        self._arrive = arrive
        self._arrive_one = arrive_one
        self.latency_us = latency_us
        self._transmission_us = transmission_us
        self._free_us = 0
        self._waited_us = 0
        self._sent = 0
        # Of each message sent since the last report: when it was ready, when it was out, its units.
        self._passed: deque[tuple[int, int, int]] | None = None
        self._waiting: deque[tuple[int, int]] = deque()
        self._stir: Callable[[], None] = _nothing
        # Its place among those that share a processor, if they do.
        self.turn: OutputTurn | None = None

    def send(self, input: Received, units: int, ready_us: int, busy_us: int | None = None) -> None:
        """Queue a message that is ready at `ready_us`.

        It keeps the output busy for so long; by default for as long as `units` publications.
        """
        if busy_us is None:
            busy_us = units * self._transmission_us
        if self.turn is not None:
            self.turn.send(input, units, ready_us, busy_us, self._arrive, self.latency_us)
            return
        start_us = self._free_us
        if start_us > ready_us:
            self._waited_us += start_us - ready_us
        else:
            start_us = ready_us
        self._sent += 1
        self._free_us = out_us = start_us + busy_us
        if self._passed is not None:
            if not self._passed:
                self._stir()
            self._passed.append((ready_us, out_us, units))
        queue = self._queue
        queue.made = made = queue.made + 1
        heappush(queue.heap, (out_us + self.latency_us, made, self._arrive, input))

    def send_one(self, input: Received, ready_us: int) -> None:
        """As `send(input, 1, ready_us)`, of a batch of one publication."""
        if self.turn is not None:
            self.send(input, 1, ready_us)
            return
        start_us = self._free_us
        if start_us > ready_us:
            self._waited_us += start_us - ready_us
        else:
            start_us = ready_us
        self._sent += 1
        self._free_us = out_us = start_us + self._transmission_us
        if self._passed is not None:
            if not self._passed:
                self._stir()
            self._passed.append((ready_us, out_us, 1))
        queue = self._queue
        queue.made = made = queue.made + 1
        heappush(queue.heap, (out_us + self.latency_us, made, self._arrive_one, input))

    @property
    def empty_us(self) -> int:
        """Return when all that was sent so far will have arrived, at the earliest."""
        if self.turn is not None:
            return self.turn.empty_us()
        return self._free_us + self.latency_us

    @property
    def waiting(self) -> list[Received]:
        """Return queued messages; without turns each message is an event at once."""
        return [] if self.turn is None else self.turn.waiting

    def measure_us(self) -> int:
        """Average delay from output queue to the other end since the last call."""
        if self.turn is not None:
            return self.turn.measure_us() + self._transmission_us + self.latency_us
        waited_us = self._waited_us // self._sent if self._sent else 0
        self._waited_us = self._sent = 0
        return waited_us + self._transmission_us + self.latency_us

    def watch_loads(self, stir: Callable[[], None]) -> None:
        """Count traffic from now on; `stir` is called by the first message after a time without."""
        self._stir = stir
        if self._passed is None:
            self._passed = deque()

    @property
    def has_traffic(self) -> bool:
        """Whether `load` may give other figures than zeros."""
        if self.turn is not None:
            return self.turn.has_traffic
        return bool(self._passed or self._waiting)

    def load(self, until_us: int) -> LinkLoad:
        """Return the traffic before `until_us`, since the last call."""
        if self.turn is not None:
            return self.turn.load()
        entering, waiting = self._passed, self._waiting
        entered = left = 0
        while entering and entering[0][0] < until_us:
            _, out_us, units = entering.popleft()
            entered += units
            waiting.append((out_us, units))
        while waiting and waiting[0][0] < until_us:
            left += waiting.popleft()[1]
        return LinkLoad(entered, left, sum(units for _, units in waiting))

    def close(self) -> None:
        """The link is gone."""
        if self.turn is not None:
            self.turn.close()


def _nothing() -> None:
    """A link that is not watched stirs no broker."""
