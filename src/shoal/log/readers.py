"""Named readers of a log: a cursor each, which holds back deletion.

A reader is pinned at its first offset before it reads, and moves its cursor when it has done with
records. Retention then keeps what lies at or after the cursor, up to a bound; a reader beyond the
bound is lost: its next move says so, and it must be pinned anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from shoal.log.errors import LogError
from shoal.log.offsets import write_whole

FILE = "readers"
MOST_READERS = 1_000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class LogReader(msgspec.Struct, frozen=True):
    """One reader: its cursor is the offset of the first record that it has not done with.

    `user` made it. It `is_lost` when records at its cursor were deleted.
    """

    name: str
    user: str
    offset: int
    moved_us: int
    is_lost: bool = False


class Readers:
    """The readers of one log, on disk; LogError for a file that cannot be read."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        try:
            found = msgspec.json.decode(self._path.read_bytes(), type=list[LogReader])
        except FileNotFoundError:
            found = []
        except msgspec.MsgspecError as error:
            raise LogError(f"{self._path}: no readers: {error}; move the file away") from None
        self._readers = {each.name: each for each in found}

    def __iter__(self) -> Iterator[LogReader]:
        return iter(tuple(self._readers.values()))

    def __len__(self) -> int:
        return len(self._readers)

    def get(self, name: str) -> LogReader | None:
        return self._readers.get(name)

    def rows(self, next_offset: int) -> list[dict[str, Any]]:
        """A row for each reader, with how far it is behind the log's next offset."""
        return [msgspec.to_builtins(each) | {"behind": next_offset - each.offset} for each in self]

    def pin(self, name: str, user: str, offset: int, now_us: int) -> LogReader:
        """Make a reader with this cursor, or return the one there is; ValueError for its name.

        A lost reader is made anew.
        """
        found = self._readers.get(name)
        if found is not None and not found.is_lost:
            return found
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name[:80]!r} is no name of a reader: letters, digits, . _ -")
        if found is None and len(self._readers) >= MOST_READERS:
            raise ValueError(f"there are {MOST_READERS} readers; forget one")
        return self._put(LogReader(name, user, offset, now_us))

    def move(self, name: str, offset: int, now_us: int) -> LogReader:
        """Move a cursor forward; KeyError if there is no such reader, ValueError if it is lost."""
        found = self._readers[name]
        if found.is_lost:
            raise ValueError(f"reader {name} was too far behind, and records it needs are deleted")
        if offset <= found.offset:
            return found
        return self._put(msgspec.structs.replace(found, offset=offset, moved_us=now_us))

    def forget(self, name: str) -> None:
        """Delete a reader; KeyError if there is none."""
        del self._readers[name]
        self._save()

    def holding(self, offset: int) -> list[LogReader]:
        """Readers that need a record before this offset."""
        return [each for each in self if each.offset < offset and not each.is_lost]

    def lose(self, reader: LogReader) -> None:
        """Records at a cursor are deleted."""
        self._put(msgspec.structs.replace(reader, is_lost=True))

    def _put(self, reader: LogReader) -> LogReader:
        before = self._readers.get(reader.name)
        self._readers[reader.name] = reader
        try:
            self._save()
        except OSError:
            if before is None:
                del self._readers[reader.name]
            else:
                self._readers[reader.name] = before
            raise
        return reader

    def _save(self) -> None:
        write_whole(self._path, msgspec.json.encode(list(self._readers.values())))
