"""Declares how a file's rows become publications: a mapping.

A mapping names the publisher and the time of a row, and the columns that become attributes, with
their types; `derived` attributes are Spark SQL expressions over the columns and over `event_time`.
Mappings are TOML, read strictly: an unknown key is an error that names it.

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
shoal.pipeline.sources.declaration.MappingError: x.toml: times: unknown key; did you mean time? \
(docs/reference/source-declaration.md)
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from shoal import typed_toml
from shoal.frames.times import instant
from shoal.typed_toml import TomlError

# The page that explains the keys of a declaration.
PAGE = "docs/reference/source-declaration.md"

AttributeType = Literal["string", "integer", "double", "boolean"]

T = TypeVar("T")

# Spark's names of the types that attributes have.
SPARK_TYPES: dict[AttributeType, str] = {
    "string": "string",
    "integer": "bigint",
    "double": "double",
    "boolean": "boolean",
}
ISO_8601 = "iso8601"
EPOCH_UNITS_PER_SECOND = {"epoch_s": 1, "epoch_ms": 1_000, "epoch_us": 1_000_000}
# The letters of Spark's datetime patterns; text stands between quotes.
_PATTERN_LETTERS = frozenset("GyDMLdQqEFahkKHmsSVzOXxZ")


class MappingError(ValueError):
    """A mapping that cannot be used; the message names the file and the key."""


class ColumnRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A column of the file; the type alone may stand for the table.

    type       the attribute's type
    column     its name in the file, if that differs
    required   a row without it is refused
    """

    type: AttributeType
    column: str | None = None
    required: bool = False


class DerivedRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An attribute that is computed.

    type         the attribute's type
    expression   in Spark SQL, over the columns and over `event_time`
    """

    type: AttributeType
    expression: str


class TimeRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The event time: a column of the file and its format, or an expression over the columns.

    column       the column
    format       a Spark datetime pattern such as `yyyy-MM-dd HH:mm`; or iso8601
                 (`2026-01-31T18:05:00.25+01:00`, down to the date alone); or epoch_s, epoch_ms,
                 epoch_us, since 1970 in UTC, whole or with a fraction; of a list the first
                 that a text has; a Parquet date or timestamp needs none
    zone         the time zone of times that do not tell theirs
    expression   instead of a column, in Spark SQL
    earliest     a row of an earlier time is rejected (`2026-01-31`, or with a time of day, in UTC)
    before       a row of this time or later is rejected
    """

    column: str | None = None
    format: str | list[str] | None = None
    zone: str = "UTC"
    expression: str | None = None
    earliest: str | None = None
    before: str | None = None

    @property
    def earliest_us(self) -> int | None:
        """`earliest` in µs since 1970; None without."""
        return None if self.earliest is None else instant(self.earliest)

    @property
    def before_us(self) -> int | None:
        """`before` in µs since 1970; None without."""
        return None if self.before is None else instant(self.before)

    @property
    def formats(self) -> tuple[str, ...]:
        """The formats, in the order in which they are tried; none without `format`."""
        given = self.format
        return () if given is None else (given,) if isinstance(given, str) else tuple(given)


class Expectations(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Properties that the publications must have; without one of them `shoal ingest` fails, and
    writes nothing.

    rejects          the largest share of rows that may be rejected, from 0 to 1
    repeats          the largest share of publications that may repeat an earlier one
    publications     how many publications there must be at least
    publishers       names of publishers that must have publications
    newest_within_s  how many seconds ago the newest publication may be
    ranges           the lowest and the highest value of attributes that are numbers, by name
    """

    rejects: float | None = None
    repeats: float | None = None
    publications: int = 0
    publishers: list[str] = []
    newest_within_s: float | None = None
    ranges: dict[str, list[float]] = {}


class Mapping(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Mapping from the rows of a file to publications.

    publisher     the columns whose values are the publisher's name
    time          when a row was published
    columns       the columns of the file that are attributes, by name
    derived       attributes that are computed, by name
    publish       the attributes that are published; without, all
    separator     stands between the values of a publisher's name
    delimiter     of CSV files, one character
    decimal       stands before the decimals of a number in text, a point or a comma
    null_values   texts that mean a missing value, beside the empty one
    expect        properties that the publications must have
    """

    publisher: list[str]
    time: TimeRule
    columns: dict[str, ColumnRule | AttributeType]
    derived: dict[str, DerivedRule] = {}
    publish: list[str] = []
    separator: str = "-"
    delimiter: str = ","
    decimal: Literal[".", ","] = "."
    null_values: list[str] = []
    expect: Expectations = Expectations()

    @property
    def rules(self) -> dict[str, ColumnRule]:
        """Return the columns, each with its full rule; the publisher's columns must be there."""
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
    """The mapping in a TOML file; MappingError names the fault."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise MappingError(f"{path}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise MappingError(f"{path}: byte {error.start} is not UTF-8 text") from None
    return decode_mapping(text, str(path))


def decode_mapping(text: str, where: str) -> Mapping:
    """The mapping written in `text`; `where` opens the message of a MappingError."""
    try:
        table = msgspec.toml.decode(text)
    except msgspec.DecodeError as error:
        raise MappingError(f"{where}: not TOML: {error}") from None
    for section, rule in (("columns", ColumnRule), ("derived", DerivedRule)):
        given = table.get(section, {})
        # One by one: msgspec's own message would not say which of them is wrong.
        for name, value in given.items() if isinstance(given, dict) else ():
            place = f"{section}.{name}"
            if section == "columns" and isinstance(value, str):
                _check_type(value, f"{where}: {place}")
            else:
                _convert(value, rule, where, place)
    mapping = _convert(table, Mapping, where)
    try:
        _check(mapping)
    except MappingError as error:
        raise MappingError(f"{where}: {error} ({PAGE})") from None
    return mapping


def _check_type(name: str, where: str) -> None:
    if name not in SPARK_TYPES:
        types = ", ".join(SPARK_TYPES)
        raise MappingError(f"{where}: {name!r} is no type; use one of {types} ({PAGE})")


def _convert(value: Any, kind: type[T], where: str, within: str = "") -> T:
    try:
        return typed_toml.convert(value, kind, where, pages={"": PAGE}, within=within)
    except TomlError as error:
        raise MappingError(str(error)) from None


def _check(mapping: Mapping) -> None:
    time = mapping.time
    known = [*mapping.columns, *mapping.derived]
    if not mapping.publisher:
        raise MappingError("publisher: name at least one of the columns")
    for name in mapping.publisher:
        if name not in mapping.columns:
            columns = ", ".join(mapping.columns)
            raise MappingError(f"publisher: {name!r} is not among the columns; they are {columns}")
    if both := sorted(set(mapping.columns) & set(mapping.derived)):
        raise MappingError(f"derived: {both[0]!r} is the name of a column too")
    for name in mapping.publish:
        if name not in known:
            raise MappingError(
                f"publish: {name!r} is neither a column nor derived; there are {', '.join(known)}"
            )
    if (time.column is None) == (time.expression is None):
        raise MappingError("time: give either `column` or `expression`")
    if isinstance(time.format, list) and not time.format:
        raise MappingError("time.format: the list is empty")
    for format in time.formats:
        _check_format(format)
    for key, text in (("earliest", time.earliest), ("before", time.before)):
        try:
            instant(text or "2026-01-31")
        except ValueError as error:
            raise MappingError(f"time.{key}: {error}") from None
    if len(mapping.delimiter) != 1:
        raise MappingError(f"delimiter: {mapping.delimiter!r} is not one character")
    _check_expectations(mapping)


def _check_expectations(mapping: Mapping) -> None:
    kinds = {name: rule.type for name, rule in (mapping.rules | mapping.derived).items()}
    numeric = [name for name in mapping.published if kinds[name] in ("integer", "double")]
    for key, share in (("rejects", mapping.expect.rejects), ("repeats", mapping.expect.repeats)):
        if share is not None and not 0 <= share <= 1:
            raise MappingError(f"expect.{key}: {share:g} is no share; write 0.01 for 1 %")
    for name, ends in mapping.expect.ranges.items():
        if name not in numeric:
            known = ", ".join(numeric) or "none"
            raise MappingError(
                f"expect.ranges: {name!r} is no number that is published; there are {known}"
            )
        if len(ends) != 2 or ends[0] > ends[1]:
            raise MappingError(f"expect.ranges.{name}: write the lowest and the highest, [0, 60]")


def _check_format(format: str) -> None:
    """MappingError for a format as other languages write it, before Spark is started for it.

    >>> _check_format("%Y-%m-%d")
    Traceback (most recent call last):
    shoal.pipeline.sources.declaration.MappingError: time.format: '%Y-%m-%d': %Y means nothing \
here; write it as in yyyy-MM-dd HH:mm:ss, or give iso8601, epoch_s, epoch_ms or epoch_us
    """
    if format in (ISO_8601, *EPOCH_UNITS_PER_SECOND):
        return
    for token in re.findall(r"%?[A-Za-z]", re.sub(r"'[^']*'", " ", format)):
        if token not in _PATTERN_LETTERS:
            raise MappingError(
                f"time.format: {format!r}: {token} means nothing here; write it as in "
                f"yyyy-MM-dd HH:mm:ss, or give {ISO_8601}, "
                f"{', '.join([*EPOCH_UNITS_PER_SECOND][:-1])} or {[*EPOCH_UNITS_PER_SECOND][-1]}"
            )
