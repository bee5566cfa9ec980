"""A simulated overlay link with a bandwidth: behind the broker's output, a wire that sends bytes.

A message leaves the output after its transmission costs, waits until the wire has sent all earlier
ones, keeps the wire busy for its size, and arrives a latency later. Its size is that of its frame
on a live link; a frame that only acknowledges has none. Each direction has a wire of its own.

>>> Bandwidths(bytes_per_second=1_000_000, own={frozenset("AB"): 50_000}).between("B", "A")
50000
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from random import Random

import msgspec

from shoal.broker.effects import LinkLoad, Received
from shoal.model import BrokerId
from shoal.simulation.carried import publications_of
from shoal.simulation.event_queue import Action, EventQueue
from shoal.simulation.faults import LinkFaults
from shoal.simulation.links.overlay_link import SimulatedLink
from shoal.simulation.sizes import MessageSizes


class Bandwidths(msgspec.Struct, frozen=True, kw_only=True):
    """Bandwidths of the overlay links, in each direction.

    bytes_per_second   of every link; 0: no bound
    own                of the links between two brokers, in its place
    """

    bytes_per_second: int = 0
    own: Mapping[frozenset[BrokerId], int] = {}

    def __bool__(self) -> bool:
        return bool(self.bytes_per_second or any(self.own.values()))

    def between(self, one: BrokerId, other: BrokerId) -> int:
        """Bytes per second of a link between these brokers; 0: no bound."""
        return self.own.get(frozenset((one, other)), self.bytes_per_second)


class LimitedLink(SimulatedLink):
    """One direction of a link with a bandwidth; with faults, it also loses and reorders.

    bytes_per_second   at least 1
    sizes              bytes of a message
    faults, random     the wire sends a lost message, too
    """

    def __init__(
        self,
        queue: EventQueue,
        arrive: Action,
        latency_us: int,
        transmission_us: int,
        bytes_per_second: int,
        sizes: MessageSizes,
        faults: LinkFaults | None = None,
        random: Random | None = None,
    ) -> None:
        super().__init__(queue, self._enter, self._enter, 0, transmission_us)
        self._receive = arrive
        self._way_us = latency_us
        self._bytes_per_second = bytes_per_second
        self._sizes = sizes
        self._faults = faults or LinkFaults()
        self._random = random or Random(0)
        self._is_closed = False
        # In microseconds times the bandwidth: exact, so that no rounding adds up.
        self._wire_free = 0
        self._arrived_us = 0
        # Messages that are in the output, or have left it in this very moment.
        self._in_output = 0
        # Since the last report: messages that entered the wire, and their time until its end.
        self._entered = 0
        self._wire_us = 0
        # When each message leaves the wire, and its units; while its loads are watched.
        self._on_wire: deque[tuple[int, int]] | None = None
        self._unsent = 0

    def send(self, input: Received, units: int, ready_us: int, busy_us: int | None = None) -> None:
        self._in_output += 1
        super().send(input, units, ready_us, busy_us)

    def send_one(self, input: Received, ready_us: int) -> None:
        self.send(input, 1, ready_us)

    def _enter(self, now_us: int, input: Received) -> None:
        """A message leaves the output."""
        if self._is_closed:
            return
        self._in_output -= 1
        start = max(self._wire_free, now_us * self._bytes_per_second)
        self._wire_free = start + self._sizes(input.message) * 1_000_000
        out_us = -(-self._wire_free // self._bytes_per_second)
        self._entered += 1
        self._wire_us += out_us - now_us
        if self._on_wire is not None:
            units = publications_of(input.message)
            self._on_wire.append((out_us, 1 if units is None else units))
        arrives_us = out_us + self._way_us + self._random.randint(0, self._faults.jitter_us)
        self._arrived_us = max(self._arrived_us, arrives_us)
        if self._random.random() >= self._faults.loss:
            self._queue.push(arrives_us, self._receive, input)

    @property
    def empty_us(self) -> int:
        waits_us = self._queue.now_us + 1 if self._in_output else 0
        return max(super().empty_us, self._arrived_us, waits_us)

    def measure_us(self) -> int:
        wire_us = self._wire_us // self._entered if self._entered else 0
        self._wire_us = self._entered = 0
        return super().measure_us() + wire_us + self._way_us

    def watch_loads(self, stir: Callable[[], None]) -> None:
        super().watch_loads(stir)
        if self._on_wire is None:
            self._on_wire = deque()

    @property
    def has_traffic(self) -> bool:
        return bool(super().has_traffic or self._on_wire or self._unsent)

    def load(self, until_us: int) -> LinkLoad:
        """The traffic as of any link: a message has left once the wire has sent it."""
        entered, wire = super().load(until_us).entered, self._on_wire
        left = 0
        while wire and wire[0][0] < until_us:
            left += wire.popleft()[1]
        # A message that entered before loads were watched is not counted.
        self._unsent = max(0, self._unsent + entered - left)
        return LinkLoad(entered, left, self._unsent)

    def close(self) -> None:
        super().close()
        self._is_closed = True
