"""Errors of logs; each text says what to do."""

from __future__ import annotations


class LogError(Exception):
    """A folder that cannot be used, or a file in it that cannot be read."""


class OffsetGoneError(LogError):
    """Records that were asked for have been deleted; `first` is the oldest offset that is there."""

    def __init__(self, offset: int, first: int, text: str = "") -> None:
        super().__init__(
            text or f"offset {offset} has been deleted by retention; the oldest record is {first}"
        )
        self.first = first


class OffsetAheadError(LogError):
    """A reader has read further than the log goes: an older copy of its folder was restored."""

    def __init__(self, offset: int, end: int, text: str = "") -> None:
        super().__init__(
            text
            or f"offset {offset} was read, and the log ends before {end}: an older copy of its "
            "folder was restored; read again from an earlier offset, and expect other records there"
        )
        self.end = end
