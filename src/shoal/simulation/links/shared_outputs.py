"""Outputs of a simulated broker that share its processor: copies leave one at a time, in turns.

Each link has a queue of its own, as in PADRES, where a thread empties each; they share one sender,
which takes one message of each queue in turn. Without this every link sends by itself, however many
do.

>>> queue, out = EventQueue(), []
>>> outputs = SharedOutputs(queue)
>>> one, other = outputs.turn(), outputs.turn()
>>> for turn, name in ((one, "a"), (one, "b"), (other, "c")):
...     turn.send(name, 1, 0, 10, lambda now_us, what: out.append((now_us, what)), 5)
>>> queue.run_until(100)
>>> out
[(15, 'a'), (25, 'c'), (35, 'b')]
"""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

from shoal.broker.effects import LinkLoad
from shoal.simulation.event_queue import Action, EventQueue


class _Copy(NamedTuple):
    """Something to be sent: it keeps the processor busy for so long, and arrives later."""

    input: Any
    units: int
    ready_us: int
    busy_us: int
    arrive: Action
    latency_us: int


class SharedOutputs:
    """The processor that one broker's links share."""

    def __init__(self, queue: EventQueue) -> None:
        self.queue = queue
        # Links with something to send, in turn.
        self._waiting: deque[OutputTurn] = deque()
        self._is_busy = False

    def turn(self) -> OutputTurn:
        """A place for one more link."""
        return OutputTurn(self)

    def wait(self, turn: OutputTurn, now_us: int) -> None:
        """A link has something to send, and had nothing before."""
        self._waiting.append(turn)
        if not self._is_busy:
            self._send_next(now_us)

    def _send_next(self, now_us: int) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if (copy := turn.next(now_us)) is not None:
                self._is_busy = True
                self.queue.push(now_us + copy.busy_us, self._sent, (turn, copy))
                return
        self._is_busy = False

    def _sent(self, now_us: int, argument: tuple[OutputTurn, _Copy]) -> None:
        turn, copy = argument
        if turn.sent(copy, now_us):
            self._waiting.append(turn)
        self._send_next(now_us)


class OutputTurn:
    """One link's place among those that share a processor, and its queue."""

    def __init__(self, outputs: SharedOutputs) -> None:
        self._outputs = outputs
        self._copies: deque[_Copy] = deque()
        self._is_closed = False
        # Copies that are made and neither dropped nor sent; when the last of those sent arrives.
        self._unsent: deque[_Copy] = deque()
        self._arrived_us = 0
        # Since they were asked for: of publications and words, and of messages.
        self._entered = self._left = self._waits = 0
        self._waited_us = self._begun = 0

    def send(
        self,
        input: Any,
        units: int,
        ready_us: int,
        busy_us: int,
        arrive: Action,
        latency_us: int,
    ) -> None:
        """Queue something that is ready at `ready_us`."""
        copy = _Copy(input, units, ready_us, busy_us, arrive, latency_us)
        self._unsent.append(copy)
        self._outputs.queue.push(ready_us, self._enter, copy)

    def _enter(self, now_us: int, copy: _Copy) -> None:
        if self._is_closed:
            return
        self._entered += copy.units
        self._waits += copy.units
        self._copies.append(copy)
        if self._waits == copy.units:
            self._outputs.wait(self, now_us)

    def next(self, now_us: int) -> _Copy | None:
        """The next to be sent, which begins now; None where the link is gone."""
        if not self._copies:
            return None
        copy = self._copies.popleft()
        self._waited_us += now_us - copy.ready_us
        self._begun += 1
        return copy

    def sent(self, copy: _Copy, now_us: int) -> bool:
        """A copy is out; whether there is more to send."""
        if self._is_closed:
            return False
        self._unsent.popleft()
        self._left += copy.units
        self._waits -= copy.units
        self._arrived_us = now_us + copy.latency_us
        self._outputs.queue.push(self._arrived_us, copy.arrive, copy.input)
        return bool(self._copies)

    @property
    def has_traffic(self) -> bool:
        """Whether `load` may give other figures than zeros."""
        return bool(self._unsent or self._entered or self._left or self._waits)

    @property
    def waiting(self) -> list[Any]:
        """Return queued messages, in order."""
        return [copy.input for copy in self._unsent]

    def close(self) -> None:
        """The link is gone, with its queue."""
        self._is_closed = True
        self._copies.clear()
        self._unsent.clear()

    def empty_us(self) -> int:
        """Return when all that was sent so far will have arrived, at the earliest."""
        now_us = self._outputs.queue.now_us
        return max(self._arrived_us, now_us + 1) if self._unsent else self._arrived_us

    def measure_us(self) -> int:
        """Return how long messages waited in the mean, since the last call."""
        waited_us = self._waited_us // self._begun if self._begun else 0
        self._waited_us = self._begun = 0
        return waited_us

    def load(self) -> LinkLoad:
        """Return the traffic since the last call."""
        found = LinkLoad(self._entered, self._left, self._waits)
        self._entered = self._left = 0
        return found
