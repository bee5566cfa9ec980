"""Positions of brokers: on a map of the United States, on a plain map, or as a tree.

Brokers that all lie in the United States are drawn by Albers' equal-area conic projection with
Alaska, Hawaii and Puerto Rico as insets (shown when a broker is there); other coordinates are
drawn to scale without outlines; without coordinates the overlay itself is drawn, its centre in
the middle.  Brokers too close to tell apart are moved apart, the least that shows them all.

>>> place({"SEA": (47.45, -122.31), "JFK": (40.64, -73.78)}, [("JFK", "SEA")]).kind
'united-states'
>>> place({"left": None, "right": None}, [("left", "right")]).kind
'tree'
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from shoal.report.drawing.layout import Point, circles, fit, spread, tree_layout

WIDTH, HEIGHT = 840, 500
MARGIN = 36

# Scale of the contiguous states: they fill the drawing's width.
SCALE = 1040.0
# Points of an outline closer than this on the drawing are not worth their bytes.
OUTLINE_STEP = 1.1


class Conic(NamedTuple):
    """Albers' equal-area conic projection of one region, and where its centre is drawn."""

    longitude: float
    latitude: float
    parallels: tuple[float, float]
    scale: float
    x: float
    y: float

    def project(self, latitude: float, longitude: float) -> Point:
        first, second = (math.radians(parallel) for parallel in self.parallels)
        cone = (math.sin(first) + math.sin(second)) / 2
        constant = math.cos(first) ** 2 + 2 * cone * math.sin(first)

        def radius(degrees: float) -> float:
            return math.sqrt(constant - 2 * cone * math.sin(math.radians(degrees))) / cone

        angle = cone * math.radians((longitude - self.longitude + 180) % 360 - 180)
        return (
            self.x + self.scale * radius(latitude) * math.sin(angle),
            self.y + self.scale * (radius(latitude) * math.cos(angle) - radius(self.latitude)),
        )


class Region(NamedTuple):
    """A part of the country with its own place on the drawing; bounds in degrees."""

    states: tuple[str, ...]
    south: float
    north: float
    west: float
    east: float
    projection: Conic

    def holds(self, latitude: float, longitude: float) -> bool:
        return self.south <= latitude <= self.north and self.west <= longitude <= self.east


CONTIGUOUS = Region(
    (), 24.0, 49.6, -125.5, -66.0, Conic(-96.6, 38.7, (29.5, 45.5), SCALE, 421, 245)
)
INSETS = (
    Region(
        ("AK",), 50.5, 72.0, -180.0, -129.0,
        Conic(-156.0, 58.5, (55, 65), SCALE * 0.35, 118, 454),
    ),
    Region(
        ("HI",), 18.0, 23.0, -161.0, -154.0, Conic(-160.0, 19.9, (8, 18), SCALE, 224, 465)
    ),
    Region(
        ("PR",), 17.5, 18.8, -68.2, -64.2, Conic(-66.0, 18.0, (8, 18), SCALE, 772, 476)
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class MapPlacement:
    """Each broker's position, the outlines behind, and notes for the reader."""

    kind: str
    points: Mapping[str, Point]
    outlines: Sequence[str]
    note: str


def place(
    coordinates: Mapping[str, tuple[float, float] | None],
    links: Sequence[tuple[str, str]],
    inside: Collection[str] = (),
) -> MapPlacement:
    """Place brokers, given (latitude, longitude) in degrees or None by broker.

    Without places and without links they are drawn in a circle, those `inside` in another one.
    """
    known = {broker: pair for broker, pair in coordinates.items() if pair is not None}
    if not known or len(known) < len(coordinates):
        missing = len(coordinates) - len(known)
        if not links and len(coordinates) > 1:
            return MapPlacement(
                kind="circles",
                points=spread(_fitted(circles(sorted(coordinates), inside), stretch=True)),
                outlines=(),
                note=f"{missing} brokers have no coordinates, so they are drawn in a circle.",
            )
        return MapPlacement(
            kind="tree",
            points=spread(_fitted(tree_layout(sorted(coordinates), links), stretch=True)),
            outlines=(),
            note=f"{missing} brokers have no coordinates, so the overlay is drawn from its centre.",
        )
    regions = {broker: _region(*pair) for broker, pair in known.items()}
    used = [region for region in (CONTIGUOUS, *INSETS) if region in regions.values()]
    if None not in regions.values() and CONTIGUOUS in used:
        points = {
            broker: region.projection.project(*known[broker])
            for broker, region in regions.items()
            if region is not None
        }
        return MapPlacement(
            kind="united-states", points=spread(points), outlines=_outlines(used),
            note="Brokers closer than a few pixels are drawn apart.",
        )  # fmt: skip
    middle = math.radians(sum(latitude for latitude, _ in known.values()) / len(known))
    plane = {
        broker: (longitude * math.cos(middle), -latitude)
        for broker, (latitude, longitude) in known.items()
    }
    return MapPlacement(
        kind="plane", points=spread(_fitted(plane)), outlines=(),
        note="Brokers closer than a few pixels are drawn apart.",
    )  # fmt: skip


def _fitted(points: Mapping[str, Point], *, stretch: bool = False) -> dict[str, Point]:
    return fit(points, WIDTH, HEIGHT, MARGIN, stretch=stretch)


def _region(latitude: float, longitude: float) -> Region | None:
    for region in (CONTIGUOUS, *INSETS):
        if region.holds(latitude, longitude):
            return region
    return None


def _outlines(regions: Sequence[Region]) -> list[str]:
    """SVG path data, one per state of these regions."""
    from bokeh_sampledata.us_states import data

    inset_states = {state: region for region in INSETS for state in region.states}
    outlines = []
    for code in sorted(data):
        region = inset_states.get(code, CONTIGUOUS)
        if region in regions:
            state = data[code]
            outlines.append(_path(zip(state["lats"], state["lons"], strict=True), region))
    return [path for path in outlines if path]


def _path(points: Iterable[tuple[float, float]], region: Region) -> str:
    """Rings are separated by NaN; those off the drawing or too small to see are left out."""
    rings: list[list[Point]] = [[]]
    for latitude, longitude in points:
        if not region.holds(latitude, longitude):
            rings.append([])
            continue
        point = region.projection.project(float(latitude), float(longitude))
        if not rings[-1] or math.dist(rings[-1][-1], point) >= OUTLINE_STEP:
            rings[-1].append(point)
    return "".join(
        "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in ring) + "Z" for ring in rings if len(ring) > 3
    )
