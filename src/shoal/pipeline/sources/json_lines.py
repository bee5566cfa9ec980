r"""JSON lines as rows: an object per line, whose fields are the columns of a declaration.

A value is its text in the file, with that text's meaning in a CSV file: `12.50`, `true` and
`"12.50"` alike; a list or an object is its text. A null or absent field is missing, and so are NaN,
which Python and C write, and a text with half a surrogate pair; other tokens that are no JSON value
(`Infinity`, `01`) are texts. Names are those of `shoal.attributes`: the column `position.lat` is
the field of that name, or else the field `lat` of the object `position`.

>>> line = '{"at": 3.50, "position": {"lat": "48.4", "lon": null}}'
>>> JsonLinesReader(["at", "position.lat"]).read(line)
['3.50', '48.4']
>>> JsonLinesReader(["at"]).read('at,position') is None
True
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import msgspec

from shoal.attributes.json_texts import TOKENS, is_scalar
from shoal.attributes.objects import is_text
from shoal.frames.packed_files import check_plain, is_gzip, unpacking
from shoal.pipeline.sources.headers import SourceError

ENDINGS = (".json", ".jsonl", ".ndjson")
NOT_JSON = "not a JSON object on one line"

_BYTE_ORDER_MARK = "\ufeff"
_AROUND = " \t\r\0"
_NAN = re.compile("[+-]?nan", re.IGNORECASE)
# Matches the invalid parts of a string in JSON: control characters, and perhaps half a surrogate
# pair.
_ODD = re.compile(r"[\x00-\x1f]|\\u[dD][89a-fA-F]")
_NAME = re.compile(r"\s*:")


def is_json(file: Path) -> bool:
    """Return whether the name says so, packed or not."""
    return Path(file.name.removesuffix(".gz")).suffix in ENDINGS


def kind_of(files: Sequence[Path]) -> str:
    """CSV, JSON or Parquet, by the endings of the names (a folder is Parquet).

    SourceError for files of several kinds.
    """
    kinds = {
        "Parquet"
        if file.is_dir() or file.suffix == ".parquet"
        else "JSON"
        if is_json(file)
        else "CSV"
        for file in files
    }
    if len(kinds) > 1:
        raise SourceError(f"{' and '.join(sorted(kinds))} files cannot be mixed in one command")
    return kinds.pop()


def check_lines(file: Path) -> None:
    """SourceError for a file that is one list over all its lines."""
    opener = gzip.open if is_gzip(file) else open
    with unpacking(file, SourceError), opener(file, "rb") as opened:
        start: bytes = opened.read(64)
    check_plain(file, start, ".jsonl.gz", SourceError)
    if start.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"["):
        raise SourceError(
            f"{file}: is one JSON list; ingest reads an object per line (jq -c '.[]' makes them)"
        )


_Fields = dict[str, msgspec.Raw]


class _Split(NamedTuple):
    """A name with dots as that of an object and of a field in it, which may be split again."""

    first: str
    rest: str
    splits: tuple[_Split, ...]


_Splits = tuple[_Split, ...]


@lru_cache(1_024)
def _splits(name: str) -> _Splits:
    parts = name.split(".")
    pairs = [(".".join(parts[:n]), ".".join(parts[n:])) for n in range(1, len(parts))]
    return tuple(_Split(first, rest, _splits(rest)) for first, rest in pairs)


class JsonLinesReader:
    """Takes the `columns` out of lines."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = [(name, _splits(name) or None) for name in columns]
        self._decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])

    def read(self, line: str) -> list[str | None] | None:
        """The text of each column, None where it is missing; None for a line that is no object."""
        text = line.removeprefix(_BYTE_ORDER_MARK).strip(_AROUND)
        try:
            return self._read(text)
        except (msgspec.DecodeError, RecursionError):
            if not text.startswith("{"):
                return None
        try:
            return self._read(TOKENS.sub(_as_json, text))
        except (msgspec.DecodeError, RecursionError):
            return None

    def _read(self, line: str) -> list[str | None]:
        fields = self._decoder.decode(line)
        return [
            _text(fields.get(name) if splits is None else self._find(fields, name, splits))
            for name, splits in self._columns
        ]

    def _find(self, fields: _Fields, name: str, splits: _Splits) -> msgspec.Raw | None:
        """The outermost value of a name with dots; of those that are as deep the first."""
        found = fields.get(name)
        if found is not None and bytes(found) != b"null":
            return found
        level = [(fields, splits)]
        while level:
            inner: list[tuple[_Fields, _Splits]] = []
            for within, ways in level:
                there = [way for way in ways if way.first in within]
                if len(there) > 1:
                    order = list(within)
                    there.sort(key=lambda way: order.index(way.first))
                for way in there:
                    value = bytes(within[way.first])
                    if not value.startswith(b"{"):
                        continue
                    own = self._decoder.decode(value)
                    found = own.get(way.rest)
                    if found is not None and bytes(found) != b"null":
                        return found
                    if way.splits:
                        inner.append((own, way.splits))
            level = inner
        return None


def _text(value: msgspec.Raw | None) -> str | None:
    if value is None:
        return None
    text = bytes(value)
    if text.startswith(b'"'):
        return msgspec.json.decode(text, type=str)
    return None if text == b"null" else text.decode()


def _as_json(found: re.Match[str]) -> str:
    """Return the replacement of a token that may be no JSON."""
    token = found[0]
    if token.startswith(":"):
        return ":null"
    is_name = _NAME.match(found.string, found.end()) is not None
    if token.startswith('"'):
        return _string(token, is_name=is_name) if _ODD.search(token) else token
    if is_name or is_scalar(token):
        return token
    return "null" if _NAN.fullmatch(token) else json.dumps(token)


def _string(token: str, *, is_name: bool) -> str:
    try:
        text = json.loads(token, strict=False)
    except ValueError:
        return token
    if is_text(text):
        return json.dumps(text)
    return json.dumps(text.encode(errors="replace").decode()) if is_name else "null"
