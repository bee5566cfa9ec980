"""Records a running MQTT broker's publications, or those of a log, as the pipeline's tables.

A publication's publisher is its topic, or the first levels of it; its attributes are those that
shoal's filters see. `$topic` there, the broker's own name, is `mqtt_topic` here, so that a replay
can publish it; `$topic.0` is `mqtt_topic_0`, and `$levels` is `mqtt_levels`.

A log also knows the client and its edge broker; publishers.parquet has each publisher's broker, the
one at which most of its publications entered.

An attribute that is a number here and a text there has a mixed column (see
`shoal.frames.mixed_columns`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # as above

from shoal.attributes import TOPIC_ATTRIBUTE, Json
from shoal.client import Message
from shoal.frames.mixed_columns import mixed_column
from shoal.language import format_filter, parse
from shoal.log.records import LogRecord
from shoal.log.selections import attributes_of as logged_attributes
from shoal.model import And, BrokerId, Expression, Filter, Not, Or, Predicate, Value
from shoal.model.expressions import derived_expression, derived_name, is_derived, with_names
from shoal.model.expressions.lists import LIST_PREFIX
from shoal.mqtt.codec.properties import Properties
from shoal.mqtt.content import attributes_of
from shoal.mqtt.messages import PublishedMessage as Sent

PUBLICATIONS = "publications.parquet"
PUBLISHERS = "publishers.parquet"

_COLUMNS = [
    ("publisher", pa.string()), ("sequence", pa.int64()), ("time_us", pa.int64()),
    ("payload_bytes", pa.int64()), ("client", pa.string()), ("broker", pa.string()),
]  # fmt: skip


class Recorder:
    """Takes messages, and writes them as tables.  `levels`: of a topic, name its publisher."""

    def __init__(self, levels: int | None = None, json: Json = "auto") -> None:
        self._levels = levels
        self._json = json
        self._sequences: Counter[str] = Counter()
        self._rows: list[tuple[str, int, int, int, str | None, BrokerId | None]] = []
        # By publisher: its publications by the broker at which they entered.
        self._entered: defaultdict[str, Counter[BrokerId]] = defaultdict(Counter)
        self._attributes: list[Mapping[str, Value]] = []

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def publishers(self) -> int:
        return len(self._sequences)

    def take(self, message: Message, now_us: int) -> None:
        """A message came."""
        attributes = recorded_attributes(message, self._json)
        self._note(message.topic, now_us, len(message.payload), attributes)

    def take_logged(self, record: LogRecord, broker: BrokerId) -> None:
        """Take a record of a broker's log; its time is when it entered."""
        found = logged_attributes(record, self._json)
        attributes = {recorded_name(name): value for name, value in found.items()}
        size = len(record.payload)
        publisher = self._note(
            record.topic, record.time_us, size, attributes, record.publisher, broker
        )
        self._entered[publisher][broker] += 1

    def _note(
        self,
        topic: str,
        at_us: int,
        size: int,
        attributes: Mapping[str, Value],
        client: str | None = None,
        broker: BrokerId | None = None,
    ) -> str:
        publisher = "/".join(topic.split("/")[: self._levels])
        self._rows.append((publisher, self._sequences[publisher], at_us, size, client, broker))
        self._sequences[publisher] += 1
        self._attributes.append(attributes)
        return publisher

    def write(self, folder: Path) -> None:
        """Write publications.parquet into a folder, and publishers.parquet if a log was read."""
        columns = [pa.array(values, kind) for values, (_, kind) in zip(
            zip(*self._rows, strict=True) if self._rows else [()] * len(_COLUMNS), _COLUMNS,
            strict=True,
        )]  # fmt: skip
        columns.append(self._struct())
        names = [*(name for name, _ in _COLUMNS), "attributes"]
        pq.write_table(pa.table(dict(zip(names, columns, strict=True))), folder / PUBLICATIONS)
        if self._entered:
            brokers = [counts.most_common(1)[0][0] for counts in self._entered.values()]
            table = {"publisher": [*self._entered], "broker": brokers}
            pq.write_table(pa.table(table), folder / PUBLISHERS)

    def _struct(self) -> pa.StructArray:
        names = sorted({name for attributes in self._attributes for name in attributes})
        if not names:
            # Parquet has no struct without fields; this one each message has.
            name = recorded_name(TOPIC_ATTRIBUTE)
            return pa.array([{}] * len(self), pa.struct([(name, pa.string())]))
        columns = [mixed_column([each.get(name) for each in self._attributes]) for name in names]
        return pa.StructArray.from_arrays(columns, names)


def recorded_attributes(message: Message, json: Json = "auto") -> dict[str, Value]:
    """Return the attributes that filters see of a message, by their names in a recording."""
    properties = Properties(
        content_type=message.content_type, user_properties=tuple(message.attributes.items())
    )
    sent = Sent(message.topic, message.payload, publisher="", published_us=0, properties=properties)
    return {recorded_name(name): value for name, value in attributes_of(sent, json).items()}


def recorded_name(name: str) -> str:
    """An attribute's name in a recording.

    >>> recorded_name("$topic.0"), recorded_name("$levels"), recorded_name("wind")
    ('mqtt_topic_0', 'mqtt_levels', 'wind')
    """
    if not name.startswith("$") or name.startswith(LIST_PREFIX):
        return name
    return f"mqtt_{name[1:].replace('.', '_')}"


def recorded_filter(text: str) -> str:
    """Return a subscription's filter, as brokers report it, in a recording's attributes.

    FilterSyntaxError if `parse` does not take it, or not under these names.
    """
    renamed = format_filter(Filter(_renamed(parse(text).expression)))
    parse(renamed)
    return renamed


def _renamed(expression: Expression) -> Expression:
    match expression:
        case And(operands) | Or(operands):
            return type(expression)(tuple(map(_renamed, operands)))
        case Not(operand):
            return Not(_renamed(operand))
        case Predicate(attribute):
            if is_derived(attribute):
                tested = with_names(derived_expression(attribute), recorded_name)
                return msgspec.structs.replace(expression, attribute=derived_name(tested))
            return msgspec.structs.replace(expression, attribute=recorded_name(attribute))
    return expression
