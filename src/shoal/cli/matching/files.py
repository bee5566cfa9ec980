"""The JSON lines that `shoal match` reads; every broken line becomes a complaint that names it.

A line is one JSON object with exactly its keys.  Attributes are read as brokers read those of a
payload (see `shoal.attributes`): the fields of inner objects have names with dots, and a value that
no attribute can be counts as missing, which a remark says.  Subscription ids are unique; each
publication line is a publication of its own, whatever its id.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import rich.progress
from rich.console import Console

from shoal.attributes import MAX_DEPTH, flat_attributes
from shoal.cli.support.errors import UserError
from shoal.model import Filter, Value
from shoal.model.expressions.lists import list_attribute

STDIN = Path("-")
TABLE_ENDINGS = (".parquet", ".csv", ".csv.gz")
_SOURCE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class ReadSubscription(NamedTuple):
    """One line of the subscriptions: `text` is the filter in SQL, whatever it was read from.

    Ids of a table may be integers.
    """

    id: str | int
    filter: Filter
    text: str


class ReadPublication(NamedTuple):
    """One line of the publications, or a table's row; a row's name need not be text."""

    id: object
    attributes: dict[str, Value]


Record = TypeVar("Record")
Item = TypeVar("Item")


class ReadFile(NamedTuple, Generic[Record]):
    """Records of a file, errors in its other lines, and parts of records that do not count."""

    records: list[Record]
    complaints: list[str]
    remarks: Sequence[str] = ()


def is_table(path: Path) -> bool:
    """Return whether a path has no lines: a folder, Parquet or CSV by its name, or a source."""
    return path.is_dir() or path.name.endswith(TABLE_ENDINGS) or is_source(path)


def is_source(path: Path) -> bool:
    """Return whether it is no path but a Python data source, `module:Class`.

    >>> is_source(Path("my.sources:Positions")), is_source(Path("positions.jsonl"))
    (True, False)
    """
    return _SOURCE.fullmatch(str(path)) is not None and not path.exists()


def read_subscriptions(path: Path, *, padres: bool) -> ReadFile[ReadSubscription]:
    """The subscriptions of a file; UserError if there is no such file."""
    seen: dict[str, int] = {}

    def read(line: Mapping[str, Any], number: int) -> ReadSubscription:
        _check_keys(line, {"id": str, "filter": str})
        _check_characters(line["id"], line["filter"])
        if line["id"] in seen:
            raise ValueError(f"id {line['id']!r} stands in line {seen[line['id']]} already")
        filter, text = _read_filter(line["filter"], padres=padres)
        seen[line["id"]] = number
        return ReadSubscription(line["id"], filter, text)

    return _read_file(path, read)


def read_publications(path: Path) -> ReadFile[ReadPublication]:
    """The publications of a file, or of stdin for `-`; UserError if there is no such file."""
    from shoal.language.errors import shorten

    missing: list[str] = []

    def read(line: Mapping[str, Any], number: int) -> ReadPublication:
        _check_keys(line, {"id": str, "attributes": dict})
        _check_characters(line["id"])
        attributes = flat_attributes(line["attributes"], reserved=True)
        missing.extend(
            f"{_name(path)}:{number}: {shorten(name)}"
            for name in _missing_names(line["attributes"], attributes)
        )
        return ReadPublication(line["id"], attributes)

    found = _read_file(path, read)
    if not missing:
        return found
    more = f", and {len(missing) - 1:,} more" if len(missing) > 1 else ""
    remark = f"{missing[0]} is no value that an attribute can have, and counts as missing{more}"
    return found._replace(remarks=[remark])


def _missing_names(
    fields: Mapping[str, Any], found: Mapping[str, Value], prefix: str = "", depth: int = 1
) -> Iterator[str]:
    """The names of values that are there and are no attributes."""
    for name, value in fields.items():
        full = prefix + name
        if isinstance(value, dict) and depth < MAX_DEPTH:
            yield from _missing_names(value, found, f"{full}.", depth + 1)
        elif isinstance(value, list) and list_attribute(full) in found:
            continue
        elif value is not None and full not in found:
            yield full


def _read_filter(text: str, *, padres: bool) -> tuple[Filter, str]:
    from shoal.language import FilterSyntaxError, format_filter, parse
    from shoal.language.padres import parse_subscription

    try:
        if padres:
            filter = parse_subscription(text)
            return filter, format_filter(filter)
        return parse(text), text
    except FilterSyntaxError as error:
        raise ValueError(f"filter, {error}") from None


def _check_keys(line: Mapping[str, Any], wanted: Mapping[str, type]) -> None:
    for key, kind in wanted.items():
        if key not in line:
            raise ValueError(f"key {key!r} is missing")
        if not isinstance(line[key], kind):
            raise ValueError(f"key {key!r} must be {'a string' if kind is str else 'an object'}")
    for key in line:
        if key not in wanted:
            raise ValueError(f"unknown key {key!r}; the keys are {' and '.join(wanted)}")


def _read_file(path: Path, read: Callable[[Mapping[str, Any], int], Record]) -> ReadFile[Record]:
    """Each line that is not blank, read or complained about."""
    records: list[Record] = []
    complaints: list[str] = []
    for number, line in track(_lines(path), f"reading {_name(path)}"):
        try:
            records.append(read(_parse_line(line), number))
        except ValueError as error:
            complaints.append(f"{_name(path)}:{number}: {error}")
    return ReadFile(records, complaints)


def kind_complaints(
    subscriptions: Sequence[ReadSubscription],
    publications: Sequence[ReadPublication],
    known: Sequence[str] = (),
) -> Iterator[str]:
    """Return filters' tests that no publication can pass, a line per attribute.

    `known` are attributes that there are beside those that the publications here have.
    """
    from shoal.frames.kind_checks import CheckedKind, complaints

    tests = CheckedKind.of(each.filter for each in subscriptions)
    return complaints(tests, [each.attributes for each in publications], known)


def warn(complaints: Iterable[str]) -> None:
    """On stderr: it may be meant, and it may explain why nothing matches."""
    for complaint in complaints:
        print(f"shoal: warning: {complaint}", file=sys.stderr)


def _name(path: Path) -> str:
    return "stdin" if path == STDIN else str(path)


def track(items: Sequence[Item], what: str) -> Iterable[Item]:
    """The items, with a bar on stderr while they are gone through, on a terminal."""
    console = Console(stderr=True)
    return rich.progress.track(
        items, what, console=console, transient=True, disable=not console.is_terminal
    )


def _lines(path: Path) -> list[tuple[int, bytes]]:
    """The lines that are not blank, numbered from 1."""
    try:
        content = sys.stdin.buffer.read() if path == STDIN else _bytes(path)
    except FileNotFoundError:
        raise UserError(f"{path}: there is no such file") from None
    except IsADirectoryError:
        raise UserError(f"{path} is a folder; give a file of JSON lines") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None
    # Only line feeds end a line: JSON strings may hold the other separators.
    lines = enumerate(content.removeprefix(BYTE_ORDER_MARK).split(b"\n"), start=1)
    return [(number, line) for number, line in lines if line.strip()]


def _bytes(path: Path) -> bytes:
    from shoal.frames.packed_files import unpacked_bytes

    return unpacked_bytes(path, ".jsonl.gz", UserError)


def _parse_line(line: bytes) -> Mapping[str, Any]:
    try:
        text = line.decode("utf-8").strip()
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 (byte {error.start + 1} of the line)") from None
    try:
        value = json.loads(
            text, object_pairs_hook=_unique, parse_constant=float, parse_int=_integer
        )
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg} (column {error.colno})") from None
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError("the line is not a JSON object {...}")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"key {key!r} stands twice")
        found[key] = value
    return found


def _check_characters(*texts: str) -> None:
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        raise ValueError("a string holds half a surrogate pair, which is no character") from None


def _integer(digits: str) -> int | float:
    # Python refuses to convert thousands of digits; past 64 bits they are doubles anyway.
    return int(digits) if len(digits) <= len(str(-(2**63))) else float(digits)
