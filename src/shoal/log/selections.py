"""The choice of records for a reader, by topic filters and a content filter; answers with them.

An answer is a file's batches (`shoal.batches`): blocks as they stand in the log where a reader gets
every record, else lists of records with their offsets.

>>> from shoal.log.records import LogRecord, make_block
>>> block = make_block(5, 1, [LogRecord(1, "me", 1, "a", b'{"x": 1}'),
...                           LogRecord(2, "me", 2, "a", b'{"x": 9}')])
>>> [offset for offset, _ in RecordSelection(("a",), "x > 5").records(block)]
[6]
>>> [offset for offset, _ in read_answer(RecordSelection().answer(block))]
[5, 6]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from shoal.attributes import Json, message_attributes
from shoal.batches import HEAD_BYTES, batch_at, framed
from shoal.language import parse
from shoal.log.records import Entry, LogGap, LogRecord, RecordProperties, read_head, read_records
from shoal.matching import matches
from shoal.matching.topics.filters import topic_matches
from shoal.model import EVERYTHING, Attributes, Filter

ALL_TOPICS = "#"
# The first byte of a batch with chosen records; a block begins with its version, 1.
_CHOSEN = b"\x02"
_NO_PROPERTIES = RecordProperties()
# Records that are chosen in one go: a few milliseconds.
PART = 128
# Topics whose decision a selection keeps.
_REMEMBERED = 10_000

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[tuple[int, Entry]]).decode


class RecordSelection:
    """The records on topics that one of the filters matches, with `where` TRUE.

    TopicError, FilterSyntaxError for a filter that cannot be read. Gaps are always chosen.
    """

    def __init__(
        self, topics: Sequence[str] = (ALL_TOPICS,), where: str | Filter = "", json: Json = "auto"
    ) -> None:
        for each in topics:
            topic_matches(each, "")
        self.topics = tuple(topics)
        if isinstance(where, str):
            where = parse(where) if where else EVERYTHING
        self._where = None if where == EVERYTHING else where
        self._json = json
        self._known: dict[str, bool] = {}

    @property
    def is_all(self) -> bool:
        """Whether every record is chosen."""
        return self._where is None and ALL_TOPICS in self.topics

    def records(
        self, block: bytes, begin: int = 0, end: int | None = None
    ) -> list[tuple[int, Entry]]:
        """The chosen records of a block with offsets in [begin, end), and their offsets."""
        rows = enumerate(read_records(block), read_head(block).first)
        return self._chosen(rows, begin, end)

    def _chosen(
        self, rows: Iterable[tuple[int, Entry]], begin: int, end: int | None
    ) -> list[tuple[int, Entry]]:
        return [
            (offset, record)
            for offset, record in rows
            if begin <= offset and (end is None or offset < end) and self.chooses(record)
        ]

    def chooses(self, record: Entry) -> bool:
        """Whether a reader gets this record."""
        if isinstance(record, LogGap):
            return True
        if not self.has_topic(record.topic):
            return False
        return self._where is None or matches(self._where, attributes_of(record, self._json))

    def answer(self, block: bytes, begin: int = 0, end: int | None = None) -> bytes:
        """The chosen records of a block as batches of an answer; empty if there are none."""
        return b"".join(self.answers(block, begin, end))

    def answers(self, block: bytes, begin: int = 0, end: int | None = None) -> Iterator[bytes]:
        """The same in parts: a part is some `PART` records, read and chosen; it may be empty."""
        head = read_head(block)
        is_whole = begin <= head.first and (end is None or head.next <= end)
        if self.is_all and is_whole:
            yield framed(block)
            return
        rows = list(enumerate(read_records(block), head.first))
        for at in range(0, len(rows), PART):
            chosen = self._chosen(rows[at : at + PART], begin, end)
            yield framed(_CHOSEN + _encode(chosen)) if chosen else b""

    def has_topic(self, topic: str) -> bool:
        found = self._known.get(topic)
        if found is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            # `#` is everything that was logged, also on topics that begin with `$`.
            found = any(each == ALL_TOPICS or topic_matches(each, topic) for each in self.topics)
            self._known[topic] = found
        return found


def attributes_of(record: LogRecord, json: Json = "auto") -> Attributes:
    """The attributes of a record's publication, as filters see them."""
    properties = record.properties or _NO_PROPERTIES
    return message_attributes(
        record.topic,
        record.payload,
        properties.content_type,
        properties.user_properties,
        is_retained=record.retain,
        json=json,
    )[0]


def read_answer(data: bytes) -> Iterator[tuple[int, Entry]]:
    """The records of an answer with their offsets; ValueError for bytes that are none."""
    position = 0
    while position < len(data):
        batch = batch_at(data, position)
        if batch is None:
            raise ValueError(f"an answer of a log is damaged at byte {position}")
        if batch[:1] == _CHOSEN:
            try:
                yield from _decode(memoryview(batch)[1:])
            except msgspec.MsgspecError as error:
                raise ValueError(f"no records: {error}") from None
        else:
            yield from enumerate(read_records(batch), read_head(batch).first)
        position += HEAD_BYTES + len(batch)
