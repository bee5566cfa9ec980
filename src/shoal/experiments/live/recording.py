"""Records a running MQTT broker's publications, or those of a log, as the pipeline's tables.

A publication's publisher is its topic, or the first levels of it; its attributes are those that
shoal's filters see. `$topic` there, the broker's own name, is `mqtt_topic` here, so that a replay
can publish it; `$topic.0` is `mqtt_topic_0`, and `$levels` is `mqtt_levels`.

An attribute that is a number here and a text there has a mixed column (see
`shoal.frames.mixed_columns`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # as above

from shoal.attributes import TOPIC_ATTRIBUTE, Json
from shoal.client import Message
from shoal.frames.mixed_columns import mixed_column
from shoal.language import FilterSyntaxError, format_filter, parse
from shoal.log.records import LogRecord
from shoal.log.selections import attributes_of as logged_attributes
from shoal.model import And, Expression, Filter, Not, Or, Predicate, Value
from shoal.mqtt.codec.properties import Properties
from shoal.mqtt.content import attributes_of
from shoal.mqtt.messages import PublishedMessage as Sent

PUBLICATIONS = "publications.parquet"
SUBSCRIPTIONS = "subscriptions.parquet"
BROKERS = "brokers.parquet"

_KEYS = [("publisher", pa.string()), ("sequence", pa.int64()), ("time_us", pa.int64())]


class Recorder:
    """Takes messages, and writes them as one table.  `levels`: of a topic, name its publisher."""

    def __init__(self, levels: int | None = None, json: Json = "auto") -> None:
        self._levels = levels
        self._json = json
        self._sequences: Counter[str] = Counter()
        self._keys: list[tuple[str, int, int]] = []
        self._attributes: list[Mapping[str, Value]] = []

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def publishers(self) -> int:
        return len(self._sequences)

    def take(self, message: Message, now_us: int) -> None:
        """A message came."""
        self._note(message.topic, now_us, recorded_attributes(message, self._json))

    def take_logged(self, record: LogRecord) -> None:
        """Take a record of a log; its time is when it entered."""
        found = logged_attributes(record, self._json)
        attributes = {recorded_name(name): value for name, value in found.items()}
        self._note(record.topic, record.time_us, attributes)

    def _note(self, topic: str, at_us: int, attributes: Mapping[str, Value]) -> None:
        publisher = "/".join(topic.split("/")[: self._levels])
        self._keys.append((publisher, self._sequences[publisher], at_us))
        self._sequences[publisher] += 1
        self._attributes.append(attributes)

    def write(self, folder: Path) -> None:
        """Write publications.parquet into a folder."""
        columns = [pa.array(values, kind) for values, (_, kind) in zip(
            zip(*self._keys, strict=True) if self._keys else [(), (), ()], _KEYS, strict=True
        )]  # fmt: skip
        columns.append(self._struct())
        names = [*(name for name, _ in _KEYS), "attributes"]
        pq.write_table(pa.table(dict(zip(names, columns, strict=True))), folder / PUBLICATIONS)

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
    return f"mqtt_{name[1:].replace('.', '_')}" if name.startswith("$") else name


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
            return msgspec.structs.replace(expression, attribute=recorded_name(attribute))
    return expression


class WrittenClients(NamedTuple):
    """Number of written subscriptions; for each other one, its client and the reason."""

    subscriptions: int
    left_out: list[str]


def write_clients(
    folder: Path, rows: Iterable[Mapping[str, Any]], brokers: Iterable[str]
) -> WrittenClients:
    """Write subscriptions.parquet and brokers.parquet from brokers' reports.

    Subscriptions that ask for the same at one broker for one client are one. A granted filter may
    be larger, written out, than the limit for reading it: it is left out.
    """
    found: dict[tuple[str, str, str], str] = {}
    left_out = []
    for row in rows:
        try:
            text = recorded_filter(row["filter"])
        except FilterSyntaxError as error:
            left_out.append(f"{row['client']}'s to {row['topic_filter']}: {error.message}")
            continue
        key = row["broker"], row["client"], text
        found.setdefault(key, f"{row['client']}/{sum(k[1] == row['client'] for k in found)}")
    columns = {
        "id": list(found.values()),
        "filter": [text for _, _, text in found],
        "broker": [broker for broker, _, _ in found],
        "client": [client for _, client, _ in found],
    }
    schema = pa.schema([(name, pa.string()) for name in columns])
    pq.write_table(pa.table(columns, schema=schema), folder / SUBSCRIPTIONS)
    pq.write_table(pa.table({"broker": pa.array(list(brokers), pa.string())}), folder / BROKERS)
    return WrittenClients(len(found), left_out)
