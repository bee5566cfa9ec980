"""A user's own subscriptions and publishers, for a workload: files of Parquet, CSV or JSON lines.

| subscriptions | |
| --- | --- |
| `id`, `filter` | name, and filter in SQL |
| `broker` | the subscriber's broker; without one, any |
| `client` | the subscriber; without one, a client of its own |
| `from`, `to` | when it comes and goes: µs since 1970 UTC, or ISO 8601; without, it stays |
| `every`, `changed` | rate and change, as of `$every` and `$changed`; without, it gets all |

| publishers | |
| --- | --- |
| `publisher` | its name in the publications; others are left out |
| `broker` | the publisher's first broker; without one, any |
| `advertisement` | its advertisement, in SQL; without one, the constant parts of its publications |
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from shoal.frames.errors import TableError
from shoal.frames.packed_files import unpacked_bytes
from shoal.frames.reading import read_table_file
from shoal.frames.spelling import unknown_column
from shoal.frames.times import instant
from shoal.language import FilterSyntaxError, parse
from shoal.language.conflation_rules import read_conflation

Time = int | str | None


class OwnSubscription(
    msgspec.Struct, frozen=True, kw_only=True, rename={"from_time": "from", "to_time": "to"}
):
    """One row; times as they are in the file until `interval_us` reads them."""

    id: str
    filter: str
    broker: str = ""
    client: str = ""
    from_time: Time = None
    to_time: Time = None
    every: str = ""
    changed: str = ""

    @property
    def interval_us(self) -> tuple[int | None, int | None]:
        """Return when it comes and goes, in µs since 1970; ValueError for a text that is no
        time.
        """
        begins, ends = _time_us(self.from_time), _time_us(self.to_time)
        if begins is not None and ends is not None and begins >= ends:
            raise ValueError("`to` is not after `from`")
        return begins, ends


class OwnPublisher(msgspec.Struct, frozen=True, kw_only=True):
    publisher: str
    broker: str = ""
    advertisement: str = ""


Row = TypeVar("Row", OwnSubscription, OwnPublisher)


def read_own_subscriptions(path: Path) -> list[OwnSubscription]:
    """The subscriptions of a file, ids unique; TableError names the row that cannot be."""
    rows = _read(path, OwnSubscription)
    _check_unique(path, [row.id for row in rows], "id")
    for place, row in enumerate(rows, 1):
        where = f"{path}, row {place}, {row.id!r}"
        _check_filter(row.filter, f"{where}: filter")
        try:
            _ = row.interval_us
            read_conflation(row.every, row.changed)
        except ValueError as error:
            raise TableError(f"{where}: {error}") from None
    return rows


def read_own_publishers(path: Path) -> list[OwnPublisher]:
    """The publishers of a file, each once; TableError names the row that cannot be."""
    rows = _read(path, OwnPublisher)
    _check_unique(path, [row.publisher for row in rows], "publisher")
    for place, row in enumerate(rows, 1):
        if row.advertisement:
            where = f"{path}, row {place}, {row.publisher!r}: advertisement"
            _check_filter(row.advertisement, where)
    return rows


def _read(path: Path, kind: type[Row]) -> list[Row]:
    known = [field.encode_name for field in msgspec.structs.fields(kind)]
    required = [field.encode_name for field in msgspec.structs.fields(kind) if field.required]
    found = []
    for place, data in enumerate(_rows(path), 1):
        for name in data:
            if name not in known:
                raise TableError(f"{path}: {unknown_column(name, known)}")
        given = {name: value for name, value in data.items() if value is not None}
        for name in required:
            if name not in given:
                raise TableError(f"{path}, row {place}: {name} is missing")
        try:
            found.append(msgspec.convert({k: _plain(k, v) for k, v in given.items()}, kind))
        except msgspec.ValidationError as error:
            raise TableError(f"{path}, row {place}: {error}") from None
    if not found:
        raise TableError(f"{path}: has no rows")
    return found


def _plain(name: str, value: Any) -> Any:
    """Names that are numbers are names all the same; times of Parquet are written out."""
    if name in ("from", "to"):
        return value.isoformat() if isinstance(value, date) else value
    return str(value)


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    if Path(path.name.removesuffix(".gz")).suffix not in (".jsonl", ".json"):
        yield from read_table_file(path, inside="subscriptions.parquet").to_pylist()
        return
    if not path.exists():
        raise TableError(f"{path} does not exist")
    try:
        content = unpacked_bytes(path, ".jsonl.gz", TableError)
        lines = content.removeprefix(codecs.BOM_UTF8).splitlines()
    except OSError as error:
        raise TableError(f"{path}: cannot be read ({error.strerror or error})") from None
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                yield msgspec.json.decode(line, type=dict[str, Any])
            except UnicodeDecodeError:
                raise TableError(f"{path}, line {number}: not UTF-8 text") from None
            except msgspec.DecodeError as error:
                raise TableError(f"{path}, line {number}: {error}") from None


def _check_unique(path: Path, names: list[str], column: str) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise TableError(f"{path}: {column} {name!r} is there more than once")
        seen.add(name)


def _check_filter(text: str, where: str) -> None:
    try:
        parse(text)
    except FilterSyntaxError as error:
        raise TableError(f"{where}: {error}") from None


def _time_us(time: Time) -> int | None:
    return instant(time) if isinstance(time, str) else time
