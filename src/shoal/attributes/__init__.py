"""Attributes: the names and types that filters see of a message, for every source.

Brokers, bridges and `shoal record` read messages here; `shoal match` and `shoal ingest` read rows
of files by the same names.  A value is a boolean, a 64-bit integer, a double or a string.

| of | attributes | module |
| --- | --- | --- |
| a topic | `$topic`, `$topic.0` and so on, `$levels` | `topics` |
| a JSON object | its fields; `position.lat` is the field `lat` of its `position` | `objects` |
| a list in it | `$list.NAME`, its JSON | `objects` |
| a payload that is one value | `payload`, `payload_text`, `payload_boolean` | `payloads` |
| user properties | by their names, in place of a field of the same name | `messages` |

Invariants:

- A value that no attribute can be (null, NaN, a number beyond all doubles, half a surrogate
  pair, a text of more than `MAX_TEXT` characters) hides itself only: all other fields stay.
- A name has one value. A field whose own name is `a.b` goes before the field `b` of an object `a`;
  of fields of equal depth, the first has the name.
- The cost of one message is bounded: `MAX_FIELDS` fields are looked at, in objects `MAX_DEPTH`
  deep, and the outermost of them become attributes, `MAX_ATTRIBUTES` with all others.

A list `tags` is the attribute `$list.tags`, which list functions of filters read; `tags` itself has
no value. It has at most 256 items, and 16,384 characters.

Each kind of plain value has its own name, since a column of a recording has one type: if a sensor
publishes `21.5` and a lamp `ON`, both are recorded, under the same names as alone.
"""

from __future__ import annotations

from shoal.attributes.messages import RETAIN_ATTRIBUTE, message_attributes
from shoal.attributes.objects import (
    MAX_DEPTH,
    MAX_FIELDS,
    MAX_TEXT,
    RESERVED,
    add_fields,
    flat_attributes,
)
from shoal.attributes.payloads import MAX_PLAIN_BYTES, Json, add_payload
from shoal.attributes.topics import (
    LEVELS_ATTRIBUTE,
    MAX_LEVEL_ATTRIBUTES,
    TOPIC_ATTRIBUTE,
    level_attribute,
    topic_attributes,
)

__all__ = [
    "LEVELS_ATTRIBUTE",
    "MAX_DEPTH",
    "MAX_FIELDS",
    "MAX_LEVEL_ATTRIBUTES",
    "MAX_PLAIN_BYTES",
    "MAX_TEXT",
    "RESERVED",
    "RETAIN_ATTRIBUTE",
    "TOPIC_ATTRIBUTE",
    "Json",
    "add_fields",
    "add_payload",
    "flat_attributes",
    "level_attribute",
    "message_attributes",
    "topic_attributes",
]
