"""What waits on disk for a neighbour that is away, so that nobody else waits for that neighbour.

A frame that is written here counts as settled to those who wait for word of it: this broker alone
has to bring it.  It stays until the other end of the link has said that it is settled there, also
while this broker is killed and started again.  Frames are in segments, which go as a whole.

| a frame | on disk | in memory | settled |
| --- | --- | --- | --- |
| pending | | yes | when it is written |
| unread | yes | | is |
| read, on its way | yes | in the link's outbox | is; the other end says when it goes |

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
    """Of a frame that was read from disk: until it is settled it stays there, and is read again."""

    __slots__ = ()


class Read(NamedTuple):
    """A frame to be sent, and who waits for it; `again` if it may have been sent before."""

    data: bytes
    custody: Custody | None
    again: bool


class _Segment:
    """`done`: the records that are needed no more; `read`: how many were given out once."""

    __slots__ = ("done", "is_sealed", "is_void", "read", "records", "size")

    def __init__(self, size: int, *, is_former: bool) -> None:
        self.size = size
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
        self._pending: deque[tuple[SpoolRecord, Custody | None]] = deque()
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
        return bool(self._loaded or self._to_load or self._pending)

    # --- in -----------------------------------------------------------------------------------

    def append(self, data: bytes, custody: Custody | None) -> None:
        """Keep a frame behind all others; `custody` is settled when it is written."""
        if custody is not None:
            custody.extend()
        self._pending.append((SpoolRecord(data, custody is not None), custody))
        self.pending_bytes += len(data)

    def write(self, room: int) -> None:
        """Put on disk what is pending, as far as there is room for it.

        OSError when the disk does not take it; it stays pending.
        """
        count = size = 0
        for record, _ in self._pending:
            if size + len(record.data) > room:
                break
            size += len(record.data)
            count += 1
        self.is_stuck = count < len(self._pending)
        if not count:
            return
        try:
            self._append([record for record, _ in list(self._pending)[:count]])
        except OSError:
            self.is_stuck = True
            raise
        self.pending_bytes -= size
        for custody in [self._pending.popleft()[1] for _ in range(count)]:
            if custody is not None:
                custody.settle()

    def _append(self, records: list[SpoolRecord]) -> None:
        segment = self._segments.get(self._last)
        if segment is not None and segment.size > self._segment_bytes:
            self._seal(self._last)
        is_new = segment is None or segment.is_sealed
        number = self._last + 1 if is_new else self._last
        written = self._store.append(number, records)
        if segment is None or is_new:
            self._last = number
            segment = self._segments[number] = _Segment(0, is_former=False)
            self._to_load.append(number)
        segment.size += written
        segment.records += len(records)

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
        taken = [Read(record.data, custody, False) for record, custody in self._pending]
        self._pending.clear()
        self.pending_bytes = 0
        self.is_stuck = False
        return taken

    def rewind(self, on_their_way: Iterable[tuple[bytes, Custody | None]] = ()) -> None:
        """The link starts afresh: read again all that is not settled, and of that what is lasting.

        Behind it come these, which were in the link's outbox and are not on disk.
        """
        self._loaded.clear()
        for number, segment in list(self._segments.items()):
            segment.is_void = True
            self._seal(number)
        self._to_load = deque(sorted(self._segments))
        before = [(SpoolRecord(data, True), custody) for data, custody in on_their_way]
        self._pending = deque(before + [each for each in self._pending if each[0].lasting])
        self.pending_bytes = sum(len(record.data) for record, _ in self._pending)

    def clear(self) -> None:
        """The neighbour counts as gone, with whom all this is for."""
        for number in list(self._segments):
            self._drop(number)
        self._loaded.clear()
        self._to_load.clear()
        for read in self.take_pending():
            if read.custody is not None:
                read.custody.lose()

    def _load(self, number: int) -> None:
        segment = self._segments[number]
        records = self._store.load(number)
        if segment.records == _UNKNOWN:  # an earlier life of this broker may have sent them
            segment.read = len(records)
        segment.records = len(records)
        for place, record in enumerate(records):
            if segment.is_void and not record.lasting:
                segment.done.add(place)
            if place not in segment.done:
                self._loaded.append((number, place, record))
        self._seal(number)

    def _done(self, number: int, place: int) -> None:
        segment = self._segments.get(number)
        if segment is not None:
            segment.done.add(place)
            if segment.is_done:
                self._drop(number)

    def _seal(self, number: int) -> None:
        """Nothing more is appended to it."""
        segment = self._segments[number]
        segment.is_sealed = True
        if segment.is_done:
            self._drop(number)

    def _drop(self, number: int) -> None:
        del self._segments[number]
        self._store.remove(number)
