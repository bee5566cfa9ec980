"""The logs of all brokers as one stream: by time, and each broker's records in their order.

Times are those of the brokers' clocks. A publisher that moves from one broker to another has its
records in order as far as the two clocks agree.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from shoal.log.records import Entry
from shoal.log.remote import ReadableLog, pages
from shoal.log.selections import ALL_TOPICS

# Between two looks at the ends of all logs.
LOOK_S = 0.2


class LoggedRecord(NamedTuple):
    """A record, its broker, and its offset there."""

    time_us: int
    broker: str
    offset: int
    record: Entry


def merged(
    logs: Mapping[str, ReadableLog],
    begins: Mapping[str, int],
    ends: Mapping[str, int],
    *,
    topics: Sequence[str] = (ALL_TOPICS,),
    where: str = "",
) -> Iterator[LoggedRecord]:
    """The records of these logs with offsets in [begin, end), by time."""

    def of(broker: str, log: ReadableLog) -> Iterator[LoggedRecord]:
        for page in pages(log, begins[broker], ends[broker], topics=topics, where=where):
            for offset, record in page.records:
                yield LoggedRecord(record.time_us, broker, offset, record)

    return heapq.merge(*(of(*each) for each in logs.items()), key=lambda each: each[:3])


def followed(
    logs: Mapping[str, ReadableLog],
    begins: Mapping[str, int],
    *,
    topics: Sequence[str] = (ALL_TOPICS,),
    where: str = "",
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[LoggedRecord]:
    """The records of these logs from their offsets on, by time, and on as they are written.

    A record comes once every log has been read up to its time.
    """
    places, runs = dict(begins), dict.fromkeys(logs, 0)
    known_us = dict.fromkeys(logs, -1)
    waiting: list[LoggedRecord] = []
    while True:
        has_more = False
        for broker, log in logs.items():
            page = log.page(places[broker], topics=topics, where=where, run=runs[broker])
            places[broker], runs[broker] = page.next, page.run
            for offset, record in page.records:
                heapq.heappush(waiting, LoggedRecord(record.time_us, broker, offset, record))
            is_at_end = page.next >= page.end
            has_more = has_more or not is_at_end
            last_us = page.records[-1][1].time_us if page.records else known_us[broker]
            # No later record is before `now_us`.
            known_us[broker] = page.now_us - 1 if is_at_end else last_us
        until_us = min(known_us.values())
        while waiting and waiting[0].time_us <= until_us:
            yield heapq.heappop(waiting)
        if not has_more:
            sleep(LOOK_S)
