"""Segments of a log: files of blocks, with an index by offset and by time.

The last segment grows; its index is in memory. A complete segment has its index in a file beside
it, so that a start reads the last segment alone. Reading needs no lock: blocks never change, and a
deleted segment ends a reader's reading with `OffsetGoneError`.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Iterator
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

import msgspec

from shoal.batches import HEAD_BYTES, batch_at, framed, is_torn, length_at
from shoal.log.errors import LogError, OffsetGoneError
from shoal.log.records import BlockHead, read_head

FORMAT = "shoal log 1"
_LOG, _INDEX = "log-", "index-"
# Bytes of a segment between two places of its index: what a search reads in vain at most.
INDEX_BYTES = 64 * 1_024
# Bytes that are read at once.
READ_BYTES = 256 * 1_024


class Heading(msgspec.Struct, frozen=True, array_like=True):
    """The first batch of a segment."""

    format: str
    network: str
    broker: str
    log: str


class IndexEntry(NamedTuple):
    """A block's first offset, the time of its first record, and its place in the segment."""

    offset: int
    time_us: int
    position: int


class LogSegment:
    """One segment: its file, its bounds, and the index."""

    def __init__(self, path: Path, first: int) -> None:
        self.path = path
        self.first = self.next = first
        self.first_us = self.last_us = 0
        self.bytes = 0
        self.index: list[IndexEntry] = []

    def add(self, head: BlockHead, position: int, size: int) -> None:
        """Count a block that stands at this place."""
        if not self.index or position - self.index[-1].position >= INDEX_BYTES:
            self.index.append(IndexEntry(head.first, head.first_us, position))
        if self.next == self.first:
            self.first_us = head.first_us
        self.next, self.last_us = head.next, head.last_us
        self.bytes = position + size

    def place_of(self, offset: int) -> int:
        """The position from which to read for a record of this segment."""
        at = bisect_right(self.index, offset, key=attrgetter("offset"))
        return self.index[max(0, at - 1)].position if self.index else self.bytes

    def place_at(self, time_us: int) -> int:
        """The position from which to read for the first record at or after a time."""
        # An entry with this very time may have earlier records of the same time before it.
        at = bisect_right(self.index, time_us - 1, key=attrgetter("time_us"))
        return self.index[max(0, at - 1)].position if self.index else self.bytes

    def blocks(self, position: int, end: int | None = None) -> Iterator[tuple[int, bytes]]:
        """Whole blocks from a position on, with their positions; LogError for a damaged one.

        A block that is being written ends the iteration.
        """
        try:
            file = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise OffsetGoneError(self.first, self.next) from None
        try:
            data, start = b"", position
            while end is None or position < end:
                block = batch_at(data, position - start)
                if block is None:
                    data, start = os.pread(file, READ_BYTES, position), position
                    length = HEAD_BYTES + (length_at(data, 0) or 0)
                    if length > len(data):
                        data = os.pread(file, length, position)
                    block = batch_at(data, 0)
                if block is None:
                    if is_torn(data, 0):
                        return
                    raise _damaged(self.path, position)
                yield position, block
                position += HEAD_BYTES + len(block)
        finally:
            os.close(file)


def read_heading(folder: Path) -> Heading:
    """The heading of the newest segment in a folder; LogError if there is none."""
    for path in sorted(folder.glob(f"{_LOG}*"), reverse=True):
        with path.open("rb") as file:
            batch = batch_at(file.read(READ_BYTES), 0)
        if batch is not None:
            return _decode_heading(path, batch)
    raise LogError(f"{folder} has no log")


def _decode_heading(path: Path, batch: bytes) -> Heading:
    try:
        return msgspec.msgpack.decode(batch, type=Heading)
    except msgspec.MsgspecError as error:
        raise LogError(f"{path}: no heading of a log: {error}") from None


def _damaged(path: Path, position: int) -> LogError:
    return LogError(
        f"{path}: the block at byte {position} is damaged; nothing was changed. Records before it "
        "can be read; to go on without this segment, move it and its index away"
    )


class SegmentFiles:
    """All segments of one log, oldest first; the last one takes blocks.

    LogError where files are missing, damaged, or another broker's.
    """

    def __init__(
        self,
        folder: Path,
        network: str,
        broker: str,
        log: str,
        *,
        writes: bool,
        has_ended: bool = False,
    ) -> None:
        """A log that `has_ended` in order has no torn block. One that is not to be written may have
        a broker that writes it.
        """
        self.folder = folder
        self._has_ended = has_ended
        self._heading = Heading(FORMAT, network, broker, log)
        # The broker in the headings, also where none was asked for.
        self.broker = broker
        self._writes = writes
        self._file = -1
        # Complete segments that are not synced yet.
        self._unsynced: list[int] = []
        # Descriptions of what a crash has cut short.
        self.warnings: list[str] = []
        paths = self._paths()
        loaded = [self._load(path, is_last=path == paths[-1]) for path in paths]
        self.segments = [each for each in loaded if each is not None]
        for earlier, later in zip(self.segments, self.segments[1:], strict=False):
            # After a power cut a segment begins beyond the end of the one before, with a gap.
            if earlier.next > later.first:
                raise LogError(f"{later.path} begins before {earlier.path.name} ends; move it away")

    @property
    def first(self) -> int:
        """The oldest offset that is there, or the next one."""
        return self.segments[0].first if self.segments else 0

    @property
    def next(self) -> int:
        return self.segments[-1].next if self.segments else 0

    @property
    def last_us(self) -> int:
        """The time of the last record; 0 if there is none."""
        return max((each.last_us for each in self.segments), default=0)

    @property
    def size(self) -> int:
        return sum(each.bytes for each in self.segments)

    # --- writing ------------------------------------------------------------------------------

    def append(self, block: bytes, head: BlockHead) -> None:
        """Write a block; OSError if that cannot be, and then nothing of it is there."""
        segment = self.segments[-1]
        _write(self._file, framed(block), segment.bytes)
        segment.add(head, segment.bytes, HEAD_BYTES + len(block))

    def begin(self, first: int) -> None:
        """Complete the last segment, and begin another at this offset; OSError if that fails."""
        path = self.folder / f"{_LOG}{first:020}"
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC
        file = os.open(path, flags, 0o600)
        segment = LogSegment(path, first)
        data = framed(msgspec.msgpack.encode(self._heading))
        try:
            _write(file, data, 0)
            if self.segments:
                self._save_index(self.segments[-1])
        except OSError:
            os.close(file)
            path.unlink()
            raise
        segment.bytes = len(data)
        if self._file >= 0:
            self._unsynced.append(self._file)
        self._file = file
        self.segments.append(segment)

    def resume(self) -> None:
        """Go on at the end of the last segment, if there is one."""
        if self.segments:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC
            self._file = os.open(self.segments[-1].path, flags)

    def remove_first(self) -> None:
        """Delete the oldest segment."""
        segment = self.segments.pop(0)
        segment.path.unlink(missing_ok=True)
        _index_path(segment).unlink(missing_ok=True)

    def sync_job(self) -> Callable[[], None]:
        """Return a call, for any thread, after which all records so far outlast a power cut."""
        files, self._unsynced = self._unsynced, []
        if self._file >= 0:
            files.append(os.dup(self._file))

        def sync() -> None:
            try:
                for file in files:
                    os.fdatasync(file)
            finally:
                for file in files:
                    os.close(file)

        return sync

    def close(self) -> None:
        """Sync everything, and write no more."""
        self.sync_job()()
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    # --- reading ------------------------------------------------------------------------------

    def blocks(self, offset: int) -> Iterator[bytes]:
        """Blocks from the one with this offset on, up to the present end."""
        if offset < self.first:
            raise OffsetGoneError(offset, self.first)
        for segment in tuple(self.segments):
            if segment.next > offset:
                end = segment.bytes
                for _, block in segment.blocks(segment.place_of(offset), end):
                    if read_head(block).next > offset:
                        yield block

    def blocks_at(self, time_us: int) -> Iterator[bytes]:
        """Blocks from the first one with a record at or after a time."""
        for segment in tuple(self.segments):
            if segment.last_us >= time_us and segment.next > segment.first:
                for _, block in segment.blocks(segment.place_at(time_us), segment.bytes):
                    if read_head(block).last_us >= time_us:
                        yield block

    def last_blocks(self) -> Iterator[bytes]:
        """The last blocks, some 64 kB of them in each of the last two segments."""
        for segment in self.segments[-2:]:
            if segment.index:
                position = segment.index[-2:][0].position
                for _, block in segment.blocks(position, segment.bytes):
                    yield block

    # --- loading ------------------------------------------------------------------------------

    def _paths(self) -> list[Path]:
        found = [path for path in self.folder.glob(f"{_LOG}*") if path.name[4:].isdecimal()]
        return sorted(found)

    def _load(self, path: Path, *, is_last: bool) -> LogSegment | None:
        """None for a last file that a crash has left without its heading."""
        segment = LogSegment(path, int(path.name.removeprefix(_LOG)))
        try:
            if not self._has_heading(segment, is_last=is_last):
                return None
            if is_last or not _load_index(segment):
                self._scan(segment, is_last=is_last)
        except OSError as error:
            raise LogError(f"{error.filename or path}: {error.strerror}") from None
        return segment

    def _has_heading(self, segment: LogSegment, *, is_last: bool) -> bool:
        with segment.path.open("rb") as file:
            data = file.read(READ_BYTES)
        batch = batch_at(data, 0)
        if batch is None:
            if self._has_ended or not (is_last and is_torn(data, 0)):
                raise _damaged(segment.path, 0)
            self._cut(segment, 0)
            if self._writes:
                segment.path.unlink()
            return False
        heading = _decode_heading(segment.path, batch)
        own = self._heading
        if heading.format != FORMAT:
            raise LogError(
                f"{segment.path}: another version of shoal wrote it (format {heading.format!r}, "
                f"this version has {FORMAT!r}); start that version, or name another folder"
            )
        if own.broker and (heading.network, heading.broker) != (own.network, own.broker):
            raise LogError(
                f"{segment.path} is the log of broker {heading.broker!r} of network "
                f"{heading.network!r}, not of {own.broker!r} of {own.network!r}; name another "
                "folder"
            )
        if heading.log != own.log:
            raise LogError(
                f"{segment.path} belongs to another log of this broker (its file `state` names "
                "another); put the folder's files together again, or move it away"
            )
        segment.bytes = HEAD_BYTES + len(batch)
        self.broker = heading.broker
        return True

    def _scan(self, segment: LogSegment, *, is_last: bool) -> None:
        """Read every block, and check it; cut off a torn one at the end of the last segment."""
        begin = end = segment.bytes
        try:
            for position, block in segment.blocks(begin):
                head = read_head(block)
                if head.first != segment.next and position != begin:
                    raise LogError(
                        f"{segment.path}: the block at byte {position} begins with offset "
                        f"{head.first}, and {segment.next} comes next; move the segment away"
                    )
                segment.add(head, position, HEAD_BYTES + len(block))
                end = segment.bytes
        except ValueError as error:
            raise LogError(f"{segment.path}: {error} at byte {end}") from None
        if segment.path.stat().st_size > end:
            if not is_last or self._has_ended:
                raise _damaged(segment.path, end)
            self._cut(segment, end)

    def _cut(self, segment: LogSegment, position: int) -> None:
        lost = segment.path.stat().st_size - position
        self.warnings.append(
            f"{segment.path}: its last block, {lost} bytes from byte {position} on, was not whole; "
            "a crash or a power cut while it was written leaves it so"
        )
        if self._writes:
            os.truncate(segment.path, position)

    def _save_index(self, segment: LogSegment) -> None:
        bounds = segment.next, segment.first_us, segment.last_us, segment.bytes
        data = framed(msgspec.msgpack.encode((bounds, segment.index)))
        _index_path(segment).write_bytes(data)


def _index_path(segment: LogSegment) -> Path:
    return segment.path.with_name(segment.path.name.replace(_LOG, _INDEX))


def _load_index(segment: LogSegment) -> bool:
    """Read the index of a complete segment; False if there is none that fits the file."""
    kind = tuple[tuple[int, int, int, int], list[IndexEntry]]
    try:
        batch = batch_at(_index_path(segment).read_bytes(), 0)
        (bounds, index) = msgspec.msgpack.decode(batch or b"", type=kind)
    except (FileNotFoundError, msgspec.MsgspecError):
        return False
    if bounds[3] != segment.path.stat().st_size:
        return False
    segment.next, segment.first_us, segment.last_us, segment.bytes = bounds
    segment.index = index
    return True


def _write(file: int, data: bytes, size: int) -> None:
    """Append to a file of this size; OSError leaves it as it was."""
    view, written = memoryview(data), 0
    try:
        while written < len(view):
            written += os.write(file, view[written:])
    except OSError:
        os.ftruncate(file, size)
        raise
