"""The sending side of a link: frames to be sent, under way, or not settled.

A frame waits, is in flight until the other end has handled it, and, if it is assured, is unsettled
until the other end reports it settled. When the other end comes back without its state, unsettled
frames are sent again, marked, before all later ones.

While the *gate* is closed, only frames that pass it are sent: the other end has come back, and must
have its routing tables before it can forward publications.

| frame | is written | handled | settled | connection lost | other end forgot all |
| --- | --- | --- | --- | --- | --- |
| behind the gate | | | | stays | stays if it is assured |
| waiting | → in flight | | | stays | the same, behind the gate, marked |
| in flight | | → unsettled or done | | → waiting | the same |
| unsettled | | | done | stays | the same |

With a spool (`shoal.broker.links.spool`) the outbox of a link to a neighbour that is disconnected
for longer *spools*: assured frames go to disk, all others are dropped, since both ends will start a
fresh session. When the neighbour is back, later frames queue on disk behind the earlier ones, until
all were read.

A neighbour that cannot write to its disk announces it, and settles nothing that it could lose. The
outbox then *copies*: an assured frame is sent as before, and a copy of it goes to the spool. Beyond
`low_bytes` of such frames all go to the spool, and are sent when there is room again.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Sequence

import msgspec

from shoal.broker.ack_tracker import AckTracker
from shoal.broker.links.spool import OutboxFrame, Spool, Spooled
from shoal.broker.wire import MAX_FRAME_BYTES

# Messages of the brokers themselves are shorter.
LEAST_LONGEST_FRAME_BYTES = 16 * 2**20
# (first, last) numbers of messages of a session.
Span = tuple[int, int]


class LinkLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of one end of a link.

    window_bytes     sent and not handled; a round trip of 100 ms then allows 40 MB/s
    high_bytes       kept for the other end: from here on the link is full, its sources must wait
    low_bytes        below this it is not full any more
    limit_bytes      above this the link is given up
    silence_us       a connection without received bytes for so long is dead
    give_up_us       a disconnect of so long ends the session
    park_us          with a spool: a disconnect of so long sends the frames to disk
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
        """The longest frame: what fits beside the largest full outbox.

        One end sends no longer frame, the other reads none, and the admission of clients bounds
        their packets accordingly.
        """
        most = self.limit_bytes - self.high_bytes - self.window_bytes
        return min(max(most, LEAST_LONGEST_FRAME_BYTES), MAX_FRAME_BYTES)


class LinkOutbox:
    """The frames of one session; `handled` is the number of the first that is not handled.

    `repeat` marks a frame as repeated.
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
        self.is_spooling = False
        self._copies = False
        self._is_full = False
        self.bytes = 0
        self.handled = 0
        self.is_gate_closed = False
        self._in_flight: deque[OutboxFrame] = deque()
        self._in_flight_bytes = 0
        self._waiting: deque[OutboxFrame] = deque()
        self._gated: deque[OutboxFrame] = deque()
        self._unsettled: dict[int, OutboxFrame] = {}
        # The weight of all frames put in since this session began.
        self.entered = 0

    @property
    def is_full(self) -> bool:
        """Whether the sources of the link must wait."""
        spool = self._spool
        if spool is not None and spool.is_stuck and spool.pending_bytes > self._limits.high_bytes:
            return True
        return self._is_full

    @property
    def in_flight(self) -> int:
        return len(self._in_flight)

    @property
    def sent(self) -> int:
        """The number of messages of the session, without those behind the gate."""
        return self.handled + len(self._in_flight) + len(self._waiting)

    @property
    def waiting(self) -> int:
        """The weight of frames that are not written yet."""
        return sum(frame.weight for queue in (self._waiting, self._gated) for frame in queue)

    @property
    def is_overfull(self) -> bool:
        """Whether the outbox is above its limit."""
        return self.bytes > self._limits.limit_bytes

    def __iter__(self) -> Iterator[OutboxFrame]:
        """All frames, oldest first."""
        yield from self._unsettled.values()
        yield from self._in_flight
        yield from self._waiting
        yield from self._gated

    def put(
        self, data: bytes, ack_tracker: AckTracker | None, *, passes: bool, weight: int = 1
    ) -> None:
        """Add a frame, behind the gate unless that is open or the frame passes it."""
        self.entered += weight
        is_gated = self.is_gate_closed and not passes
        if self._spool is not None and not self._stays_in_memory(passes):
            if ack_tracker is not None or not self.is_spooling:
                self._spool.append(data, ack_tracker)
            return
        frame = OutboxFrame(data, ack_tracker, weight)
        if ack_tracker is not None:
            ack_tracker.extend()
            if self._copies and self._spool is not None:
                self._spool.copy(frame)
        (self._gated if is_gated else self._waiting).append(frame)
        self._add_bytes(len(data))

    def _stays_in_memory(self, passes: bool) -> bool:
        """Whether no frame on disk is to be sent before the next one."""
        assert self._spool is not None
        if self.is_spooling or (self._copies and self.bytes > self._limits.low_bytes):
            return False
        return not self._spool.has_unread or (passes and self.is_gate_closed)

    def copy(self, copies: bool) -> None:
        """Begin or stop to keep copies of frames on disk, also of those in the outbox."""
        if self._spool is not None and copies and not self._copies and not self._spool.has_unread:
            for frame in self.assured():
                self._spool.copy(frame)
        self._copies = copies

    def _add_bytes(self, count: int) -> None:
        self.bytes += count
        if self.bytes > self._limits.high_bytes:
            self._is_full = True

    def take(self) -> list[bytes]:
        """The frames to write now."""
        found = []
        waiting, window_bytes = self._waiting, self._limits.window_bytes
        while self._in_flight_bytes < window_bytes and (waiting or self._read_back()):
            frame = waiting.popleft()
            found.append(frame.data)
            self._in_flight.append(frame)
            self._in_flight_bytes += len(frame.data)
        return found

    def _read_back(self) -> bool:
        """Read the next frames of the spool; returns whether there are any to send."""
        spool = self._spool
        if spool is None or self.is_spooling or self.is_gate_closed:
            return False
        if not spool.has_unread or self.bytes > self._limits.low_bytes:
            return False
        read = spool.read()
        for data, ack_tracker, again in [read] if read is not None else spool.take_pending():
            if again and ack_tracker is not None and self._repeat is not None:
                data = self._repeat(data)
            self._waiting.append(OutboxFrame(data, ack_tracker))
            self._add_bytes(len(data))
        return bool(self._waiting)

    def handle(self, handled: int) -> None:
        """Note that the other end has handled all messages below this number."""
        for number in range(self.handled, handled):
            if self._in_flight:
                frame = self._in_flight.popleft()
                self._in_flight_bytes -= len(frame.data)
            else:  # sent on an earlier connection
                frame = self._waiting.popleft()
            if frame.ack_tracker is not None:
                self._unsettled[number] = frame
            else:
                self.bytes -= len(frame.data)
        self.handled = handled
        self._check_room()

    def settle(self, spans: Sequence[Span]) -> None:
        """Note settled messages; numbers that are not unsettled are ignored."""
        for number in self._in_spans(spans):
            frame = self._unsettled.pop(number)
            self.bytes -= len(frame.data)
            ack_tracker, frame.ack_tracker = frame.ack_tracker, None
            assert ack_tracker is not None
            ack_tracker.settle()
        self._check_room()

    def _in_spans(self, spans: Sequence[Span]) -> list[int]:
        """The unsettled numbers in these spans, in time linear in their number."""
        kept = self._unsettled
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
        """Let all frames pass: the other end has its tables."""
        self.is_gate_closed = False
        self._waiting += self._gated
        self._gated.clear()

    def empty_gate(self) -> list[OutboxFrame]:
        """Drop the frames behind the gate; returns the assured ones."""
        frames = [frame for frame in self._gated if frame.ack_tracker is not None]
        self.bytes -= sum(len(frame.data) for frame in self._gated)
        self._gated.clear()
        self.open_gate()
        self._check_room()
        return frames

    def read_all(self) -> None:
        """Read all frames of the spool, to be sent."""
        spool = self._spool
        while spool is not None and spool.has_unread:
            read = spool.read()
            for data, ack_tracker, _ in [read] if read is not None else spool.take_pending():
                self._gated.append(OutboxFrame(data, ack_tracker))
                self._add_bytes(len(data))

    def forgive(self) -> None:
        """Settle all frames here: their settling by the other end is not waited for any more."""
        kept = [frame for frame in self if frame.ack_tracker is not None]
        self.bytes -= sum(len(frame.data) for frame in (*self._unsettled.values(), *self._gated))
        self._unsettled.clear()
        self._gated.clear()
        for frame in kept:
            ack_tracker, frame.ack_tracker = frame.ack_tracker, None
            assert ack_tracker is not None
            ack_tracker.settle()
        self.open_gate()
        self._check_room()

    def reconnect(self) -> None:
        """Write in-flight frames again on the next connection."""
        self._waiting.extendleft(reversed(self._in_flight))
        self._in_flight.clear()
        self._in_flight_bytes = 0

    def assured(self) -> list[OutboxFrame]:
        """The assured frames that are only here, oldest first."""
        return [
            frame
            for frame in self
            if frame.ack_tracker is not None and not isinstance(frame.ack_tracker, Spooled)
        ]
