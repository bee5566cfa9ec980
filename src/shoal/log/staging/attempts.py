"""The rows of attempts in files: `FOLDER/QUERY/BATCH/ATTEMPT`, each a sequence of checked batches.

A batch has the number of its rows, 4 bytes, and the rows. A torn batch at the end, as a kill leaves
it, is cut off: its sender saw no answer, and sends it again.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from shoal.batches import HEAD_BYTES, batch_at, framed, is_torn
from shoal.log.errors import LogError
from shoal.log.staging.staged_rows import StagedRow, decode_rows

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_COUNT_BYTES = 4
# Attempts of all queries; each is a file.
MOST_ATTEMPTS = 20_000
# Memory of an attempt's size.
ATTEMPT_BYTES = 400


class AttemptId(NamedTuple):
    """One attempt: names have letters, digits, `.`, `_` and `-`."""

    query: str
    batch: int
    attempt: str

    def check(self) -> None:
        """ValueError for a name that cannot be that of a file."""
        for text in (self.query, self.attempt):
            if not _NAME.fullmatch(text):
                raise ValueError(f"{text[:80]!r} is no name: letters, digits, . _ -")


class StagingFullError(LogError):
    """The rows of all attempts together are too many."""


class AttemptSize(NamedTuple):
    """What an attempt has, and when rows last came."""

    rows: int
    bytes: int
    at_us: int


class StagedAttempts:
    """All attempts at one broker; LogError for a folder that cannot be used.

    `most_bytes` bounds them together.
    """

    def __init__(self, folder: Path, most_bytes: int, now_us: int) -> None:
        self.folder = folder
        self.most_bytes = most_bytes
        self.sizes: dict[AttemptId, AttemptSize] = {}
        self.bytes = 0
        try:
            for path in sorted(folder.glob("*/*/*")):
                if path.parent.name.isdecimal():
                    id = AttemptId(path.parent.parent.name, int(path.parent.name), path.name)
                    self._set(id, AttemptSize(*_recover(path), now_us))
        except OSError as error:
            raise LogError(f"{error.filename or folder}: {error.strerror}") from None

    def count(self, id: AttemptId) -> int:
        """How many rows an attempt has."""
        return self.sizes[id].rows if id in self.sizes else 0

    def append(self, id: AttemptId, at: int, count: int, rows: bytes, now_us: int) -> int:
        """Add rows behind the first `at`; returns how many there are.

        A request that comes again changes nothing. ValueError for rows that leave a gap,
        StagingFullError where there is no room, OSError where the disk has none.
        """
        id.check()
        size = self.sizes.get(id, AttemptSize(0, 0, now_us))
        if at != size.rows:
            if at + count == size.rows:
                return size.rows
            raise ValueError(f"{id.attempt} has {size.rows} rows, not {at}")
        data = framed(count.to_bytes(_COUNT_BYTES, "big") + rows)
        if self.bytes + len(data) > self.most_bytes:
            raise StagingFullError(
                f"staged rows take {self.bytes:,} of {self.most_bytes:,} bytes (staged_bytes)"
            )
        if id not in self.sizes and len(self.sizes) >= MOST_ATTEMPTS:
            raise StagingFullError(f"{MOST_ATTEMPTS:,} attempts wait here")
        path = self._path(id)
        path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if os.pwrite(file, data, size.bytes) != len(data):
                raise OSError(28, "No space left on device", str(path))
        except OSError:
            os.ftruncate(file, size.bytes)
            raise
        finally:
            os.close(file)
        self._set(id, AttemptSize(at + count, size.bytes + len(data), now_us))
        return at + count

    def sync(self, id: AttemptId) -> None:
        """Make an attempt outlast a power cut; for any thread."""
        for path in (self._path(id), self._path(id).parent):
            file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(file)
            finally:
                os.close(file)

    def rows(self, id: AttemptId, first: int = 0) -> Iterator[StagedRow]:
        """The rows from number `first` on; LogError for an attempt that is damaged."""
        passed = 0
        with self._path(id).open("rb") as file:
            while head := file.read(HEAD_BYTES):
                batch = batch_at(head + file.read(int.from_bytes(head[:4], "big")), 0)
                if batch is None:
                    raise LogError(f"{self._path(id)} is damaged behind row {passed}")
                count = int.from_bytes(batch[:_COUNT_BYTES], "big")
                if passed + count > first:
                    yield from decode_rows(batch[_COUNT_BYTES:])[max(0, first - passed) :]
                passed += count

    def remove(self, id: AttemptId) -> None:
        """Delete an attempt; OSError leaves it."""
        path = self._path(id)
        path.unlink(missing_ok=True)
        self.bytes -= self.sizes.pop(id, AttemptSize(0, 0, 0)).bytes
        for folder in (path.parent, path.parent.parent):
            try:
                folder.rmdir()
            except OSError:  # others are in it
                return

    def _path(self, id: AttemptId) -> Path:
        return self.folder / id.query / str(id.batch) / id.attempt

    def _set(self, id: AttemptId, size: AttemptSize) -> None:
        self.bytes += size.bytes - (self.sizes[id].bytes if id in self.sizes else 0)
        self.sizes[id] = size


def _recover(path: Path) -> tuple[int, int]:
    """The rows and bytes of a file, whose torn end is cut off."""
    data, at, rows = path.read_bytes(), 0, 0
    while at < len(data):
        batch = batch_at(data, at)
        if batch is None:
            if not is_torn(data, at):
                raise LogError(f"{path} is damaged at byte {at}; move it away")
            os.truncate(path, at)
            break
        rows += int.from_bytes(batch[:_COUNT_BYTES], "big")
        at += HEAD_BYTES + len(batch)
    return rows, at
