"""What one end of a link keeps for the other: what is to be sent, is under way, or not settled.

A frame waits, is in flight until the other end has handled it, and, if somebody waits for word of
it, in custody until the other end says that it is settled.  When the other end comes back having
forgotten all, what was in custody is sent again, marked, and before all that came later.

While the *gate* is closed, only what passes it is sent: the other end has come back, and must have
its tables before it can forward anything.

| frame | is written | handled | settled | connection lost | other end forgot all |
| --- | --- | --- | --- | --- | --- |
| behind the gate | | | | stays | stays if anybody waits for word |
| waiting | → in flight | | | stays | the same, behind the gate, marked |
| in flight | | → in custody or gone | | → waiting | the same |
| in custody | | | gone | stays | the same |

With a spool (`shoal.broker.links.spool`) the outbox of an end whose other end is away for longer is
*parked*: what somebody waits for goes to disk, all else nowhere, since both ends will start afresh.
When the other end is back, what comes queues on disk behind what is there, until all that was read.

An other end that cannot write says so, and settles nothing that it could lose.  The outbox *copies*
then: a frame that somebody waits for is sent as before, and a copy of it goes to the spool.  Beyond
`low_bytes` of such frames all goes to the spool, and is sent when there is room again.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Sequence

import msgspec

from shoal.broker.custody import Custody
from shoal.broker.links.spool import Frame, Spool, Spooled
from shoal.broker.wire import MAX_FRAME_BYTES

# What brokers themselves say to each other is never as long.
LEAST_LONGEST_FRAME_BYTES = 16 * 2**20
# (first, last) numbers of messages of a session.
Span = tuple[int, int]


class LinkLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of one end of a link.

    window_bytes     sent and not handled; a round trip of 100 ms then allows 40 MB/s
    high_bytes       kept for the other end: from here on the link is full, what feeds it must wait
    low_bytes        it is not full any more
    limit_bytes      more is never kept: the link is given up
    silence_us       a connection on which nothing came for so long is dead
    give_up_us       a connection that is away for so long ends the session
    park_us          with a spool: what is for an end that is away for so long goes to disk
    """

    window_bytes: int = 4 * 2**20
    high_bytes: int = 8 * 2**20
    low_bytes: int = 4 * 2**20
    limit_bytes: int = 128 * 2**20
    silence_us: int = 5_000_000
    give_up_us: int = 60_000_000
    park_us: int = 2_000_000

    @property
    def longest_frame_bytes(self) -> int:
        """What fits beside all that may be kept already: one end sends no more, the other reads no
        more, and whoever lets clients in sees to it that nothing is longer.
        """
        most = self.limit_bytes - self.high_bytes - self.window_bytes
        return min(max(most, LEAST_LONGEST_FRAME_BYTES), MAX_FRAME_BYTES)


class LinkOutbox:
    """The frames of one session; `handled` is the number of the first that is not handled.

    `repeat` marks a frame as sent before.
    """

    def __init__(
        self,
        limits: LinkLimits,
        spool: Spool | None = None,
        repeat: Callable[[bytes], bytes] | None = None,
    ) -> None:
        self._limits = limits
        self._spool = spool
        self._repeat = repeat
        self.is_parked = False
        self._copies = False
        self._is_full = False
        self.bytes = 0
        self.handled = 0
        self.is_gate_closed = False
        self._in_flight: deque[Frame] = deque()
        self._in_flight_bytes = 0
        self._waiting: deque[Frame] = deque()
        self._gated: deque[Frame] = deque()
        self._in_custody: dict[int, Frame] = {}
        # The weight of all that was ever put in.
        self.entered = 0

    @property
    def is_full(self) -> bool:
        """Whether whoever feeds the link must wait."""
        spool = self._spool
        if spool is not None and spool.is_stuck and spool.pending_bytes > self._limits.high_bytes:
            return True
        return self._is_full

    @property
    def in_flight(self) -> int:
        return len(self._in_flight)

    @property
    def sent(self) -> int:
        """How many messages the session has, without those behind the gate."""
        return self.handled + len(self._in_flight) + len(self._waiting)

    @property
    def waiting(self) -> int:
        """The weight of what is not written yet."""
        return sum(frame.weight for queue in (self._waiting, self._gated) for frame in queue)

    @property
    def is_overfull(self) -> bool:
        """Whether more is kept than ever may be."""
        return self.bytes > self._limits.limit_bytes

    def __iter__(self) -> Iterator[Frame]:
        """All that is kept, oldest first."""
        yield from self._in_custody.values()
        yield from self._in_flight
        yield from self._waiting
        yield from self._gated

    def put(self, data: bytes, custody: Custody | None, *, passes: bool, weight: int = 1) -> None:
        """Keep a frame, behind the gate unless that is open or the frame passes it."""
        self.entered += weight
        is_gated = self.is_gate_closed and not passes
        if self._spool is not None and not self._stays_in_memory(passes):
            if custody is not None or not self.is_parked:
                self._spool.append(data, custody)
            return
        frame = Frame(data, custody, weight)
        if custody is not None:
            custody.extend()
            if self._copies and self._spool is not None:
                self._spool.copy(frame)
        (self._gated if is_gated else self._waiting).append(frame)
        self._add_bytes(len(data))

    def _stays_in_memory(self, passes: bool) -> bool:
        """Whether nothing on disk is to be sent before what comes now."""
        assert self._spool is not None
        if self.is_parked or (self._copies and self.bytes > self._limits.low_bytes):
            return False
        return not self._spool.has_unread or (passes and self.is_gate_closed)

    def copy(self, copies: bool) -> None:
        """Keep copies on disk from now on, of what is here as well; or of nothing that comes."""
        if self._spool is not None and copies and not self._copies and not self._spool.has_unread:
            for frame in self.assured():
                self._spool.copy(frame)
        self._copies = copies

    def _add_bytes(self, count: int) -> None:
        self.bytes += count
        if self.bytes > self._limits.high_bytes:
            self._is_full = True

    def take(self) -> list[bytes]:
        """What is to be written now."""
        found = []
        waiting, window_bytes = self._waiting, self._limits.window_bytes
        while self._in_flight_bytes < window_bytes and (waiting or self._read_back()):
            frame = waiting.popleft()
            found.append(frame.data)
            self._in_flight.append(frame)
            self._in_flight_bytes += len(frame.data)
        return found

    def _read_back(self) -> bool:
        """Take up what comes next from the spool; whether there is something."""
        spool = self._spool
        if spool is None or self.is_parked or self.is_gate_closed:
            return False
        if not spool.has_unread or self.bytes > self._limits.low_bytes:
            return False
        read = spool.read()
        for data, custody, again in [read] if read is not None else spool.take_pending():
            if again and custody is not None and self._repeat is not None:
                data = self._repeat(data)
            self._waiting.append(Frame(data, custody))
            self._add_bytes(len(data))
        return bool(self._waiting)

    def handle(self, handled: int) -> None:
        """The other end has handled all messages before this number."""
        for number in range(self.handled, handled):
            if self._in_flight:
                frame = self._in_flight.popleft()
                self._in_flight_bytes -= len(frame.data)
            else:  # of an earlier connection
                frame = self._waiting.popleft()
            if frame.custody is not None:
                self._in_custody[number] = frame
            else:
                self.bytes -= len(frame.data)
        self.handled = handled
        self._check_room()

    def settle(self, spans: Sequence[Span]) -> None:
        """The other end says what is settled; of what is not in custody it means nothing."""
        for number in self._in_spans(spans):
            frame = self._in_custody.pop(number)
            self.bytes -= len(frame.data)
            custody, frame.custody = frame.custody, None
            assert custody is not None
            custody.settle()
        self._check_room()

    def _in_spans(self, spans: Sequence[Span]) -> list[int]:
        """What is in custody of these, whatever they are: in the time of looking at each once."""
        kept = self._in_custody
        if sum(min(max(last - first, 0), len(kept)) for first, last in spans) <= len(kept):
            return list(
                {
                    number: None
                    for first, last in spans
                    for number in (range(first, last + 1) if last - first < len(kept) else kept)
                    if first <= number <= last and number in kept
                }
            )
        numbers, found, begin = list(kept), list[int](), 0
        for first, last in sorted(spans):
            begin = bisect_left(numbers, first, begin)
            end = bisect_right(numbers, last, begin)
            found += numbers[begin:end]
            begin = end
        return found

    def _check_room(self) -> None:
        if self.bytes <= self._limits.low_bytes:
            self._is_full = False

    def open_gate(self) -> None:
        """The other end can take everything now."""
        self.is_gate_closed = False
        self._waiting += self._gated
        self._gated.clear()

    def empty_gate(self) -> list[Frame]:
        """The other end will take nothing more that waits there; what somebody waits for of it."""
        frames = [frame for frame in self._gated if frame.custody is not None]
        self.bytes -= sum(len(frame.data) for frame in self._gated)
        self._gated.clear()
        self.open_gate()
        self._check_room()
        return frames

    def read_all(self) -> None:
        """Take up all that is to be sent, also from the spool."""
        spool = self._spool
        while spool is not None and spool.has_unread:
            read = spool.read()
            for data, custody, _ in [read] if read is not None else spool.take_pending():
                self._gated.append(Frame(data, custody))
                self._add_bytes(len(data))

    def forgive(self) -> None:
        """Nobody waits any more for what is kept here to be settled."""
        kept = [frame for frame in self if frame.custody is not None]
        self.bytes -= sum(len(frame.data) for frame in (*self._in_custody.values(), *self._gated))
        self._in_custody.clear()
        self._gated.clear()
        for frame in kept:
            custody, frame.custody = frame.custody, None
            assert custody is not None
            custody.settle()
        self.open_gate()
        self._check_room()

    def reconnect(self) -> None:
        """What was in flight on a connection that is gone is to be written again."""
        self._waiting.extendleft(reversed(self._in_flight))
        self._in_flight.clear()
        self._in_flight_bytes = 0

    def assured(self) -> list[Frame]:
        """What is kept here alone and somebody waits for, oldest first."""
        return [
            frame
            for frame in self
            if frame.custody is not None and not isinstance(frame.custody, Spooled)
        ]
