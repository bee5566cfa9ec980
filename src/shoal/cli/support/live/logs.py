"""Reads the logs of a network between two times, for commands."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from shoal.cli.support.errors import UserError

if TYPE_CHECKING:
    from shoal.log.merging import LoggedRecord
    from shoal.log.remote import LogLogin


class LogSpan(NamedTuple):
    """Which records: their topics and content, from when to when, and without which brokers.

    With `follow` it goes on as records come.
    """

    topics: tuple[str, ...]
    begin: str
    end: str = ""
    where: str = ""
    without: tuple[str, ...] = ()
    follow: bool = False


def read_logs(target: str, login: LogLogin, span: LogSpan) -> Iterator[LoggedRecord]:
    """The records of all logs, by time; gaps are named on stderr, too.

    UserError for a time or a broker that is none, LogError where a log cannot be read.
    """
    from shoal.log.merging import followed, merged
    from shoal.log.remote import open_logs

    now_us = time.time_ns() // 1_000
    begin_us = read_time(span.begin, now_us, "--from")
    end_us = read_time(span.end, now_us, "--to") if span.end else None
    logs = open_logs(target, login)
    for each in span.without:
        if each not in logs:
            raise UserError(f"--without {each}: there is no such log; there are {', '.join(logs)}")
        del logs[each]
    if not logs:
        raise UserError("no log is left to read")
    bounds = {name: each.bounds() for name, each in logs.items()}
    begins = {
        name: bounds[name].first if begin_us is None else each.offset_at(begin_us)
        for name, each in logs.items()
    }
    if span.follow:
        return _named_gaps(followed(logs, begins, topics=span.topics, where=span.where))
    ends = {
        name: bounds[name].next if end_us is None else each.offset_at(end_us)
        for name, each in logs.items()
    }
    return _named_gaps(merged(logs, begins, ends, topics=span.topics, where=span.where))


def read_time(text: str, now_us: int, option: str) -> int | None:
    """A time in µs, None for the earliest; UserError for a text that is none.

    >>> read_time("-90s", 100_000_000, "--from"), read_time("1970-01-01T00:01", 0, "--from")
    (10000000, 60000000)
    """
    from shoal.log.instants import EARLIEST, begin_us

    if text == EARLIEST:
        return None
    try:
        return begin_us(text, now_us)
    except ValueError as error:
        raise UserError(f"{option}: {error}") from None


def _named_gaps(rows: Iterable[LoggedRecord]) -> Iterator[LoggedRecord]:
    """The rows; a gap is on stderr, too."""
    from shoal.log.records import LogGap

    for row in rows:
        if isinstance(row.record, LogGap):
            missing = row.record.missing
            number = "some publications" if missing is None else f"{missing:,} publications"
            print(
                f"shoal: the log of {row.broker} lacks {number} before offset {row.offset}: "
                f"{row.record.reason}",
                file=sys.stderr,
                flush=True,
            )
        yield row
