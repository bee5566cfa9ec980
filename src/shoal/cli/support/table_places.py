"""Places of inputs and outputs on the command line.

| a text | an input | an output |
| --- | --- | --- |
| a path, or a URI `file:` | itself | itself |
| a URI of a store, a table of Delta or Iceberg | a copy in a folder of the command | a folder of \
the command, copied there when the command has worked |
| another URI, a table of Spark's catalog; a store's, with `--engine spark` | Spark's | Spark's |

A command calls `input_place` and `output_place` for each text, and `put_output` at its end. Errors
and lines for people name the place, not the copy (`named`).
"""

from __future__ import annotations

import contextlib
import functools
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from shoal.cli.support.errors import UserError
from shoal.frames.errors import TableError
from shoal.frames.table_places import COPIES, is_uri, last_name, path_in

# Folders that are copied to these places when the command has worked.
_outputs: dict[Path, str] = {}
_SPARKS = "other URIs, and tables of Spark's catalog, need --engine spark"


class SparkPlace(NamedTuple):
    """A URI or a table of the catalog, which Spark reads and writes."""

    text: str

    def __str__(self) -> str:
        return self.text


def input_place(given: str | Path, *, by_spark: bool = False) -> Path | SparkPlace:
    """The place of an input; UserError for a place that cannot be read.

    `given` may be a path from which the command line has taken slashes of a URI.
    """
    text = _with_slashes(str(given))
    path = _path(text)
    if path is None and not by_spark and not is_uri(text) and "." not in text:
        path = Path(text)  # which is not there
    if path is not None and not (path / "_delta_log").is_dir():
        return path
    if path is None and by_spark:
        return SparkPlace(text)
    text = text if path is None else str(path)
    if not _is_store(text):
        raise UserError(f"{text} does not exist; {_SPARKS}")
    from shoal.frames.stores import fetch

    with _mistakes():
        copy = fetch(text, Path(_folder().name))
    COPIES[copy] = text
    return copy


def output_place(
    given: str | Path, *, overwrite: bool, by_spark: bool = False
) -> Path | SparkPlace:
    """The place of an output; UserError for a store's place that is taken, without `overwrite`, and
    for a Delta table as a folder of Parquet.
    """
    text = _with_slashes(str(given))
    path = _path(text, writes=True)
    if path is not None and (path / "_delta_log").is_dir():
        raise UserError(f"{text} is a Delta table; give delta+{path.absolute().as_uri()}")
    if path is not None:
        return path
    if by_spark:
        return SparkPlace(text)
    if not _is_store(text):
        folder = "" if is_uri(text) else f"; a folder is ./{text}"
        raise UserError(f"{text}: {_SPARKS}{folder}")
    from shoal.frames.stores import check_free

    with _mistakes():
        check_free(text, overwrite=overwrite)
    name = last_name(text) or "out"
    copy = Path(tempfile.mkdtemp(dir=_folder().name)) / name
    COPIES[copy] = _outputs[copy] = text
    return copy


def output_folder(given: str | Path, *, overwrite: bool) -> Path:
    """The folder of an output with other files than tables; UserError for a place of tables.

    A name with dots is a folder, unless a catalog of Iceberg begins with it.
    """
    text = str(given)
    is_name = _path(text, writes=True) is None and not is_uri(text)
    if text.startswith("delta+") or (is_name and _is_store(text)):
        raise UserError(f"{text}: a place of tables; give a folder, or a URI of a store")
    if is_name:
        return Path(text)
    place = output_place(given, overwrite=overwrite)
    assert isinstance(place, Path)
    return place


def put_output(out: Path, *, overwrite: bool) -> None:
    """Copy what a command wrote to the place that `output_place` was asked for."""
    text = _outputs.get(out)
    if text is None:
        return
    from shoal.frames.stores import put

    with _mistakes():
        put(out, text, overwrite=overwrite)


def local(given: str | Path) -> Path:
    """The path of an input that Spark does not read, which may be a copy; UserError without one.

    >>> local("file:///data/a%20b"), local(Path("data"))
    (PosixPath('/data/a b'), PosixPath('data'))
    """
    place = input_place(given)
    assert isinstance(place, Path)
    return place


def as_text(place: Path | SparkPlace) -> Path | str:
    """A place as `shoal.spark` takes it."""
    return place if isinstance(place, Path) else place.text


def within(out: str, table: str) -> str:
    """The place of a table within a place of several, for people.

    >>> within("out", "rejects.parquet"), within("lake.flights", "rejects.parquet")
    ('out/rejects.parquet', 'lake.flights.rejects')
    """
    is_schema = path_in(out, writes=True) is None and not is_uri(out)
    return f"{out}.{table.removesuffix('.parquet')}" if is_schema else f"{out.rstrip('/')}/{table}"


def needs_spark(*places: Path | SparkPlace | None) -> str:
    """The first of these places that only Spark knows; empty if there is none."""
    return next((str(each) for each in places if isinstance(each, SparkPlace)), "")


def _with_slashes(text: str) -> str:
    """A URI as it was before it became a path."""
    scheme, colon, rest = text.partition(":/")
    is_short = colon and not rest.startswith("/") and is_uri(text) and not scheme.endswith("file")
    return f"{scheme}://{rest}" if is_short else text


def _path(text: str, *, writes: bool = False) -> Path | None:
    with _mistakes():
        return path_in(text, writes=writes)


def _is_store(text: str) -> bool:
    # Arrow takes a while to import, which paths do not need.
    from shoal.frames.stores import is_store

    with _mistakes():
        return is_store(text)


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """The folder of all copies, removed when the process ends."""
    return tempfile.TemporaryDirectory(prefix="shoal-")


@contextlib.contextmanager
def _mistakes() -> Iterator[None]:
    try:
        yield
    except TableError as error:
        raise UserError(str(error)) from None
