"""The log of one broker in memory, with the records and blocks of one on a disk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from shoal.log.errors import OffsetAheadError, OffsetGoneError
from shoal.log.records import Entry, LogRecord, make_block, read_head, read_records
from shoal.log.selections import RecordSelection
from shoal.log.slices import LogPlace, LogSlice, read_at_once, slice_steps
from shoal.mqtt.federation.controls import LogAsked
from shoal.mqtt.messages import PublishedMessage
from shoal.mqtt.replaying.past_messages import record_of
from shoal.mqtt.sessions.subscribed.rows import content_of


class MemoryLog:
    """`gathered` records are lost by a kill, written ones are not."""

    def __init__(self) -> None:
        self._blocks: list[bytes] = []
        self.first = self.next = 0
        self.run = 1

    @property
    def first_us(self) -> int:
        return read_head(self._blocks[0]).first_us if self._blocks else 0

    @property
    def entries(self) -> list[Entry]:
        return [entry for block in self._blocks for entry in read_records(block)]

    @property
    def last_number(self) -> int:
        numbers = [each.number for each in self.entries if isinstance(each, LogRecord)]
        return numbers[-1] if numbers else -1

    def write(self, records: Sequence[Entry]) -> None:
        if records:
            self._blocks.append(make_block(self.next, self.run, records))
            self.next += len(records)

    def forget(self, blocks: int) -> None:
        """Delete the oldest blocks, as retention does."""
        del self._blocks[:blocks]
        self.first = read_head(self._blocks[0]).first if self._blocks else self.next

    def blocks(self, offset: int, run: int = 0) -> Iterator[bytes]:
        if offset > self.next:
            raise OffsetAheadError(offset, self.next)
        if offset < self.first:
            raise OffsetGoneError(offset, self.first)
        for block in tuple(self._blocks):
            if read_head(block).next > offset:
                yield block

    def offset_at(self, time_us: int) -> int:
        for offset, entry in enumerate(self.entries, self.first):
            if entry.time_us >= time_us:
                return offset
        return self.next


class MemoryLogWriter:
    """Gathers the publications of one incarnation of a broker, and answers questions."""

    def __init__(self, log: MemoryLog) -> None:
        self.log = log
        self._gathered: list[LogRecord] = []

    def note(self, message: PublishedMessage) -> None:
        number = message.published_us if message.key is None else message.key[1]
        self._gathered.append(record_of(message, number))

    def write(self) -> None:
        self.log.write(self._gathered)
        self._gathered = []

    def read(self, asked: LogAsked, now_us: int, most_bytes: int = 2_000) -> LogSlice:
        reached_us = self._gathered[0].time_us if self._gathered else now_us
        selection = RecordSelection((asked.topic_filter,), content_of(asked.where))
        return read_at_once(
            slice_steps(self.log, selection, asked.place, asked.from_us, most_bytes, reached_us)
        )


__all__ = ["LogPlace", "MemoryLog", "MemoryLogWriter"]
