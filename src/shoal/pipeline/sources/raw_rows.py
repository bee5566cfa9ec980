"""Reads splits as raw rows: numbered, with their text, and with broken ones marked.

A CSV record is one line: a quoted line break makes both its lines broken, so that many tasks can
read one file and still number its lines. A field is quoted if a quote stands at both its ends;
other quotes are characters.

>>> fields = CsvFields(["a", "b"], ["b"], ",").read(pa.array(['1,"x, y"', '1,a "b" c', "1"]))
>>> fields.columns["b"].to_pylist(), fields.broken.to_pylist()[2]
(['x, y', 'a "b" c', None], "the number of columns is not the header's 2")
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
import pyarrow.compute as pc  # type: ignore[import-untyped]  # as above

from shoal.frames.parquet_folders import folder_columns
from shoal.pipeline.sources.headers import (
    NOT_UTF_8,
    UNBALANCED,
    SourceError,
    first_line,
    header_names,
    wrong_width,
)
from shoal.pipeline.sources.json_lines import NOT_JSON, JsonLinesReader, check_lines, kind_of
from shoal.pipeline.sources.parquet_columns import ParquetColumns, check_tables
from shoal.pipeline.sources.splits import FileSplit, parquet_splits, text_splits, whole_lines


class RawRows(NamedTuple):
    """Rows of a split.

    `lines` are numbers from 1 in the split, `broken` says why a row has no fields, or is null;
    `columns` are those of the file that were asked for. `seen` counts the lines of the split up to
    here, with blank ones.
    """

    lines: pa.Array
    texts: pa.Array
    broken: pa.Array
    columns: dict[str, pa.Array]
    seen: int


class Fields(NamedTuple):
    """The columns of lines, null where a line is broken, and the reasons, else null."""

    columns: dict[str, pa.Array]
    broken: pa.Array


class LineReader(Protocol):
    """Takes lines apart."""

    has_header: bool

    def read(self, texts: pa.Array) -> Fields:
        """Return the fields of these lines."""


class RowSource(Protocol):
    """Files as splits, and how to read them."""

    @property
    def splits(self) -> Sequence[FileSplit]:
        """All splits, in the order of the files."""

    def read(self, split: FileSplit) -> Iterator[RawRows]:
        """Yield the rows of a split, many at a time."""


class TextSource(NamedTuple):
    """Text files, each with the reader of its lines, by absolute path."""

    splits: Sequence[FileSplit]
    readers: Mapping[Path, LineReader]

    def read(self, split: FileSplit) -> Iterator[RawRows]:
        """Yield the rows of a split, some MB at a time; blank lines are none."""
        reader, seen = self.readers[split.file], 0
        for chunk in whole_lines(split):
            texts, is_text = _decoded(chunk)
            lines = np.arange(seen + 1, seen + 1 + len(texts))
            seen += len(texts)
            kept = np.asarray(pc.not_equal(pc.ascii_trim(texts, " "), ""))
            if reader.has_header and not split.start:
                kept &= lines > 1
            texts, is_text = texts.filter(pa.array(kept)), is_text[kept]
            columns, broken = reader.read(texts)
            if not is_text.all():
                ok = pa.array(is_text)
                broken = pc.if_else(ok, broken, NOT_UTF_8)
                columns = {name: pc.if_else(ok, each, None) for name, each in columns.items()}
            yield RawRows(pa.array(lines[kept]), texts, broken, columns, seen)


class ParquetSource(NamedTuple):
    """Parquet files, or folders of them, whose names are dates in the columns `dates`."""

    splits: Sequence[FileSplit]
    needed: Sequence[str]
    dates: frozenset[str]

    def read(self, split: FileSplit) -> Iterator[RawRows]:
        """Yield the rows of a split, some 20,000 at a time; a row's text is JSON."""
        seen = 0
        for columns, texts in ParquetColumns(split, self.needed, self.dates).batches():
            lines = np.arange(seen + 1, seen + 1 + len(texts))
            seen += len(texts)
            broken = pa.nulls(len(texts), pa.string())
            yield RawRows(pa.array(lines), texts, broken, columns, seen)


def open_source(
    files: Sequence[Path], needed: Sequence[str], *, delimiter: str = ",", name: str = ""
) -> RowSource:
    """CSV, Parquet or JSON files, by the ending of the names (a folder is Parquet).

    CSV files may differ in their columns' order. SourceError for files that cannot be read.
    """
    check_files(files)
    kind = kind_of(files)
    if kind == "Parquet":
        check_tables(files, needed)
        folders = [column for file in files for column in folder_columns(file).items()]
        dates = {name for name, _ in folders}
        dates -= {name for name, column in folders if not column.has_dates}
        return ParquetSource(parquet_splits(files), needed, frozenset(dates))
    readers: dict[Path, LineReader] = {}
    for file in files:
        if kind == "JSON":
            check_lines(file)
            readers[file.absolute()] = JsonFields(needed)
        else:
            names = header_names(first_line(file), delimiter, needed, file)
            readers[file.absolute()] = CsvFields(names, needed, delimiter)
    return TextSource(text_splits(files, name=name), readers)


def check_files(files: Sequence[Path]) -> None:
    """SourceError unless there is at least one file, and each exists."""
    if not files:
        raise SourceError("no input file was given")
    for file in files:
        if not file.exists():
            raise SourceError(f"{file} does not exist")


def _decoded(chunk: bytes) -> tuple[pa.Array, np.ndarray]:
    """The lines, without their ends, and which of them are UTF-8."""
    try:
        lines = chunk.decode().split("\n")
        is_text = np.full(len(lines), True)
    except UnicodeDecodeError:
        raw = chunk.split(b"\n")
        lines = [line.decode(errors="replace") for line in raw]
        is_text = np.array([line.encode() == each for line, each in zip(lines, raw, strict=True)])
    count = len(lines) - (lines[-1] == "")
    texts = pc.ascii_rtrim(pa.array(lines[:count], pa.string()), "\r")
    return texts, is_text[:count]


class CsvFields:
    """Takes the `needed` of the columns `names` out of lines of CSV."""

    has_header = True

    def __init__(self, names: Sequence[str], needed: Sequence[str], delimiter: str) -> None:
        self._places = {name: names.index(name) for name in needed}
        self._width = len(names)
        self._delimiter = delimiter
        mark = re.escape(delimiter)
        self._field = re.compile(rf'{mark}(?:"((?:[^"]|"")*)"(?={mark}|\Z)|([^{mark}]*))')

    def read(self, texts: pa.Array) -> Fields:
        """Return the fields of these lines."""
        parts = pc.split_pattern(texts, self._delimiter)
        fits = np.asarray(pc.equal(pc.list_value_length(parts), self._width))
        values = parts.filter(pa.array(fits)).flatten()
        firsts = (np.cumsum(fits) - 1) * self._width
        columns = {
            name: values.take(pa.array(firsts + place, mask=~fits))
            for name, place in self._places.items()
        }
        broken = pc.if_else(pa.array(fits), pa.scalar(None, pa.string()), wrong_width(self._width))
        quoted = pc.match_substring(texts, '"')
        if pc.any(quoted).as_py():
            rows = [self._split(text) for text in texts.filter(quoted).to_pylist()]
            for name, place in self._places.items():
                found = [None if isinstance(row, str) else row[place] for row in rows]
                columns[name] = pc.replace_with_mask(
                    columns[name], quoted, pa.array(found, pa.string())
                )
            reasons = pa.array([row if isinstance(row, str) else None for row in rows], pa.string())
            broken = pc.replace_with_mask(broken, quoted, reasons)
        return Fields(columns, broken)

    def _split(self, text: str) -> list[str] | str:
        """The fields of a line with quotes, or the reason that it has none."""
        if text.count('"') % 2:
            return UNBALANCED
        found = self._field.findall(self._delimiter + text)
        if len(found) != self._width:
            return wrong_width(self._width)
        return [quoted.replace('""', '"') if quoted else plain for quoted, plain in found]


class JsonFields:
    """Takes the `needed` columns out of lines of JSON, each value as the text in the file."""

    has_header = False

    def __init__(self, needed: Sequence[str]) -> None:
        self._needed = needed
        self._reader = JsonLinesReader(needed)

    def read(self, texts: pa.Array) -> Fields:
        """Return the fields of these lines."""
        nothing = [None] * len(self._needed)
        rows = [self._reader.read(text) for text in texts.to_pylist()]
        values = list(zip(*(row or nothing for row in rows), strict=True))
        columns = {
            name: pa.array(values[place] if values else [], pa.string())
            for place, name in enumerate(self._needed)
        }
        broken = [NOT_JSON if row is None else None for row in rows]
        return Fields(columns, pa.array(broken, pa.string()))

    def __reduce__(self) -> tuple[type[JsonFields], tuple[Sequence[str]]]:
        return JsonFields, (self._needed,)
