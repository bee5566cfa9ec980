"""Records of a log, and the blocks that carry them in files and answers.

A block: 37 bytes (version, number of records, first offset, first and last time, the writer's run),
then its records as one MessagePack list. The head is read without the records.

>>> record = LogRecord(7, "sensor-1", 3, "home/t", b"21.5", 1)
>>> block = make_block(40, run=1, records=[record, LogGap(9, 8, 9, 2, "the disk is full")])
>>> head = read_head(block)
>>> head.first, head.next, head.first_us, head.last_us
(40, 42, 7, 9)
>>> read_records(block)[0] == record
True
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple

import msgspec

_VERSION = 1
_HEAD = Struct(">BIQQQQ")
BLOCK_HEAD_BYTES = _HEAD.size


class RecordProperties(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The properties of an MQTT 5 publication that subscribers get, too."""

    content_type: str | None = None
    user_properties: tuple[tuple[str, str], ...] = ()
    response_topic: str | None = None
    correlation_data: bytes | None = None
    payload_format_indicator: int | None = None
    message_expiry_interval_s: int | None = None


class LogRecord(msgspec.Struct, frozen=True, array_like=True, tag=1, gc=False):
    """One publication.

    `time_us` is when it entered, in µs since 1970 (UTC), by the clock of its broker. `publisher` is
    the MQTT client identifier; `number` grows with each publication of one publisher at one broker,
    so that both together name the publication.
    """

    time_us: int
    publisher: str
    number: int
    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    properties: RecordProperties | None = None


class LogGap(msgspec.Struct, frozen=True, array_like=True, tag=2, gc=False):
    """A number of publications that were not logged between two times, and the reason.

    `missing` is None if nobody knows how many.
    """

    time_us: int
    from_us: int
    to_us: int
    missing: int | None
    reason: str


Entry = LogRecord | LogGap


class BlockHead(NamedTuple):
    """Bounds of a block: its offsets [first, next), its times, and the run that wrote it.

    A run is one life of the writing process, by its start in µs.
    """

    first: int
    next: int
    first_us: int
    last_us: int
    run: int


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[Entry]).decode


def make_block(first: int, run: int, records: Sequence[Entry]) -> bytes:
    """The bytes of records with the offsets from `first` on; there is at least one record."""
    times = records[0].time_us, records[-1].time_us
    return _HEAD.pack(_VERSION, len(records), first, *times, run) + _encode(records)


def read_head(block: bytes) -> BlockHead:
    """The bounds of a block; ValueError for bytes that are none."""
    if len(block) < BLOCK_HEAD_BYTES or block[0] != _VERSION:
        raise ValueError(f"no block of version {_VERSION}")
    _, count, first, first_us, last_us, run = _HEAD.unpack_from(block)
    return BlockHead(first, first + count, first_us, last_us, run)


def read_records(block: bytes) -> list[Entry]:
    """The records of a block, in order; ValueError for bytes that are none."""
    try:
        return _decode(memoryview(block)[BLOCK_HEAD_BYTES:])
    except msgspec.MsgspecError as error:
        raise ValueError(f"no records: {error}") from None
