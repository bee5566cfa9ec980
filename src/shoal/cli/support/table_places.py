"""Places of tables on the command line: paths and URIs `file:`; for Spark other URIs and tables."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from shoal.cli.support.errors import UserError
from shoal.frames.errors import TableError
from shoal.frames.table_places import is_uri, path_in


class SparkPlace(NamedTuple):
    """A URI or a table of the catalog, which only Spark reads and writes."""

    text: str

    def __str__(self) -> str:
        return self.text


def local(path: Path) -> Path:
    """A path, also of a URI `file:`, from which the command line has taken slashes.

    UserError for another URI.

    >>> local(Path("file:///data/a%20b")), local(Path("data"))
    (PosixPath('/data/a b'), PosixPath('data'))
    """
    text = str(path)
    if not is_uri(text) or path.exists():
        return path
    found = path_in(text)
    if found is None:
        raise UserError(
            f"{text}: this command reads and writes paths; in Python the functions of shoal.spark "
            "take URIs and tables"
        )
    return found


def read_place(text: str, *, writes: bool = False) -> Path | SparkPlace:
    """The place that a text names; UserError for a file of another machine."""
    try:
        path = path_in(text, writes=writes)
    except TableError as error:
        raise UserError(str(error)) from None
    return SparkPlace(text) if path is None else path
