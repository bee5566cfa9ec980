r"""JSON lines as rows: an object per line, whose fields are the columns of a declaration.

A value is the text that stands there, and means what that text means in a CSV file: `12.50`,
`true` and `"12.50"` alike; a list or an object is its text.  What is null or not there is missing,
and so is NaN, which Python writes.  The column `position.lat` is the field of that name, or else
the field `lat` of the object `position`.

>>> Reader(["at", "position.lat"]).read('{"at": 3.50, "position": {"lat": "48.4", "lon": null}}')
['3.50', '48.4']
>>> Reader(["at"]).read('at,position') is None
True
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from shoal.frames.packed_files import is_gzip, unpacking
from shoal.pipeline.sources.headers import SourceError, check_plain

ENDINGS = (".json", ".jsonl", ".ndjson")
NOT_JSON = "not a JSON object on one line"

_BYTE_ORDER_MARK = "\ufeff"
# Texts, which stay, and what Python and JavaScript write of numbers that JSON has not.
_NO_JSON = re.compile(r'"(?:[^"\\]|\\.)*"|-?\b(?:NaN|Infinity)\b')


def is_json(file: Path) -> bool:
    """Whether the name says so, packed or not."""
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
    check_plain(file, start, ".jsonl.gz")
    if start.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"["):
        raise SourceError(
            f"{file}: is one JSON list; ingest reads an object per line (jq -c '.[]' makes them)"
        )


class Reader:
    """Takes the `columns` out of lines."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._paths = [(name, name.split(".")) for name in columns]
        self._decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])

    def read(self, line: str) -> list[str | None] | None:
        """The text of each column, None where it is missing; None for what is no object."""
        text = line.removeprefix(_BYTE_ORDER_MARK)
        try:
            return self._read(text)
        except (msgspec.DecodeError, RecursionError):
            mended = _NO_JSON.sub(_as_json, text)
        try:
            return None if mended == text else self._read(mended)
        except (msgspec.DecodeError, RecursionError):
            return None

    def _read(self, line: str) -> list[str | None]:
        fields = self._decoder.decode(line)
        return [self._text(self._find(fields, name, path)) for name, path in self._paths]

    def _find(
        self, fields: dict[str, msgspec.Raw], name: str, path: list[str]
    ) -> msgspec.Raw | None:
        found = fields.get(name)
        if found is not None or len(path) == 1:
            return found
        for place, part in enumerate(path, 1):
            found = fields.get(part)
            if found is None or place == len(path):
                return found
            if not bytes(found).startswith(b"{"):
                return None
            fields = self._decoder.decode(found)
        return None

    def _text(self, value: msgspec.Raw | None) -> str | None:
        if value is None:
            return None
        text = bytes(value)
        if text.startswith(b'"'):
            return msgspec.json.decode(text, type=str)
        return None if text == b"null" else text.decode()


def _as_json(found: re.Match[str]) -> str:
    said = found[0]
    return said if said.startswith('"') else "null" if "NaN" in said else f'"{said}"'
