"""The first line of a CSV file, and conditions of rows that cannot be taken apart."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Sequence
from pathlib import Path

from shoal.frames.packed_files import check_plain, is_gzip, unpacking
from shoal.frames.spelling import did_you_mean

# A first line longer than this is no header; it keeps a file without line ends out of memory.
MAX_HEADER_BYTES = 1_000_000

UNBALANCED = "unbalanced quote (a quoted field cannot span lines)"
NOT_UTF_8 = "not UTF-8 text (save the file as UTF-8)"


class SourceError(ValueError):
    """Input that cannot be read at all; the message names the file."""


def wrong_width(columns: int) -> str:
    """The reason of a row of another width."""
    return f"the number of columns is not the header's {columns}"


def first_line(file: Path) -> str:
    """The header's line; SourceError if it is no text."""
    opener = gzip.open if is_gzip(file) else open
    with unpacking(file, SourceError), opener(file, "rb") as opened:
        line: bytes = opened.readline(MAX_HEADER_BYTES)
    check_plain(file, line, ".csv.gz", SourceError)
    try:
        header = line.decode("utf-8-sig").rstrip("\r\n")
        if "\r" in header:
            raise SourceError(f"{file}: its lines end in CR alone; save it with line ends of LF")
        return header
    except UnicodeDecodeError:
        raise SourceError(
            f"{file}, line 1: the header is not UTF-8 text; save the file as UTF-8"
        ) from None


def header_names(header: str, delimiter: str, needed: Sequence[str], file: Path) -> list[str]:
    """The columns' names; SourceError if a column that is needed is not there once."""
    if not header.strip():
        raise SourceError(f"{file}, line 1: there must be a header with the column names")
    names = [name.strip() for name in next(csv.reader([header], delimiter=delimiter))]
    if missing := [name for name in needed if name not in names]:
        near = did_you_mean(missing[0], names)
        raise SourceError(
            f"{file}: no column {', '.join(map(repr, missing))}{near if '?' in near else ''}; "
            f"the header has {', '.join(map(repr, names))}{_other_delimiter(names)}"
        )
    if repeated := sorted({name for name in needed if names.count(name) > 1}):
        raise SourceError(f"{file}: the header has the column {repeated[0]!r} more than once")
    return names


def _other_delimiter(names: Sequence[str]) -> str:
    """Return a hint if one name holds a character that other files use as delimiter.

    >>> _other_delimiter(["at;station;wind"]), _other_delimiter(["at", "wind"])
    ("; if ';' stands between its columns, say delimiter = ';'", '')
    """
    found = [each for each in ";\t|," if len(names) == 1 and each in names[0]]
    return (
        f"; if {found[0]!r} stands between its columns, say delimiter = {found[0]!r}"
        if found
        else ""
    )
