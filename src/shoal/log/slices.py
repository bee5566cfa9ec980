"""A part of a log for a reader elsewhere, read in steps of some milliseconds each.

>>> from shoal.log.records import LogRecord, make_block
>>> class OneBlock:
...     first, next, first_us = 0, 2, 5
...     def blocks(self, offset, run=0):
...         records = [LogRecord(5, "me", 1, "a", b""), LogRecord(9, "me", 2, "b", b"")]
...         yield make_block(0, 1, records)
>>> steps = slice_steps(OneBlock(), RecordSelection(("b",)), LogPlace(0), 0, 1_000, 20)
>>> found = read_at_once(steps)
>>> found.next, found.is_at_end, found.until_us, [each for each, _ in read_answer(found.records)]
(2, True, 20, [1])
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Protocol

import msgspec

from shoal.log.errors import OffsetAheadError, OffsetGoneError
from shoal.log.records import read_head
from shoal.log.selections import RecordSelection, read_answer

__all__ = ["LogPlace", "LogSlice", "ReadableBlocks", "read_answer", "read_at_once", "slice_steps"]


class LogPlace(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Where a reader goes on: the next offset, and the run of the record before it (0: unknown)."""

    offset: int
    run: int = 0


class LogSlice(msgspec.Struct, frozen=True, array_like=True):
    """Chosen records (an answer of `selections`), and the place behind them.

    No later record has a time before `until_us`. `is_at_end`: there are no later records yet.
    `gone_us` is the time of the oldest record, if retention has deleted some that were asked for;
    `is_restored` if the log ends before the place asked for: an older copy of it was put back.
    """

    records: bytes
    next: int
    run: int
    until_us: int
    is_at_end: bool
    gone_us: int = 0
    is_restored: bool = False


class ReadableBlocks(Protocol):
    """The readable side of a log (see `publication_log.LogView`)."""

    @property
    def first(self) -> int: ...

    @property
    def next(self) -> int: ...

    @property
    def first_us(self) -> int: ...

    def blocks(self, offset: int, run: int = 0) -> Iterator[bytes]: ...

    def offset_at(self, time_us: int) -> int: ...


Steps = Generator[None, None, LogSlice]


def slice_steps(
    log: ReadableBlocks,
    selection: RecordSelection,
    place: LogPlace | None,
    from_us: int,
    most_bytes: int,
    reached_us: int,
    is_enough: Callable[[], bool] = lambda: False,
) -> Steps:
    """Read from a place on, without one from a time on: some `most_bytes` of chosen records, or
    until `is_enough`.

    No later record than those of the log is before `reached_us`. Each step takes a few
    milliseconds; the log may grow meanwhile, and retention may delete its begin.
    """
    gone_us, is_restored = 0, False
    until_us, body, size = 0, list[bytes](), 0
    if place is not None:
        begin, run = place.offset, place.run
    else:
        begin, run = log.offset_at(from_us), 0
        if begin == log.first > 0 and log.first_us > from_us:
            gone_us = log.first_us or reached_us
    if begin < log.first:
        gone_us, begin, run = log.first_us or reached_us, log.first, 0
    end = log.next
    next_offset = begin
    try:
        for block in log.blocks(begin, run):
            head = read_head(block)
            if head.first >= end:
                break
            for answer in selection.answers(block, begin, end):
                body.append(answer)
                size += len(answer)
                yield
            next_offset, run, until_us = min(head.next, end), head.run, head.last_us
            if size >= most_bytes or is_enough():
                break
    except OffsetGoneError as error:
        if next_offset == begin:  # else the next slice notices
            gone_us, next_offset, run = log.first_us or reached_us, error.first, 0
    except OffsetAheadError as error:
        is_restored, next_offset, run = True, error.end, 0
    is_at_end = next_offset >= end
    until_us = max(until_us, reached_us) if is_at_end else until_us
    records = b"".join(body)
    return LogSlice(records, next_offset, run, until_us, is_at_end, gone_us, is_restored)


def read_at_once(steps: Steps) -> LogSlice:
    """Take all steps."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: LogSlice = end.value
            return found
