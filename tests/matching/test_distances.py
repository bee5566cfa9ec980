"""Filters of places within a distance, by bands of the map and without."""

from __future__ import annotations

import math
import random

import pytest

from shoal.language import FilterSyntaxError, parse
from shoal.matching import MatchIndex, covers
from shoal.model.expressions.functions import EARTH_RADIUS_M

# Poles, the line at 180 degrees, and distances up to half of the way round.
LATITUDES = (-90, -89.9999, -45.5, 0, 33.3, 89.5, 90)
LONGITUDES = (-180, -179.99, -60, 0, 13.4, 179.5, 180)
METRES = (0, 10, 1_000, 250_000, 3e6, 2e7, 1e9)


def metres_between(lat: float, lon: float, north: float, east: float) -> float:
    """The length of the shortest way on a sphere."""
    lat, lon, north, east = map(math.radians, (lat, lon, north, east))
    half = math.sin((lat - north) / 2) ** 2
    half += math.cos(lat) * math.cos(north) * math.sin((lon - east) / 2) ** 2
    return 2 * EARTH_RADIUS_M * math.asin(min(1.0, math.sqrt(half)))


def test_bands_leave_out_no_place_that_is_near_enough() -> None:
    chance = random.Random(7)
    fences, index = {}, MatchIndex()
    for number in range(400):
        north, east = chance.choice(LATITUDES), chance.choice(LONGITUDES)
        fences[number] = north, east, chance.choice(METRES)
        places = ("lat, lon", f"{north}, {east}")
        near, far = places if number % 2 else reversed(places)
        index.add(number, parse(f"distance({near}, {far}) <= {fences[number][2]}"))
    found = 0
    for _ in range(300):
        spread = chance.choice((0, 1e-5, 0.01, 3))
        lat = chance.choice(LATITUDES) + chance.uniform(-spread, spread)
        lon = chance.choice(LONGITUDES) + chance.uniform(-spread, spread)
        matching = set(index.match({"lat": lat, "lon": lon}))
        if abs(lat) > 90 or abs(lon) > 180:
            assert not matching
            continue
        for number, (north, east, metres) in fences.items():
            away = metres_between(lat, lon, north, east)
            # Rounding may decide beside the bound, and at the other end of the earth.
            if abs(away - metres) > 1 and away < 2e7:
                assert (number in matching) == (away <= metres)
        found += len(matching)
    assert found > 10_000


def test_a_conjunction_may_have_more_tests_and_covering_is_sound() -> None:
    berlin = parse("distance(lat, lon, 52.5, 13.4) <= 5000 AND kind = 'tram'")
    index = MatchIndex()
    index.add("s", berlin)
    assert index.match({"lat": 52.51, "lon": 13.41, "kind": "tram"}) == ["s"]
    assert index.match({"lat": 52.51, "lon": 13.41, "kind": "bus"}) == []
    assert index.match({"lat": 52.6, "lon": 13.41, "kind": "tram"}) == []
    assert covers(parse("lat BETWEEN 52 AND 53"), berlin)
    assert not covers(parse("lat BETWEEN 52.48 AND 52.52"), berlin)


def test_a_distance_is_not_negative() -> None:
    with pytest.raises(FilterSyntaxError, match="a number of metres"):
        parse("distance(lat, lon, 52.5, 13.4) <= -5")
