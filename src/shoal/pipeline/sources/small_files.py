"""Small CSV files and JSON lines become publications without Spark: that alone takes longer.

What comes of a row is what Spark makes of it (`publications.py`): the same values, reasons and
numbers.  Whatever only Spark can say (expressions, other time patterns, quotes in the middle of a
field) raises `NeedsSparkError`.
"""

from __future__ import annotations

import csv
import gzip
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types

from shoal.pipeline.small.tables import NeedsSparkError
from shoal.pipeline.sources.declaration import (
    EPOCH_UNITS_PER_SECOND,
    ISO_8601,
    AttributeType,
    Mapping,
)
from shoal.pipeline.sources.headers import NOT_UTF_8, UNBALANCED, first_line, header_names
from shoal.pipeline.sources.headers import wrong_width as wrong_width_of
from shoal.pipeline.sources.json_lines import NOT_JSON, Reader, check_lines, is_json
from shoal.pipeline.sources.words import ISO_TIME, NOUNS, NUMBER, not_a_time, not_of_type

# Above this Spark's many cores are worth its start.
MOST_BYTES = 20_000_000
# What bytes that are not UTF-8 are read as.
_ESCAPED = re.compile("[\udc80-\udcff]")

_TYPES = {
    "string": pa.string(),
    "integer": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
}
_TRUE, _FALSE = {"t", "true", "y", "yes", "1"}, {"f", "false", "n", "no", "0"}
_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_DOUBLE = re.compile(NUMBER, re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Fields as RFC 4180 has them: a quote stands at both ends of a field, or nowhere in it.
_PLAIN_QUOTES = '(?:"(?:[^"]|"")*"|[^"{0}]*)(?:{0}(?:"(?:[^"]|"")*"|[^"{0}]*))*'


class Parsed(NamedTuple):
    """A row: where it stands, and its publication, or the reason that it is none."""

    file: str
    line: int
    text: str
    reason: str
    publisher: str = ""
    time_us: int = 0
    values: tuple[Any, ...] = ()


def are_small(files: Sequence[Path]) -> bool:
    """Whether all are CSV files, or all JSON lines, and together small."""
    plain = len({is_json(file) for file in files}) == 1 and all(
        file.is_file() and file.suffix != ".parquet" for file in files
    )
    # What is packed unfolds to some ten times as much.
    sizes = (file.stat().st_size * (10 if file.suffix == ".gz" else 1) for file in files)
    return plain and sum(sizes) <= MOST_BYTES


def attributes_type(mapping: Mapping) -> pa.DataType:
    """The type of the column `attributes`."""
    return pa.struct([(name, _TYPES[mapping.rules[name].type]) for name in mapping.published])


def parse_files(files: Sequence[Path], mapping: Mapping) -> Iterator[Parsed]:
    """The rows of the files, in the order in which they stand there."""
    if mapping.derived or mapping.time.expression is not None or mapping.time.zone != "UTC":
        raise NeedsSparkError
    if any(mapping.rules[name].type == "double" for name in mapping.publisher):
        raise NeedsSparkError  # Java writes numbers its own way
    time_us = _time_parser(mapping.time.format)
    for file in files:
        parse = _parse_json if is_json(file) else _parse_csv
        yield from parse(file, mapping, time_us)


def _lines(file: Path) -> Iterator[tuple[int, str, bool]]:
    """Of each line that is not blank its number from 1, its text, and whether that is UTF-8."""
    opener = gzip.open if file.suffix == ".gz" else open
    with opener(file, "rt", encoding="utf-8", errors="surrogateescape", newline="\n") as opened:
        for line, ended in enumerate(opened, 1):
            text = ended.removesuffix("\n").rstrip("\r")
            if not text.strip(" "):
                continue
            is_text = text.isascii() or _ESCAPED.search(text) is None
            if not is_text:
                text = text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
            yield line, text, is_text


def _parse_json(
    file: Path, mapping: Mapping, time_us: Callable[[str], int | None]
) -> Iterator[Parsed]:
    check_lines(file)
    needed = mapping.file_columns
    reader = Reader(needed)
    row = _Row(mapping, {name: place for place, name in enumerate(needed)}, time_us)
    name = str(file.absolute())
    for line, text, is_text in _lines(file):
        fields = reader.read(text) if is_text else None
        if fields is None:
            yield Parsed(name, line, text, NOT_JSON if is_text else NOT_UTF_8)
        else:
            yield row.parse(name, line, text, [field or "" for field in fields])


def _parse_csv(
    file: Path, mapping: Mapping, time_us: Callable[[str], int | None]
) -> Iterator[Parsed]:
    delimiter, needed = mapping.delimiter, mapping.file_columns
    names = header_names(first_line(file), delimiter, needed, file)
    places = {name: names.index(name) for name in needed}
    row = _Row(mapping, places, time_us)
    quotes = re.compile(_PLAIN_QUOTES.format(re.escape(delimiter)))
    width, wrong_width = len(names), wrong_width_of(len(names))
    name = str(file.absolute())
    for line, text, is_text in _lines(file):
        if line == 1:
            continue
        if not is_text:
            yield Parsed(name, line, text, NOT_UTF_8)
            continue
        if '"' not in text:
            fields = text.split(delimiter)
        elif text.count('"') % 2:
            yield Parsed(name, line, text, UNBALANCED)
            continue
        elif quotes.fullmatch(text) is None:
            raise NeedsSparkError
        else:
            fields = next(csv.reader([text], delimiter=delimiter))
        if len(fields) != width:
            yield Parsed(name, line, text, wrong_width)
        else:
            yield row.parse(name, line, text, fields)


class _Row:
    """Makes a publication of a row's fields, or a reason."""

    def __init__(
        self, mapping: Mapping, places: dict[str, int], time_us: Callable[[str], int | None]
    ) -> None:
        self._mapping = mapping
        self._missing = {"", *mapping.null_values}
        self._rules = [
            (name, str(rule.column), places[str(rule.column)], rule.type, rule.required)
            for name, rule in mapping.rules.items()
        ]
        self._time, self._time_at = str(mapping.time.column), places[str(mapping.time.column)]
        self._time_us = time_us
        names = [name for name, *_ in self._rules]
        self._publisher = [names.index(name) for name in mapping.publisher]
        self._published = [names.index(name) for name in mapping.published]

    def parse(self, file: str, line: int, text: str, fields: list[str]) -> Parsed:
        values: list[Any] = []
        problems: list[str] = []
        for _, column, place, kind, required in self._rules:
            said = fields[place]
            value = None
            if said not in self._missing:
                value = said if kind == "string" else _typed(said, kind)
                if value is None:
                    problems.append(not_of_type(column, said, NOUNS[kind]))
            elif required:
                problems.append(f"column '{column}' is missing")
            values.append(value)
        said = fields[self._time_at]
        time_us = None
        if said in self._missing:
            problems.append(f"time column '{self._time}' is missing")
        else:
            time_us = self._time_us(said)
            if time_us is None:
                problems.append(not_a_time(self._time, said, str(self._mapping.time.format)))
        if problems or time_us is None:
            return Parsed(file, line, text, "; ".join(problems))
        publisher = self._mapping.separator.join(_text(values[at]) for at in self._publisher)
        chosen = tuple(values[at] for at in self._published)
        return Parsed(file, line, text, "", publisher, time_us, chosen)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _typed(said: str, kind: AttributeType) -> Any:
    """The value, or None if the text is of another type."""
    said = said.strip(" ")
    if kind == "double":
        return float(said) if _DOUBLE.fullmatch(said) else None
    if kind == "integer":
        return _integer(said)
    word = said.lower()
    return True if word in _TRUE else False if word in _FALSE else None


def _integer(said: str) -> int | None:
    value = int(said) if _INTEGER.fullmatch(said) else None
    return value if value is not None and -(2**63) <= value < 2**63 else None


# --- times ----------------------------------------------------------------------------------------

_PARTS = {"yyyy": r"(?P<y>\d{4})", "MM": r"(?P<mo>\d\d)", "dd": r"(?P<d>\d\d)",
          "HH": r"(?P<h>\d\d)", "mm": r"(?P<mi>\d\d)", "ss": r"(?P<s>\d\d)"}  # fmt: skip
_PATTERN = re.compile(
    r"'(?P<quoted>[^']+)'|(?P<fraction>S+)|(?P<part>([A-Za-z])\4*)|(?P<sign>[ :/.,_-])"
)


def _time_parser(format: str | None) -> Callable[[str], int | None]:
    """What reads texts of a format as µs since 1970 UTC; None for one of another form."""
    units = EPOCH_UNITS_PER_SECOND.get(format or "")
    if units is not None:
        return lambda said: _scaled(said, 1_000_000 // units)
    pattern = (
        re.compile(ISO_TIME, re.ASCII) if format == ISO_8601 else _regular_expression(format or "")
    )
    return lambda said: _moment(pattern.fullmatch(said))


def _scaled(said: str, scale: int) -> int | None:
    value = _integer(said.strip())
    return value * scale if value is not None and -(2**63) <= value * scale < 2**63 else None


def _regular_expression(format: str) -> re.Pattern[str]:
    """NeedsSparkError for a pattern with anything but years down to fractions of seconds."""
    found, place = [], 0
    while place < len(format):
        token = _PATTERN.match(format, place)
        if token is None:
            raise NeedsSparkError
        place = token.end()
        if token["fraction"]:
            if len(token["fraction"]) > 6:
                raise NeedsSparkError
            found.append(rf"(?P<f>\d{{1,{len(token['fraction'])}}})")
        elif token["part"]:
            if token["part"] not in _PARTS or _PARTS[token["part"]] in found:
                raise NeedsSparkError
            found.append(_PARTS[token["part"]])
        else:
            found.append(re.escape(token["quoted"] or token["sign"]))
    if not {_PARTS[name] for name in ("yyyy", "MM", "dd")} <= set(found):
        raise NeedsSparkError
    return re.compile("".join(found), re.ASCII)


def _moment(found: re.Match[str] | None) -> int | None:
    if found is None:
        return None
    said = found.groupdict()
    try:
        moment = datetime(
            int(said["y"]),
            int(said["mo"]),
            int(said["d"]),
            int(said.get("h") or 0),
            int(said.get("mi") or 0),
            int(said.get("s") or 0),
            int((said.get("f") or "0").ljust(6, "0")[:6]),
            tzinfo=UTC,
        )
    except ValueError:
        return None
    ahead = _ahead_of_utc(said.get("zone") or "Z")
    return (moment - ahead - _EPOCH) // timedelta(microseconds=1)


def _ahead_of_utc(zone: str) -> timedelta:
    """
    >>> _ahead_of_utc("-0130") == -timedelta(hours=1, minutes=30)
    True
    """
    digits = zone[1:].replace(":", "").ljust(4, "0")
    ahead = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return -ahead if zone.startswith("-") else ahead
