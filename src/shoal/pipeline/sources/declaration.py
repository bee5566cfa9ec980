"""What turns a file's rows into publications, declared: a mapping.

A mapping says who publishes a row, when, and which of its columns become attributes of which
type; `derived` attributes are Spark SQL expressions over the columns and over `event_time`.
Mappings are TOML, read strictly: a key that is not known is an error that names it.

>>> mapping = decode_mapping('''
... publisher = ["station"]
... time = { column = "at", format = "yyyy-MM-dd HH:mm" }
... [columns]
... station = "string"
... wind_m_per_s = { type = "double", column = "wind", required = true }
... [derived]
... storm = { type = "boolean", expression = "wind_m_per_s > 24.5" }
... ''', "stations.toml")
>>> mapping.published
('station', 'wind_m_per_s', 'storm')
>>> decode_mapping('publisher = ["a"]\\ntimes = 3', "x.toml")
Traceback (most recent call last):
shoal.pipeline.sources.declaration.MappingError: x.toml: Object contains unknown field `times`
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import msgspec

AttributeType = Literal["string", "integer", "double", "boolean"]

# Spark's names of the types that attributes have.
SPARK_TYPES: dict[AttributeType, str] = {
    "string": "string",
    "integer": "bigint",
    "double": "double",
    "boolean": "boolean",
}
EPOCH_UNITS_PER_SECOND = {"epoch_s": 1, "epoch_ms": 1_000, "epoch_us": 1_000_000}


class MappingError(ValueError):
    """A mapping that cannot be used; the message names the file and the key."""


class ColumnRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A column of the file: its type, its name there if it differs, and whether it must be."""

    type: AttributeType
    column: str | None = None
    required: bool = False


class DerivedRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An attribute computed by a Spark SQL expression."""

    type: AttributeType
    expression: str


class TimeRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The event time: a column of the file and its format, or an expression over the columns.

    `format` is a Spark datetime pattern, or epoch_s, epoch_ms, epoch_us; a Parquet date or
    timestamp needs none.  `zone` is the time zone of times that do not tell theirs.
    """

    column: str | None = None
    format: str | None = None
    zone: str = "UTC"
    expression: str | None = None


class Mapping(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How rows become publications.

    The publisher's name is the values of its columns, joined by `separator`.  The empty text is
    missing, and so is each of `null_values`.  `publish` picks the attributes (default: all).
    """

    publisher: list[str]
    time: TimeRule
    columns: dict[str, ColumnRule | AttributeType]
    derived: dict[str, DerivedRule] = {}
    publish: list[str] = []
    separator: str = "-"
    delimiter: str = ","
    null_values: list[str] = []

    @property
    def rules(self) -> dict[str, ColumnRule]:
        """The columns, each with its full rule; what names the publisher must be there."""
        rules = {}
        for name, given in self.columns.items():
            rule = ColumnRule(type=given) if isinstance(given, str) else given
            required = rule.required or name in self.publisher
            rules[name] = msgspec.structs.replace(
                rule, column=rule.column or name, required=required
            )
        return rules

    @property
    def published(self) -> tuple[str, ...]:
        """The names of the attributes, in order."""
        return tuple(self.publish or [*self.columns, *self.derived])

    @property
    def file_columns(self) -> tuple[str, ...]:
        """The columns that a file must have, sorted."""
        names = {rule.column for rule in self.rules.values()} | {self.time.column}
        return tuple(sorted(name for name in names if name is not None))


def load_mapping(path: Path) -> Mapping:
    """The mapping in a TOML file; MappingError says what is wrong with it."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise MappingError(f"{path}: cannot be read: {error}") from None
    return decode_mapping(text, str(path))


def decode_mapping(text: str, where: str) -> Mapping:
    """The mapping written in `text`; `where` opens the message of a MappingError."""
    try:
        table = msgspec.toml.decode(text)
    except msgspec.DecodeError as error:
        raise MappingError(f"{where}: not TOML: {error}") from None
    for section, rule in (("columns", ColumnRule | AttributeType), ("derived", DerivedRule)):
        given = table.get(section, {})
        # One by one: msgspec's own message would not say which of them is wrong.
        for name, value in given.items() if isinstance(given, dict) else ():
            _convert(value, rule, f"{where}: {section}.{name}")
    mapping: Mapping = _convert(table, Mapping, where)
    _check(mapping, where)
    return mapping


def _convert(value: Any, kind: Any, where: str) -> Any:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise MappingError(f"{where}: {error}") from None


def _check(mapping: Mapping, where: str) -> None:
    time = mapping.time
    known = [*mapping.columns, *mapping.derived]
    if not mapping.publisher:
        raise MappingError(f"{where}: publisher: name at least one of the columns")
    for name in mapping.publisher:
        if name not in mapping.columns:
            raise MappingError(
                f"{where}: publisher: {name!r} is not among the columns; "
                f"they are {', '.join(mapping.columns)}"
            )
    if both := sorted(set(mapping.columns) & set(mapping.derived)):
        raise MappingError(f"{where}: derived: {both[0]!r} is the name of a column too")
    for name in mapping.publish:
        if name not in known:
            raise MappingError(
                f"{where}: publish: {name!r} is neither a column nor derived; "
                f"there are {', '.join(known)}"
            )
    if (time.column is None) == (time.expression is None):
        raise MappingError(f"{where}: time: give either `column` or `expression`")
    if len(mapping.delimiter) != 1:
        raise MappingError(f"{where}: delimiter: {mapping.delimiter!r} is not one character")
