"""Columns that are the names of folders, `code=01001`, as pyarrow, pandas and Spark write them.

Their values are the folders' texts, with leading zeros; escaped characters are UTF-8.

>>> root = Path("towns")
>>> folder_values(root, root / "city=K%C3%B6ln" / "zone=a%2Fb" / "part-0.parquet")
{'city': 'Köln', 'zone': 'a/b'}
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from shoal.frames.parquet_files import part_files
from shoal.language import read_plain_value

# Stands for a missing value.
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"

_NO_ESCAPE = re.compile("%(?![0-9A-Fa-f]{2})")


def unescaped(text: str) -> str:
    """A name or a value as it was before it became a folder's name."""
    return text if _NO_ESCAPE.search(text) else unquote(text)


def folder_values(root: Path, file: Path) -> dict[str, str]:
    """Return the values in the folder names between a table's folder and a file of it; a missing
    value is empty.
    """
    return {unescaped(name): _value(said) for name, said in _parts(root, file)}


class FolderColumn(NamedTuple):
    """A column that folders name: its name as it stands there, and all its values."""

    raw_name: str
    values: set[str]

    @property
    def has_integers(self) -> bool:
        """Return whether all values are integers of 64 bits that a text without type stands for."""
        return all(type(read_plain_value(value)) is int for value in self.values if value)

    @property
    def has_dates(self) -> bool:
        """Return whether all values are dates as in ISO 8601."""
        return all(_is_date(value) for value in self.values if value)


def folder_columns(root: Path) -> dict[str, FolderColumn]:
    """The columns that folders below a table's folder name."""
    found: dict[str, FolderColumn] = {}
    for file in part_files(root) if root.is_dir() else ():
        for name, said in _parts(root, file):
            column = found.setdefault(unescaped(name), FolderColumn(name, set()))
            column.values.add(_value(said))
    return found


def _parts(root: Path, file: Path) -> Iterator[tuple[str, str]]:
    """The names and values of the folders between, as they stand there."""
    for part in file.relative_to(root).parts[:-1] if file != root else ():
        name, equals, said = part.partition("=")
        if name and equals:
            yield name, said


def _value(said: str) -> str:
    return "" if said == NO_VALUE else unescaped(said)


def _is_date(text: str) -> bool:
    try:
        return len(text) == len("2026-01-31") and bool(date.fromisoformat(text))
    except ValueError:
        return False
