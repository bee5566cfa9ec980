"""Structures by the brokers' coordinates: a quad grid of the earth, and Tapestry with near tables.

The grid halves the earth by longitude and latitude until each broker has a cell of its own. A topic
that holds a geo URI, as in `weather/geo:48.2,16.4`, has the nearest broker as its root, as in GeoPS
a topic is rooted where it belongs; any other topic is hashed to a cell. In Tapestry each entry of a
table is the nearest broker with the entry's prefix (proximity neighbour selection).

>>> grid = EarthGrid([(48.2, 16.4), (52.5, 13.4), (40.6, -73.8)])
>>> grid.root("weather/geo:40.7,-74.0"), grid.root("weather/geo:49,15")
(2, 0)

Source: DYNATOPS, section 6.2 (Bayeux, GeoPS) and 6.3.1 (Bayeux with PNS); geo URIs: RFC 5870.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import TypeAlias

from shoal.overlays.dynatops.structures.prefixes import Digits, Prefixes, tapestry

# Latitude and longitude, in degrees.
Coordinates: TypeAlias = tuple[float, float]
MAX_LATITUDE, MAX_LONGITUDE = 90.0, 180.0
# Cells of two metres; brokers that share one are told apart by further digits.
_MAX_DEPTH = 24
_NUMBER = r"([-+]?\d{1,3}(?:\.\d{1,15})?)"
_GEO_URI = re.compile(rf"(?:^|/)geo:{_NUMBER},{_NUMBER}(?=$|[/,;])")


def is_on_earth(coordinates: Coordinates) -> bool:
    """Whether both are numbers in their bounds.

    >>> is_on_earth((90.0, -180.0)), is_on_earth((math.nan, 0.0)), is_on_earth((0.0, 181.0))
    (True, False, False)
    """
    latitude, longitude = coordinates
    return abs(latitude) <= MAX_LATITUDE and abs(longitude) <= MAX_LONGITUDE


class EarthGrid(Prefixes):
    """A cell for each broker, at the positions of `coordinates`."""

    def __init__(self, coordinates: Sequence[Coordinates]) -> None:
        self._points = [_on_sphere(each) for each in coordinates]
        super().__init__(_cells(coordinates), 4, self.apart)

    def apart(self, one: int, other: int) -> float:
        """Length of the chord between two positions; the radius is 1."""
        return math.dist(self._points[one], self._points[other])

    def root(self, key: str) -> int:
        place = place_in(key)
        if place is None:
            return super().root(key)
        point = _on_sphere(place)
        return min(range(self.size), key=lambda each: (math.dist(point, self._points[each]), each))


def near_tapestry(coordinates: Sequence[Coordinates], seed: int) -> Prefixes:
    """Random identifiers, and tables that prefer near brokers."""
    points = [_on_sphere(each) for each in coordinates]
    return tapestry(
        len(points), seed, distance=lambda one, other: math.dist(points[one], points[other])
    )


def place_in(topic: str) -> Coordinates | None:
    """The coordinates of a topic's first geo URI; None if it has none that is on earth.

    >>> place_in("geo:48.2,16.4"), place_in("air/geo:-1,2.5;u=35/pm10"), place_in("geo:91,0")
    ((48.2, 16.4), (-1.0, 2.5), None)
    """
    found = _GEO_URI.search(topic)
    if found is None:
        return None
    place = float(found[1]), float(found[2])
    return place if is_on_earth(place) else None


def _cells(coordinates: Sequence[Coordinates]) -> list[Digits]:
    """The shortest identifiers of quadrants that tell all apart."""
    whole = [_quadrants(each, _MAX_DEPTH) for each in coordinates]
    depth = next(
        (end for end in range(1, _MAX_DEPTH) if len({each[:end] for each in whole}) == len(whole)),
        _MAX_DEPTH,
    )
    cells = [each[:depth] for each in whole]
    counts: dict[Digits, int] = {}
    ranks = []
    for cell in cells:
        ranks.append(counts.get(cell, 0))
        counts[cell] = ranks[-1] + 1
    extra = max(counts.values(), default=1) - 1
    more = -(-extra.bit_length() // 2)
    return [
        (*cell, *(rank >> 2 * place & 3 for place in reversed(range(more))))
        for cell, rank in zip(cells, ranks, strict=True)
    ]


def _quadrants(coordinates: Coordinates, depth: int) -> Digits:
    """Which half of the latitude and of the longitude, again and again.

    >>> _quadrants((48.2, 16.4), 2), _quadrants((-90.0, -180.0), 2)
    ((3, 2), (0, 0))
    """
    latitude, longitude = coordinates
    most = 2**depth - 1
    y = min(most, int((latitude + MAX_LATITUDE) / (2 * MAX_LATITUDE) * 2**depth))
    x = min(most, int((longitude + MAX_LONGITUDE) / (2 * MAX_LONGITUDE) * 2**depth))
    return tuple(2 * (y >> bit & 1) + (x >> bit & 1) for bit in reversed(range(depth)))


def _on_sphere(coordinates: Coordinates) -> tuple[float, float, float]:
    latitude, longitude = map(math.radians, coordinates)
    across = math.cos(latitude)
    return across * math.cos(longitude), across * math.sin(longitude), math.sin(latitude)
