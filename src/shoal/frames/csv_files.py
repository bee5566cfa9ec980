"""CSV files with a header as tables in memory; errors name row or line.

Columns get the type that all their values have: integers, doubles, booleans, else text (dates stay
text); integers that no double equals stay exact beside fractions. An empty field is a null.
`.csv.gz` is unpacked on the way; a pipe is read into memory first.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
import pyarrow.csv as pc  # type: ignore[import-untyped]  # as above

from shoal.frames.errors import TableError
from shoal.frames.exact_numbers import exact_column, may_be_inexact
from shoal.frames.packed_files import cut_off, packed_by

# Texts that count as a boolean; a column with other texts has strings.
_TRUE, _FALSE = ["true", "True", "TRUE"], ["false", "False", "FALSE"]
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
# Arrow's own size, and the most that it takes: a row must fit into a block.
_BLOCK_BYTES, _MOST_BLOCK_BYTES = 1 << 20, (1 << 31) - 1
# Arrow's message with the row; it counts the header.
_ROW = re.compile(r"CSV parse error: Row #(\d+): (.*)", re.DOTALL)
_SHOWN = 80


def read_csv(path: Path) -> pa.Table:
    """The table in a CSV file; TableError names the file, and the row or line that is wrong."""
    try:
        source = _source(path)
        try:
            table = _read(source)
            # The bytes of a header become names when they are asked for.
            assert table.column_names is not None
            return table
        except UnicodeDecodeError:
            line = _line_of_other_text(source) or 1
            raise TableError(
                f"{path}, line {line}: not UTF-8 text; save the file as UTF-8"
            ) from None
        except pa.ArrowException as error:
            if "straddling" not in str(error):
                raise
            return _read(source, block_bytes=_MOST_BLOCK_BYTES)
    except OSError as error:
        if "Truncated" in str(error):  # as Arrow says it
            raise TableError(cut_off(path)) from None
        raise TableError(f"{path}: cannot be read ({error.strerror or error})") from None
    except pa.ArrowException as error:
        raise TableError(_complaint(path, source, str(error))) from None


def _source(path: Path) -> Path | pa.Buffer:
    """Return Arrow's input, which it may read twice: the file, or the content of a pipe."""
    if not path.is_file():
        return pa.py_buffer(path.read_bytes())
    with path.open("rb") as opened:
        begins = opened.read(8)
    packed = packed_by(begins)
    if packed and path.suffix == ".csv":
        raise TableError(f"{path}: is packed by {packed}; unpack it first")
    if begins[:2] in _UTF_16:
        raise TableError(f"{path}: is UTF-16; save the file as UTF-8")
    return path


def _read(source: Path | pa.Buffer, *, block_bytes: int = _BLOCK_BYTES) -> pa.Table:
    types: dict[str, pa.DataType] = {}
    table = _parse(source, types, block_bytes)
    # Dates and times are the text that they are in the file.
    types = {each.name: pa.string() for each in table.schema if _is_other(each.type)}
    table = _parse(source, types, block_bytes) if types else table
    return _exact(source, table, block_bytes)


def _exact(source: Path | pa.Buffer, table: pa.Table, block_bytes: int) -> pa.Table:
    """The table with integers that no double is as they are; its texts are read again for them."""
    # Of two columns of one name, which is an error elsewhere, none can be asked for.
    large = {
        field.name
        for number, field in enumerate(table.schema)
        if pa.types.is_floating(field.type) and may_be_inexact(table.column(number))
    }
    if not large or len(set(table.column_names)) < table.num_columns:
        return table
    texts = _parse(source, dict.fromkeys(large, pa.string()), block_bytes, only=sorted(large))
    for name in large:
        place = table.column_names.index(name)
        column = exact_column(table.column(place), texts.column(name))
        table = table.set_column(place, name, column)
    return table


def _parse(
    source: Path | pa.Buffer,
    types: dict[str, pa.DataType],
    block_bytes: int,
    *,
    in_order: bool = False,
    only: Sequence[str] = (),
) -> pa.Table:
    return pc.read_csv(
        source if isinstance(source, Path) else pa.BufferReader(source),
        read_options=pc.ReadOptions(block_size=block_bytes, use_threads=not in_order),
        parse_options=pc.ParseOptions(newlines_in_values=True),
        convert_options=pc.ConvertOptions(
            column_types=types,
            include_columns=list(only),
            null_values=[""],
            true_values=_TRUE,
            false_values=_FALSE,
            strings_can_be_null=True,
            timestamp_parsers=[],
        ),
    )


def _is_other(kind: pa.DataType) -> bool:
    plain = (pa.types.is_null, pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean)
    return not (any(is_plain(kind) for is_plain in plain) or pa.types.is_string(kind))


def _complaint(path: Path, source: Path | pa.Buffer, said: str) -> str:
    """In words, with the place: threads do not know it, so the file is read in order for it."""
    if line := _line_of_other_text(source):
        return f"{path}, line {line}: not UTF-8 text; save the file as UTF-8"
    if "mpty CSV file" in said:
        return f"{path}: is empty; its first line must name the columns"
    try:
        _parse(source, {}, _MOST_BLOCK_BYTES, in_order=True)
    except (OSError, UnicodeDecodeError, pa.ArrowException) as error:
        said = str(error)
    if found := _ROW.match(said):
        what = found[2] if len(found[2]) <= _SHOWN else f"{found[2][:_SHOWN]} ..."
        return f"{path}, row {int(found[1]) - 1}: {what[:1].lower()}{what[1:].rstrip()}"
    return f"{path}: not a CSV file: {said}"


def _line_of_other_text(source: Path | pa.Buffer) -> int:
    """The first line that is not UTF-8, from 1; 0 where all are, or the file is packed."""
    if isinstance(source, Path) and source.suffix != ".csv":
        return 0
    lines = source.open("rb") if isinstance(source, Path) else pa.BufferReader(source)
    with lines as opened:
        for number, line in enumerate(opened, 1):
            try:
                line.decode()
            except UnicodeDecodeError:
                return number
    return 0
