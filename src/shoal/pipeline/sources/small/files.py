"""Makes publications of small files without Spark, since Spark's start alone takes longer.

A row gives the same result as with Spark (`publications.py`): the same values, reasons and numbers.
Features that only Spark has (expressions, other time patterns, quotes in the middle of a field)
raise `NeedsSparkError`.
"""

from __future__ import annotations

import csv
import gzip
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types

from shoal.frames.packed_files import is_gzip, unpacking
from shoal.frames.parquet_files import part_files
from shoal.pipeline.small.tables import NeedsSparkError
from shoal.pipeline.sources.declaration import Mapping
from shoal.pipeline.sources.headers import (
    NOT_UTF_8,
    UNBALANCED,
    SourceError,
    first_line,
    header_names,
)
from shoal.pipeline.sources.headers import wrong_width as wrong_width_of
from shoal.pipeline.sources.json_lines import NOT_JSON, JsonLinesReader, check_lines, kind_of
from shoal.pipeline.sources.small.parquet import MOST_ROWS, parse_parquet, rows_of
from shoal.pipeline.sources.small.rows import Parsed, SourceRow

# Above this Spark's many cores are worth its start.
MOST_BYTES = 20_000_000
# Stand for bytes that are not UTF-8.
_ESCAPED = re.compile("[\udc80-\udcff]")

_TYPES = {
    "string": pa.string(),
    "integer": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
}
# Fields as RFC 4180 has them: a quote stands at both ends of a field, or nowhere in it.
_PLAIN_QUOTES = '(?:"(?:[^"]|"")*"|[^"{0}]*)(?:{0}(?:"(?:[^"]|"")*"|[^"{0}]*))*'


def are_small(files: Sequence[Path]) -> bool:
    """Return whether the files, which are of one kind, are together small."""
    if kind_of(files) == "Parquet":
        files = [part for path in files for part in part_files(path)]
        is_small = sum(file.stat().st_size for file in files) <= MOST_BYTES
        return is_small and sum(map(rows_of, files)) <= MOST_ROWS
    # A compressed file unpacks to some ten times its size.
    sizes = (file.stat().st_size * (10 if is_gzip(file) else 1) for file in files)
    return all(file.is_file() for file in files) and sum(sizes) <= MOST_BYTES


def attributes_type(mapping: Mapping) -> pa.DataType:
    """The type of the column `attributes`."""
    return pa.struct([(name, _TYPES[mapping.rules[name].type]) for name in mapping.published])


def parse_files(files: Sequence[Path], mapping: Mapping) -> Iterator[Parsed]:
    """The rows of the files, in the order in which they stand there."""
    if mapping.derived or mapping.time.expression is not None or mapping.time.zone != "UTC":
        raise NeedsSparkError
    if any(mapping.rules[name].type == "double" for name in mapping.publisher):
        raise NeedsSparkError  # Java writes numbers its own way
    parse = {"CSV": _parse_csv, "JSON": _parse_json, "Parquet": parse_parquet}[kind_of(files)]
    for file in files:
        yield from parse(file, mapping)


def _lines(file: Path) -> Iterator[tuple[int, str, bool]]:
    """Of each line that is not blank its number from 1, its text, and whether that is UTF-8."""
    opener = gzip.open if is_gzip(file) else open
    with (
        unpacking(file, SourceError),
        opener(file, "rt", encoding="utf-8", errors="surrogateescape", newline="\n") as opened,
    ):
        for line, ended in enumerate(opened, 1):
            text = ended.removesuffix("\n").rstrip("\r")
            if not text.strip(" "):
                continue
            is_text = text.isascii() or _ESCAPED.search(text) is None
            if not is_text:
                text = text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
            yield line, text, is_text


def _parse_json(file: Path, mapping: Mapping) -> Iterator[Parsed]:
    check_lines(file)
    needed = mapping.file_columns
    reader = JsonLinesReader(needed)
    row = SourceRow(mapping, {name: place for place, name in enumerate(needed)})
    name = str(file.absolute())
    for line, text, is_text in _lines(file):
        fields = reader.read(text) if is_text else None
        if fields is None:
            yield Parsed(name, line, text, NOT_JSON if is_text else NOT_UTF_8)
        else:
            yield row.parse(name, line, text, [field or "" for field in fields])


def _parse_csv(file: Path, mapping: Mapping) -> Iterator[Parsed]:
    delimiter, needed = mapping.delimiter, mapping.file_columns
    names = header_names(first_line(file), delimiter, needed, file)
    places = {name: names.index(name) for name in needed}
    row = SourceRow(mapping, places)
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
