"""Records of logs as rows of JSON lines; the columns are those of `columns`."""

from __future__ import annotations

import base64
from typing import Any

import msgspec

from shoal.attributes import RESERVED
from shoal.log.instants import instant_text
from shoal.log.records import LogGap, LogRecord, RecordProperties
from shoal.log.selections import attributes_of
from shoal.model import Value

_NO_PROPERTIES = RecordProperties()
_encode_json = msgspec.json.Encoder().encode


def key_of(record: LogRecord) -> str:
    """The name of a record's publication, unique among those of its broker."""
    return f"{record.publisher}/{record.number}"


def own_attributes(record: LogRecord) -> dict[str, Value]:
    """The attributes of a record's payload and user properties, without those of its topic."""
    found = attributes_of(record)
    return {name: value for name, value in found.items() if name[0] != RESERVED}


def json_of_attributes(record: LogRecord) -> str:
    """`own_attributes` as a JSON object."""
    return _encode_json(own_attributes(record)).decode()


def json_row(broker: str, offset: int, record: LogRecord | LogGap) -> dict[str, Any]:
    """A record or a gap as a row; a payload that is no text is in `payload_base64`."""
    row: dict[str, Any] = {"broker": broker, "offset": offset, "time": instant_text(record.time_us)}
    if isinstance(record, LogGap):
        gap = {"missing": record.missing, "reason": record.reason}
        return row | {
            "gap": gap | {"from": instant_text(record.from_us), "to": instant_text(record.to_us)}
        }
    row |= {"publisher": record.publisher, "key": key_of(record), "topic": record.topic}
    try:
        row["payload"] = record.payload.decode()
    except UnicodeDecodeError:
        row["payload_base64"] = base64.b64encode(record.payload).decode()
    row["attributes"] = own_attributes(record)
    row |= {"qos": record.qos, "retain": record.retain}
    properties = record.properties or _NO_PROPERTIES
    if properties.content_type is not None:
        row["content_type"] = properties.content_type
    if properties.user_properties:
        row["user_properties"] = [list(each) for each in properties.user_properties]
    return row
