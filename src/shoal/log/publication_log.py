"""The log of one broker in a folder: appends records, deletes old ones, finds offsets.

>>> import tempfile
>>> from shoal.log.records import LogRecord
>>> folder = Path(tempfile.mkdtemp())
>>> log = PublicationLog(folder, "net", "B1", LogSettings(), now_us=5)
>>> log.write([LogRecord(6, "me", 1, "a/b", b"hi"), LogRecord(8, "me", 2, "a/b", b"ho")])
>>> log.first, log.next, log.offset_at(7), log.last_number
(0, 2, 1, 2)
>>> log.close()
>>> PublicationLog(folder, "net", "B1", LogSettings(), now_us=9).next
2
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from shoal.boots import this_boot
from shoal.log.errors import LogError, OffsetAheadError
from shoal.log.offsets import RESERVED, LogState, new_state, read_state, write_state
from shoal.log.readers import Readers
from shoal.log.records import Entry, LogGap, LogRecord, make_block, read_head, read_records
from shoal.log.segments import SegmentFiles

# Bytes of payloads and topics in one block; a longer record has a block of its own.
BLOCK_BYTES = 128 * 1_024
# Bytes of a record besides its texts and its payload, roughly.
RECORD_BYTES = 48
# Memory of one entry of the index.
INDEX_ENTRY_BYTES = 160
# A segment is completed at this share of the bound of age, so that a quiet log forgets, too.
AGE_PARTS = 10


class LogSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of a log: records older than `keep_us`, or beyond `keep_bytes`, are deleted.

    Named readers hold back the deletion of `held_bytes` more.
    """

    keep_bytes: int = 2**30
    keep_us: int = 7 * 86_400 * 1_000_000
    held_bytes: int = 2**30
    segment_bytes: int = 64 * 2**20


class LogView:
    """The readable side of a log."""

    def __init__(self, folder: Path, files: SegmentFiles, readers: Readers) -> None:
        self.folder = folder
        self._files = files
        self.readers = readers

    @property
    def broker(self) -> str:
        """The broker whose log it is."""
        return self._files.broker

    @property
    def first(self) -> int:
        """The oldest offset that is there; `next` if there is none."""
        return self._files.first

    @property
    def next(self) -> int:
        """The offset of the next record."""
        return self._files.next

    @property
    def size(self) -> int:
        return self._files.size

    @property
    def first_us(self) -> int:
        """The time of the oldest record; 0 if there is none."""
        return next((each.first_us for each in self._files.segments if each.index), 0)

    @property
    def last_us(self) -> int:
        """The time of the last record; 0 if there is none."""
        return self._files.last_us

    @property
    def index_size(self) -> tuple[int, int]:
        """Entries of the index, and their bytes in memory, roughly."""
        entries = sum(len(each.index) for each in self._files.segments)
        return entries, entries * INDEX_ENTRY_BYTES

    def blocks(self, offset: int, run: int = 0) -> Iterator[bytes]:
        """Blocks from the one with this offset on, up to the present end.

        `run` is that of the record before it, as its reader had it, or 0. OffsetGoneError for an
        offset that has been deleted, OffsetAheadError for one that the log has not given yet.
        """
        if offset > self.next:
            raise OffsetAheadError(offset, self.next)
        if run and offset > self.first:
            former = next(self._files.blocks(offset - 1), None)
            if former is not None and read_head(former).run != run:
                raise OffsetAheadError(offset, read_head(former).first)
        return self._files.blocks(offset)

    @property
    def last_number(self) -> int:
        """The number of the last publication; -1 if there is none near the end."""
        numbers = (
            record.number
            for block in self._files.last_blocks()
            for record in read_records(block)
            if isinstance(record, LogRecord)
        )
        return max(numbers, default=-1)

    def offset_at(self, time_us: int) -> int:
        """The offset of the first record at or after a time; `next` if there is none."""
        for block in self._files.blocks_at(time_us):
            for at, record in enumerate(read_records(block), read_head(block).first):
                if record.time_us >= time_us:
                    return at
        return self.next


class PublicationLog(LogView):
    """One log, which no other process writes; LogError where its folder cannot be used."""

    def __init__(
        self, folder: Path, network: str, broker: str, settings: LogSettings, now_us: int
    ) -> None:
        self.settings = settings
        self.run = now_us
        self._lock = _take_lock(folder)
        try:
            former = read_state(folder)
            state = former or new_state(this_boot())
            has_ended = state.ended is not None
            files = SegmentFiles(
                folder, network, broker, state.log, writes=True, has_ended=has_ended
            )
            super().__init__(folder, files, Readers(folder))
            self.warnings = files.warnings
            self._last_us = self._files.last_us
            self._state = state
            self._recover(former, now_us)
        except (LogError, OSError) as error:
            os.close(self._lock)
            if isinstance(error, OSError):
                problem = f"{error.filename or folder}: {error.strerror}"
                raise LogError(problem) from None
            raise

    # --- writing ------------------------------------------------------------------------------

    def write(self, records: Sequence[Entry]) -> None:
        """Append records, in order; OSError if one cannot be written, and then none of its block.

        A time before that of the record before it becomes that one's.
        """
        block: list[Entry] = []
        size = 0
        for record in records:
            if record.time_us < self._last_us:
                record = msgspec.structs.replace(record, time_us=self._last_us)
            self._last_us = record.time_us
            if size >= BLOCK_BYTES:
                self._append(block)
                block, size = [], 0
            block.append(record)
            size += RECORD_BYTES + _size(record)
        if block:
            self._append(block)

    def reach(self, time_us: int) -> None:
        """No later record is to have an earlier time: readers have been told so."""
        self._last_us = max(self._last_us, time_us)

    def sync_job(self) -> Callable[[], None]:
        """Return a call, for any thread, after which all records so far outlast a power cut."""
        return self._files.sync_job()

    def retain(self, now_us: int) -> None:
        """Delete segments beyond the bounds; complete one that has become old."""
        settings, files = self.settings, self._files
        last = files.segments[-1]
        is_old = last.index and last.first_us < now_us - settings.keep_us // AGE_PARTS
        if is_old:
            files.begin(files.next)
        while len(files.segments) > 1:
            oldest = files.segments[0]
            is_beyond = files.size - oldest.bytes >= settings.keep_bytes
            if not is_beyond and oldest.last_us >= now_us - settings.keep_us:
                return
            holding = self.readers.holding(oldest.next)
            most = settings.keep_bytes + settings.held_bytes
            if holding and files.size - oldest.bytes < most:
                return
            for reader in holding:
                self.readers.lose(reader)
            files.remove_first()

    def close(self) -> None:
        """End in order, so that the next start knows that nothing is missing."""
        try:
            self._files.close()
            write_state(self.folder, self._new_state(self.next, ended=self.next))
        finally:
            os.close(self._lock)

    def abandon(self) -> None:
        """Release the folder as a kill does."""
        os.close(self._lock)

    # --- offsets ------------------------------------------------------------------------------

    def _recover(self, former: LogState | None, now_us: int) -> None:
        state, files = self._state, self._files
        end = files.next
        if state.ended is not None and end < state.ended and files.segments:
            raise LogError(
                f"{self.folder}: records from offset {end} to {state.ended - 1} are missing; put "
                "the segments back, or move the folder away to begin with nothing"
            )
        is_cut = former is not None and former.ended is None and former.boot != this_boot()
        begin = max(end, state.ended or 0, state.bound if is_cut else 0)
        if (begin > end and files.segments) or not files.segments:
            self._reserve(begin)
            files.begin(begin)
        else:
            files.resume()
            self._reserve(begin)
        if is_cut and begin > end:
            from_us = self._last_us
            self.write([LogGap(now_us, from_us, now_us, None, "a power cut")])

    def _append(self, records: list[Entry]) -> None:
        files = self._files
        if files.segments[-1].bytes >= self.settings.segment_bytes:
            files.begin(files.next)
        if files.next + len(records) > self._state.bound:
            self._reserve(files.next + len(records))
        block = make_block(files.next, self.run, records)
        files.append(block, read_head(block))

    def _reserve(self, offset: int) -> None:
        self._state = self._new_state(offset + RESERVED)
        write_state(self.folder, self._state)

    def _new_state(self, bound: int, ended: int | None = None) -> LogState:
        return LogState(self._state.log, bound, this_boot(), ended)


class FolderLog(LogView):
    """The log in a folder, for reading; a broker may be writing it.

    It ends where it ended when it was opened. LogError if there is none.
    """

    def __init__(self, folder: Path) -> None:
        state = read_state(folder)
        if state is None:
            raise LogError(f"{folder} has no log")
        files = SegmentFiles(folder, "", "", state.log, writes=False)
        super().__init__(folder, files, Readers(folder))


def _size(record: Entry) -> int:
    if isinstance(record, LogGap):
        return len(record.reason)
    return len(record.publisher) + len(record.topic) + len(record.payload)


def _take_lock(folder: Path) -> int:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise LogError(f"{folder} cannot be used: {error.strerror}") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise LogError(
            f"{folder} is in use by another process; stop that broker, or name another folder"
        ) from None
    return lock
