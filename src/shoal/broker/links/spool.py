"""The spool: a persistent retransmission queue on disk for a disconnected neighbour.

A frame that is written here counts as settled for its source: this broker alone must deliver it. It
stays until the other end of the link reports it settled, also while this broker is killed and
started again. Frames are in segments, which are removed as a whole.

| a frame | on disk | in memory | settled |
| --- | --- | --- | --- |
| pending | | yes | when it is written |
| unread | yes | | is |
| read, being sent | yes | in the link's outbox | is; the other end reports when to remove it |
| copied, being sent | yes | in the link's outbox | as the one above |

A neighbour that cannot write to its disk gets frames as before, and this broker keeps a copy of
each (`copy`). The copy is read only if the link starts a fresh session.

Pure: a `SpoolStore` has the bytes, and the driver decides when to write pending frames: before any
settling is reported to a neighbour or client.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from functools import partial
from typing import NamedTuple, Protocol

import msgspec

from shoal.broker.ack_tracker import AckTracker, Errand

# The size at which a segment is closed: a segment is read into memory at once.
SEGMENT_BYTES = 2**20
# The default time for which frames of a neighbour are kept: a day.
KEEP_US = 86_400_000_000
# The number of records of a segment that was not read since the broker started.
_UNKNOWN = -1


class SpoolRecord(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A frame; one that is not `lasting` is void in a fresh session of the link."""

    data: bytes
    lasting: bool


class SpoolStore(Protocol):
    """The storage of a spool's segments."""

    def segments(self) -> Mapping[int, int]:
        """The segments of earlier incarnations of the broker: their bytes, by number."""

    def append(self, segment: int, records: list[SpoolRecord]) -> int:
        """Append records; returns their bytes. After an OSError none of them is there."""

    def load(self, segment: int) -> list[SpoolRecord]:
        """All records of a segment."""

    def remove(self, segment: int) -> None:
        """Remove a segment."""


class Spooled(Errand):
    """The tracker of a frame on disk: until it is settled, the frame stays, and is read again."""

    __slots__ = ()


class OutboxFrame:
    """An encoded message, with its acknowledgement tracker; `weight` is its count of messages."""

    __slots__ = ("ack_tracker", "data", "weight")

    def __init__(self, data: bytes, ack_tracker: AckTracker | None, weight: int = 1) -> None:
        self.data = data
        self.ack_tracker = ack_tracker
        self.weight = weight


class Read(NamedTuple):
    """A frame to be sent, with its acknowledgement tracker; `again` if it may be a repetition."""

    data: bytes
    ack_tracker: AckTracker | None
    again: bool


class _PendingFrame(NamedTuple):
    """A record to write, with its acknowledgement tracker; `copied`: the frame in the outbox."""

    record: SpoolRecord
    ack_tracker: AckTracker | None = None
    copied: OutboxFrame | None = None


class _Segment:
    """One segment of a spool.

    `done` are the obsolete records, `read` is the number of records read once, `copies` the number
    of records, the first ones, that are in the link's outbox as well.
    """

    __slots__ = ("copies", "done", "is_sealed", "is_void", "read", "records", "size")

    def __init__(self, size: int, *, is_former: bool) -> None:
        self.size = size
        self.copies = 0
        self.records = _UNKNOWN if is_former else 0
        self.read = 0
        self.done: set[int] = set()
        self.is_sealed = is_former
        # Whether only lasting records count: the others belong to an earlier session of the link.
        self.is_void = is_former

    @property
    def is_done(self) -> bool:
        return self.is_sealed and len(self.done) == self.records


class Spool:
    """The spool for one neighbour.

    `keep_us` is the time after which a disconnected neighbour counts as dead.
    """

    def __init__(
        self, store: SpoolStore, keep_us: int = KEEP_US, segment_bytes: int = SEGMENT_BYTES
    ) -> None:
        self.keep_us = keep_us
        # Whether the last write found no room.
        self.is_stuck = False
        self.pending_bytes = 0
        self._store = store
        self._segment_bytes = segment_bytes
        # Copies come first: no frame is copied while frames are to be read before it.
        self._pending: deque[_PendingFrame] = deque()
        self._segments = {
            number: _Segment(size, is_former=True) for number, size in store.segments().items()
        }
        self._to_load = deque(sorted(self._segments))
        self._loaded: deque[tuple[int, int, SpoolRecord]] = deque()
        self._last = max(self._segments, default=0)

    @property
    def size(self) -> int:
        """The bytes on disk."""
        return sum(segment.size for segment in self._segments.values())

    @property
    def is_empty(self) -> bool:
        return not (self._segments or self._pending)

    @property
    def has_unread(self) -> bool:
        """Whether later frames must queue here, behind frames to be sent before."""
        is_pending = bool(self._pending) and self._pending[-1].copied is None
        return bool(self._loaded or self._to_load) or is_pending

    # --- writing ------------------------------------------------------------------------------

    def append(self, data: bytes, ack_tracker: AckTracker | None) -> None:
        """Append a frame; `ack_tracker` is settled when it is written."""
        if ack_tracker is not None:
            ack_tracker.extend()
        self._pending.append(_PendingFrame(SpoolRecord(data, ack_tracker is not None), ack_tracker))
        self.pending_bytes += len(data)

    def copy(self, frame: OutboxFrame) -> None:
        """Keep a copy of a frame in the link's outbox, until it is settled.

        Nothing may be unread. When the copy is written the frame's tracker is settled, and replaced
        by one that removes the copy.
        """
        self._pending.append(_PendingFrame(SpoolRecord(frame.data, True), copied=frame))
        self.pending_bytes += len(frame.data)

    def write(self, room: int) -> None:
        """Write pending frames to disk, up to `room` bytes.

        OSError when the disk fails; they stay pending.
        """
        self._drop_settled_copies()
        self.is_stuck = False
        while self._pending:
            batch = self._next_batch(room)
            self.is_stuck = not batch
            if not batch:
                return
            try:
                number, first = self._append(batch)
            except OSError:
                self.is_stuck = True
                raise
            for place, pending in enumerate(batch, first):
                room -= len(pending.record.data)
                self._written(pending, number, place)

    def _drop_settled_copies(self) -> None:
        """Drop copies of frames that the other end has settled before they were written."""
        if self._pending and self._pending[0].copied is not None:
            self._keep_pending(
                each for each in self._pending if each.copied is None or each.copied.ack_tracker
            )

    def _next_batch(self, room: int) -> list[_PendingFrame]:
        """The next pending frames within `room` bytes, either copies or others."""
        batch: list[_PendingFrame] = []
        for each in self._pending:
            room -= len(each.record.data)
            if room < 0 or (each.copied is None) is not (self._pending[0].copied is None):
                break
            batch.append(each)
        return batch

    def _written(self, pending: _PendingFrame, number: int, place: int) -> None:
        """Handle the first pending frame, which is on disk now."""
        assert self._pending.popleft() is pending
        self.pending_bytes -= len(pending.record.data)
        ack_tracker, frame = pending.ack_tracker, pending.copied
        if frame is not None:
            ack_tracker, frame.ack_tracker = (
                frame.ack_tracker,
                Spooled(partial(self._mark_done, number, place)),
            )
        if ack_tracker is not None:
            ack_tracker.settle()

    def _append(self, batch: list[_PendingFrame]) -> tuple[int, int]:
        """Append records; returns the segment, and the place of the first in it."""
        segment = self._segments.get(self._last)
        if segment is not None and segment.size > self._segment_bytes:
            self._seal(self._last)
        is_new = segment is None or segment.is_sealed
        number = self._last + 1 if is_new else self._last
        written = self._store.append(number, [each.record for each in batch])
        if segment is None or is_new:
            self._last = number
            segment = self._segments[number] = _Segment(0, is_former=False)
        first = segment.records
        segment.size += written
        segment.records += len(batch)
        if batch[0].copied is not None:
            segment.copies = segment.read = segment.records
        elif first == segment.copies:  # the first record to read in this segment
            self._to_load.append(number)
        return number, first

    # --- reading ------------------------------------------------------------------------------

    def read(self) -> Read | None:
        """Read the next frame on disk; None when all were read.

        The settling of its tracker removes it; a frame without one is removed at once.
        """
        while True:
            if self._loaded:
                number, place, record = self._loaded.popleft()
                segment = self._segments[number]
                again = place < segment.read
                segment.read = max(segment.read, place + 1)
                if record.lasting:
                    settled = partial(self._mark_done, number, place)
                    return Read(record.data, Spooled(settled), again)
                self._mark_done(number, place)
                return Read(record.data, None, False)
            if not self._to_load:
                return None
            self._load(self._to_load.popleft())

    def take_pending(self) -> list[Read]:
        """Take out the pending frames, to be sent at once: all on disk were read."""
        taken = [
            Read(each.record.data, each.ack_tracker, False)
            for each in self._pending
            if each.copied is None
        ]
        self._keep_pending([each for each in self._pending if each.copied is not None])
        self.is_stuck = False
        return taken

    def rewind(self, on_their_way: Iterable[tuple[bytes, AckTracker | None]] = ()) -> None:
        """Handle a fresh session of the link: read all lasting frames again that are not settled.

        The given frames, which were in the link's outbox and are not on disk, come after them.
        """
        self._loaded.clear()
        for number, segment in list(self._segments.items()):
            segment.is_void = True
            segment.copies = 0
            self._seal(number)
        self._to_load = deque(sorted(self._segments))
        before = [
            _PendingFrame(SpoolRecord(data, True), ack_tracker)
            for data, ack_tracker in on_their_way
        ]
        left = [each for each in self._pending if each.record.lasting and each.copied is None]
        self._keep_pending(before + left)

    def _keep_pending(self, pending: Iterable[_PendingFrame]) -> None:
        self._pending = deque(pending)
        self.pending_bytes = sum(len(each.record.data) for each in self._pending)

    def clear(self) -> None:
        """Drop all frames: the neighbour counts as dead."""
        for number in list(self._segments):
            self._drop_segment(number)
        self._loaded.clear()
        self._to_load.clear()
        for read in self.take_pending():
            if read.ack_tracker is not None:
                read.ack_tracker.lose()
        self._keep_pending(())

    def _load(self, number: int) -> None:
        segment = self._segments[number]
        records = self._store.load(number)
        if segment.records == _UNKNOWN:  # an earlier incarnation may have sent them
            segment.read = len(records)
        segment.records = len(records)
        for place, record in enumerate(records):
            if segment.is_void and not record.lasting:
                segment.done.add(place)
            if place >= segment.copies and place not in segment.done:
                self._loaded.append((number, place, record))
        self._seal(number)

    def _mark_done(self, number: int, place: int) -> None:
        segment = self._segments.get(number)
        if segment is not None:
            segment.done.add(place)
            if len(segment.done) == segment.records:
                self._seal(number)

    def _seal(self, number: int) -> None:
        """Close a segment for appends."""
        segment = self._segments[number]
        segment.is_sealed = True
        if segment.is_done:
            self._drop_segment(number)

    def _drop_segment(self, number: int) -> None:
        del self._segments[number]
        self._store.remove(number)
