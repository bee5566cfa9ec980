"""The segments of one spool, in memory."""

from __future__ import annotations

import errno

from shoal.broker.links.spool import SpoolRecord


class Disk:
    """A disk whose writes fail while `fails`."""

    def __init__(self) -> None:
        self.kept: dict[int, list[SpoolRecord]] = {}
        self.fails = False

    def segments(self) -> dict[int, int]:
        return {number: _size(records) for number, records in self.kept.items()}

    def append(self, segment: int, records: list[SpoolRecord]) -> int:
        if self.fails:
            raise OSError(errno.ENOSPC, "no space")
        self.kept.setdefault(segment, []).extend(records)
        return _size(records)

    def load(self, segment: int) -> list[SpoolRecord]:
        return list(self.kept[segment])

    def remove(self, segment: int) -> None:
        del self.kept[segment]


def _size(records: list[SpoolRecord]) -> int:
    return sum(len(record.data) for record in records)
