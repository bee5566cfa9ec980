"""Daily stock quotes, each stock its own publisher, as the relocation paper published them.

Read are CSV and Parquet with the columns symbol, date, open, high, low, close, volume, and text
files with one PADRES publication a line.  Four attributes are derived, for every form alike:
`openClose%Diff` = (close - open) / open and `highLow%Diff` = (high - low) / low, rounded to three
places, `closeEqualsLow` and `closeEqualsHigh` as the strings 'true' and 'false'.  The paper prints
no formula: these give the tuple it prints (highLow%Diff 0.014; dividing by high gives 0.013).

>>> plain_date("5-Sep-96"), plain_date("1996-09-05"), plain_date("5-Sep-04")
('1996-09-05', '1996-09-05', '2004-09-05')

Source: Cheung and Jacobsen, dynamic publisher relocation (POP, GRAPE), section 5.1.
"""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types

from shoal.frames.packed_files import is_gzip, unpacking
from shoal.language.errors import FilterSyntaxError
from shoal.language.padres import parse_publication
from shoal.model import Value
from shoal.pipeline.sources.declaration import decode_mapping
from shoal.pipeline.sources.headers import SourceError
from shoal.pipeline.sources.raw_rows import Fields, RowSource, TextSource, check_files, open_source
from shoal.pipeline.sources.splits import text_splits

_MAPPING_TEXT = """
publisher = ["symbol"]
time = { column = "date", format = "yyyy-MM-dd" }
publish = [
  "class", "symbol", "open", "high", "low", "close", "volume", "date",
  "openClose%Diff", "highLow%Diff", "closeEqualsLow", "closeEqualsHigh",
]

[columns]
symbol = "string"
open = "double"
high = "double"
low = "double"
close = "double"
volume = "integer"

[derived]
class = { type = "string", expression = "'STOCK'" }
date = { type = "string", expression = "date_format(event_time, 'd-MMM-yy')" }
closeEqualsLow = { type = "string", expression = "close = low" }
closeEqualsHigh = { type = "string", expression = "close = high" }

[derived."openClose%Diff"]
type = "double"
expression = "round(try_divide(close - open, open), 3)"

[derived."highLow%Diff"]
type = "double"
expression = "round(try_divide(high - low, low), 3)"
"""
MAPPING = decode_mapping(_MAPPING_TEXT, "quotes")

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
# As POSIX reads years of two digits: 69 to 99 are of the last century.
_FIRST_YEAR_OF_1900S = 69
_FIELDS = MAPPING.file_columns


def open_quotes(files: Sequence[Path]) -> RowSource:
    """Quote files of one form; parse them by `MAPPING`."""
    check_files(files)
    padres = [file for file in files if file.is_file() and is_padres(file)]
    if not padres:
        return open_source(files, _FIELDS)
    if len(padres) < len(files):
        raise SourceError("PADRES text and tables of quotes cannot be mixed in one command")
    splits = text_splits(files)
    return TextSource(splits, dict.fromkeys((split.file for split in splits), PadresFields()))


def is_padres(file: Path) -> bool:
    """Return whether a file has publications as PADRES writes them, and no table."""
    opener = gzip.open if is_gzip(file) else open
    with unpacking(file, SourceError), opener(file, "rb") as opened:
        start: bytes = opened.read(64)
    return start.lstrip().startswith(b"[")


class PadresFields:
    """Takes quotes out of PADRES' text, a publication a line."""

    has_header = False

    def read(self, texts: pa.Array) -> Fields:
        """Return the fields of these lines."""
        read = [_read_line(str(text)) for text in texts.to_pylist()]
        columns = {
            name: pa.array([row.get(name) for _, row in read], pa.string()) for name in _FIELDS
        }
        return Fields(columns, pa.array([broken for broken, _ in read], pa.string()))


def _read_line(text: str) -> tuple[str | None, dict[str, str]]:
    try:
        attributes = parse_publication(text)
    except FilterSyntaxError as error:
        return str(error).partition("\n")[0], {}
    row = {name: _text(attributes[name]) for name in _FIELDS if name in attributes}
    if "date" in row:
        row["date"] = plain_date(row["date"])
    return None, row


def _text(value: Value) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def plain_date(text: str) -> str:
    """`5-Sep-96` as `1996-09-05`; any other text as it is."""
    day, _, rest = text.partition("-")
    month, _, year = rest.partition("-")
    if not (day.isdigit() and month in _MONTHS and year.isdigit() and len(year) == 2):
        return text
    century = 1900 if int(year) >= _FIRST_YEAR_OF_1900S else 2000
    return f"{century + int(year)}-{_MONTHS.index(month) + 1:02}-{int(day):02}"
