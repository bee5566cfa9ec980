"""Texts that say where a table is: a path, a URI, or a name in Spark's catalog.

>>> path_in("data/flights.csv"), path_in("file:///data/a%20b"), path_in("s3a://lake/pairs")
(PosixPath('data/flights.csv'), PosixPath('/data/a b'), None)
>>> path_in("lake.db.pairs"), is_uri("lake.db.pairs"), is_uri("s3a://lake/pairs")
(None, False, True)
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from shoal.frames.errors import TableError

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
_FILE = re.compile(r"\.(parquet|csv|jsonl?|ndjson|toml)(\.gz)?$")
_PART = r"(?:[A-Za-z_]\w*|`[^`]+`)"
_NAME = re.compile(rf"{_PART}(?:\.{_PART}){{0,2}}")

# A key and its secret in a URI.
_SECRET = re.compile(r"(://)[^/@\s:]*:[^/@\s]*@")

# Copies on this machine's disk, with the texts of their places.
COPIES: dict[Path, str] = {}


def named(text: str) -> str:
    """A text for people: the places of copies instead of their paths, and no secrets in URIs.

    >>> named("s3://key:secret@lake/pairs does not exist")
    's3://***@lake/pairs does not exist'
    """
    for copy, place in COPIES.items():
        text = text.replace(str(copy), place)
    return _SECRET.sub(r"\1***@", text)


def is_uri(text: str) -> bool:
    """Return whether a text is a URI, of any kind."""
    return _SCHEME.match(text) is not None


def last_name(uri: str) -> str:
    """The name of the file or folder that a URI ends with, without options behind `?`.

    >>> last_name("s3://lake/raw/winds.csv?region=eu-west-1"), last_name("s3://lake/pairs/")
    ('winds.csv', 'pairs')
    """
    return PurePosixPath(uri.partition("?")[0]).name


def is_within(place: str, other: str) -> bool:
    """Whether the second of two places is the first, or in it.

    >>> is_within("s3://lake/raw", "s3a://lake/raw/winds.csv"), is_within("lake.db", "lake.db2")
    (True, False)
    """
    one, two = _parts_of(place), _parts_of(other)
    return one == two[: len(one)]


def _parts_of(place: str) -> list[str]:
    """The steps on the way to a place: of its path, or the names of a table."""
    text = named(place).removeprefix("delta+").partition("?")[0]
    path = path_in(text)
    if path is not None:
        return list(path.resolve().parts)
    if not is_uri(text):
        return text.split(".")
    scheme, _, rest = text.partition("://")
    return [scheme.lower().replace("s3a", "s3"), *filter(None, rest.split("/"))]


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
