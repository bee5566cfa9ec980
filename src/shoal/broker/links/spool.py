"""What waits on disk for a neighbour that is away, so that nobody else waits for that neighbour.

A frame that is written here counts as settled to those who wait for word of it: this broker alone
has to bring it.  It stays until the other end of the link has said that it is settled there, also
while this broker is killed and started again.  Frames are in segments, which go as a whole.

| a frame | on disk | in memory | settled |
| --- | --- | --- | --- |
| pending | | yes | when it is written |
| unread | yes | | is |
| read, on its way | yes | in the link's outbox | is; the other end says when it goes |
| copied, on its way | yes | in the link's outbox | as the one above |

A neighbour whose disk takes nothing gets frames as before, and this broker keeps a copy of each
(`copy`).  The copy is read only if the link starts afresh.

Pure: a `SpoolStore` has the bytes, and the driver says when to write what is pending: before any
neighbour or client is told what is settled.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from functools import partial
from typing import NamedTuple, Protocol

import msgspec

from shoal.broker.custody import Custody, Errand

# A segment is not appended to beyond this: what is read into memory at once.
SEGMENT_BYTES = 2**20
# How long what waits for a neighbour is kept by default: a night and a day.
KEEP_US = 86_400_000_000
# Of a segment that was not read since the broker started.
_UNKNOWN = -1


class SpoolRecord(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A frame; unless it is `lasting` it means nothing any more once the link starts afresh."""

    data: bytes
    lasting: bool


class SpoolStore(Protocol):
    """Where a spool's segments are."""

    def segments(self) -> Mapping[int, int]:
        """Those that are there from before the broker started: their bytes, by number."""

    def append(self, segment: int, records: list[SpoolRecord]) -> int:
        """Write behind what the segment has; how many bytes.  OSError: nothing of it is there."""

    def load(self, segment: int) -> list[SpoolRecord]:
        """All that the segment has."""

    def remove(self, segment: int) -> None:
        """The segment is needed no more."""


class Spooled(Errand):
    """Of a frame that is on disk: until it is settled it stays there, and is read again."""

    __slots__ = ()


class Frame:
    """One message as bytes, and who waits for word of it; `weight` is how many it counts for."""

    __slots__ = ("custody", "data", "weight")

    def __init__(self, data: bytes, custody: Custody | None, weight: int = 1) -> None:
        self.data = data
        self.custody = custody
        self.weight = weight


class Read(NamedTuple):
    """A frame to be sent, and who waits for it; `again` if it may have been sent before."""

    data: bytes
    custody: Custody | None
    again: bool


class _Pending(NamedTuple):
    """A record to be written, and who waits for that; `copied`: the frame in the link's outbox."""

    record: SpoolRecord
    custody: Custody | None = None
    copied: Frame | None = None


class _Segment:
    """`done`: the records that are needed no more; `read`: how many were given out once; `copies`:
    how many, the first, are in the link's outbox as well.
    """

    __slots__ = ("copies", "done", "is_sealed", "is_void", "read", "records", "size")

    def __init__(self, size: int, *, is_former: bool) -> None:
        self.size = size
        self.copies = 0
        self.records = _UNKNOWN if is_former else 0
        self.read = 0
        self.done: set[int] = set()
        self.is_sealed = is_former
        # Whether only what is lasting counts: the rest is of a session of the link that is over.
        self.is_void = is_former

    @property
    def is_done(self) -> bool:
        return self.is_sealed and len(self.done) == self.records


class Spool:
    """The spool for one neighbour.

    `keep_us` says how long the neighbour may be away before it counts as gone.
    """

    def __init__(
        self, store: SpoolStore, keep_us: int = KEEP_US, segment_bytes: int = SEGMENT_BYTES
    ) -> None:
        self.keep_us = keep_us
        # Whether there was something to write, and no room for it.
        self.is_stuck = False
        self.pending_bytes = 0
        self._store = store
        self._segment_bytes = segment_bytes
        # Copies come first: nothing is copied while anything is to be read before it.
        self._pending: deque[_Pending] = deque()
        self._segments = {
            number: _Segment(size, is_former=True) for number, size in store.segments().items()
        }
        self._to_load = deque(sorted(self._segments))
        self._loaded: deque[tuple[int, int, SpoolRecord]] = deque()
        self._last = max(self._segments, default=0)

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return sum(segment.size for segment in self._segments.values())

    @property
    def is_empty(self) -> bool:
        return not (self._segments or self._pending)

    @property
    def has_unread(self) -> bool:
        """Whether what comes must queue here, behind what is to be sent before it."""
        is_pending = bool(self._pending) and self._pending[-1].copied is None
        return bool(self._loaded or self._to_load) or is_pending

    # --- in -----------------------------------------------------------------------------------

    def append(self, data: bytes, custody: Custody | None) -> None:
        """Keep a frame behind all others; `custody` is settled when it is written."""
        if custody is not None:
            custody.extend()
        self._pending.append(_Pending(SpoolRecord(data, custody is not None), custody))
        self.pending_bytes += len(data)

    def copy(self, frame: Frame) -> None:
        """Keep a copy of a frame that is in the link's outbox, until its custody is settled.

        Nothing may be unread.  Once the copy is written the frame's custody is settled, and the
        frame has one that removes the copy.
        """
        self._pending.append(_Pending(SpoolRecord(frame.data, True), copied=frame))
        self.pending_bytes += len(frame.data)

    def write(self, room: int) -> None:
        """Put on disk what is pending, as far as there is room for it.

        OSError when the disk does not take it; it stays pending.
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
        """The other end has settled these frames before their copies were written."""
        if self._pending and self._pending[0].copied is not None:
            self._keep_pending(
                each for each in self._pending if each.copied is None or each.copied.custody
            )

    def _next_batch(self, room: int) -> list[_Pending]:
        """What fits into so many bytes of what is pending next, copies or no copies."""
        batch: list[_Pending] = []
        for each in self._pending:
            room -= len(each.record.data)
            if room < 0 or (each.copied is None) is not (self._pending[0].copied is None):
                break
            batch.append(each)
        return batch

    def _written(self, pending: _Pending, number: int, place: int) -> None:
        """The first of what is pending is on disk now."""
        assert self._pending.popleft() is pending
        self.pending_bytes -= len(pending.record.data)
        custody, frame = pending.custody, pending.copied
        if frame is not None:
            custody, frame.custody = frame.custody, Spooled(partial(self._done, number, place))
        if custody is not None:
            custody.settle()

    def _append(self, batch: list[_Pending]) -> tuple[int, int]:
        """Write behind all others; the segment, and the place of the first in it."""
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
        elif first == segment.copies:  # of what is to be read, the first in this segment
            self._to_load.append(number)
        return number, first

    # --- out ----------------------------------------------------------------------------------

    def read(self) -> Read | None:
        """The next frame on disk; None when all were read.

        Its custody settles it here; a frame without one is gone when it was read.
        """
        while True:
            if self._loaded:
                number, place, record = self._loaded.popleft()
                segment = self._segments[number]
                again = place < segment.read
                segment.read = max(segment.read, place + 1)
                if record.lasting:
                    settled = partial(self._done, number, place)
                    return Read(record.data, Spooled(settled), again)
                self._done(number, place)
                return Read(record.data, None, False)
            if not self._to_load:
                return None
            self._load(self._to_load.popleft())

    def take_pending(self) -> list[Read]:
        """What is not on disk, to be sent at once: all on disk was read."""
        taken = [
            Read(each.record.data, each.custody, False)
            for each in self._pending
            if each.copied is None
        ]
        self._keep_pending([each for each in self._pending if each.copied is not None])
        self.is_stuck = False
        return taken

    def rewind(self, on_their_way: Iterable[tuple[bytes, Custody | None]] = ()) -> None:
        """The link starts afresh: read again all that is not settled, and of that what is lasting.

        Behind it come these, which were in the link's outbox and are not on disk.
        """
        self._loaded.clear()
        for number, segment in list(self._segments.items()):
            segment.is_void = True
            segment.copies = 0
            self._seal(number)
        self._to_load = deque(sorted(self._segments))
        before = [_Pending(SpoolRecord(data, True), custody) for data, custody in on_their_way]
        left = [each for each in self._pending if each.record.lasting and each.copied is None]
        self._keep_pending(before + left)

    def _keep_pending(self, pending: Iterable[_Pending]) -> None:
        self._pending = deque(pending)
        self.pending_bytes = sum(len(each.record.data) for each in self._pending)

    def clear(self) -> None:
        """The neighbour counts as gone, with whom all this is for."""
        for number in list(self._segments):
            self._drop(number)
        self._loaded.clear()
        self._to_load.clear()
        for read in self.take_pending():
            if read.custody is not None:
                read.custody.lose()
        self._keep_pending(())

    def _load(self, number: int) -> None:
        segment = self._segments[number]
        records = self._store.load(number)
        if segment.records == _UNKNOWN:  # an earlier life of this broker may have sent them
            segment.read = len(records)
        segment.records = len(records)
        for place, record in enumerate(records):
            if segment.is_void and not record.lasting:
                segment.done.add(place)
            if place >= segment.copies and place not in segment.done:
                self._loaded.append((number, place, record))
        self._seal(number)

    def _done(self, number: int, place: int) -> None:
        segment = self._segments.get(number)
        if segment is not None:
            segment.done.add(place)
            if len(segment.done) == segment.records:
                self._seal(number)

    def _seal(self, number: int) -> None:
        """Nothing more is appended to it."""
        segment = self._segments[number]
        segment.is_sealed = True
        if segment.is_done:
            self._drop(number)

    def _drop(self, number: int) -> None:
        del self._segments[number]
        self._store.remove(number)
