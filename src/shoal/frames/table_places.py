"""Texts that say where a table is: a path, a URI, or a name in Spark's catalog.

>>> path_in("data/flights.csv"), path_in("file:///data/a%20b"), path_in("s3a://lake/pairs")
(PosixPath('data/flights.csv'), PosixPath('/data/a b'), None)
>>> path_in("lake.db.pairs"), is_uri("lake.db.pairs"), is_uri("s3a://lake/pairs")
(None, False, True)
"""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from shoal.frames.errors import TableError

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
_FILE = re.compile(r"\.(parquet|csv|jsonl?|ndjson|toml)(\.gz)?$")
_PART = r"(?:[A-Za-z_]\w*|`[^`]+`)"
_NAME = re.compile(rf"{_PART}(?:\.{_PART}){{0,2}}")

# Copies on this machine's disk, with the texts of their places.
COPIES: dict[Path, str] = {}


def named(text: str) -> str:
    """A text for people, with the places of copies instead of their paths."""
    for copy, place in COPIES.items():
        text = text.replace(str(copy), place)
    return text


def is_uri(text: str) -> bool:
    """Return whether a text is a URI, of any kind."""
    return _SCHEME.match(text) is not None


def path_in(text: str, *, writes: bool = False) -> Path | None:
    """The path that a text names: itself, or that of a URI `file:`; None for another place.

    A text of one to three names with dots between them is a table, unless it ends as a file does or
    is there; to be written, a text of one name is a path. TableError for a file of another machine.
    """
    if text.startswith("file:/"):
        parts = urlsplit(text)
        if parts.netloc not in ("", "localhost"):
            raise TableError(f"{text}: a file of the machine {parts.netloc!r}, not of this one")
        return Path(unquote(parts.path))
    if is_uri(text):
        return None
    path = Path(text)
    is_name = _NAME.fullmatch(text) and not _FILE.search(text)
    if not is_name or (writes and "." not in text) or path.exists():
        return path
    return None
