"""The drawing of one network: overlay links, brokers by load, publishers and their moves.

A broker is a disc whose area is its message rate; a ring and a number give the publishers connected
there; an arc leads from a publisher's first broker to its last, with the width of the number of
publishers.

>>> _radius(100.0, 100.0), _radius(25.0, 100.0) < _radius(100.0, 100.0)
(17.0, True)
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from shoal.report.drawing.figures import quantity
from shoal.report.drawing.geography import HEIGHT, WIDTH, MapPlacement
from shoal.report.drawing.layout import Point, size_factor
from shoal.report.drawing.markup import Markup, tag

LARGEST_RADIUS = 17.0
SMALLEST_RADIUS = 3.5
# The busiest brokers are named even where no publisher is; all, where there are few.
NAMED_BY_LOAD, FEW = 10, 24
# An arc bends aside by this share of its length, so that ways there and back stay apart.
BEND = 0.18

Box = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """Content of one map; brokers among `squares` are squares, all others discs.

    Of the links in the end, `new_links` were not there at the start; `gone_links` were.
    """

    title: str
    colour: str
    placement: MapPlacement
    names: Mapping[str, str]
    links: Sequence[tuple[str, str]]
    loads: Mapping[str, float]
    largest_load: float
    publishers: Mapping[str, Sequence[str]]
    transfers: Counter[tuple[str, str]]
    squares: Collection[str] = ()
    new_links: Collection[tuple[str, str]] = ()
    gone_links: Collection[tuple[str, str]] = ()


def network_map(drawing: Drawing) -> Markup:
    """One SVG; discs of several maps compare when `largest_load` is the same."""
    points = drawing.placement.points
    size = size_factor(len(points))
    radii = {
        broker: size * _radius(drawing.loads.get(broker, 0.0), drawing.largest_load)
        for broker in points
    }
    # Small discs last, so that a large one never hides them.
    order = sorted(points, key=lambda broker: (-radii[broker], broker))
    return tag(
        "svg",
        tag("g", [tag("path", d=path) for path in drawing.placement.outlines], class_="states"),
        tag("g", _links(drawing), class_="links"),
        tag("g", [_broker(drawing, broker, radii[broker]) for broker in order], class_="brokers"),
        tag("g", _arcs(drawing, radii), class_="arcs", stroke=drawing.colour, fill=drawing.colour),
        tag("g", _labels(drawing, radii), class_="labels"),
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        class_="map",
        role="img",
        aria_label=drawing.title,
    )


def _radius(load: float, largest: float) -> float:
    share = math.sqrt(load / largest) if largest > 0 else 0.0
    return SMALLEST_RADIUS + (LARGEST_RADIUS - SMALLEST_RADIUS) * share


def _links(drawing: Drawing) -> list[Markup]:
    style = f"stroke:{drawing.colour}"
    gone = [_link(drawing, link, class_="gone") for link in sorted(drawing.gone_links)]
    return gone + [
        _link(drawing, link, class_="new", style=style)
        if link in drawing.new_links
        else _link(drawing, link)
        for link in drawing.links
    ]


def _link(drawing: Drawing, link: tuple[str, str], **attributes: str) -> Markup:
    start, end = (drawing.placement.points[broker] for broker in link)
    title = tag("title", " - ".join(link)) if attributes else None
    return tag("line", title, x1=start[0], y1=start[1], x2=end[0], y2=end[1], **attributes)


def _broker(drawing: Drawing, broker: str, radius: float) -> Markup:
    x, y = drawing.placement.points[broker]
    publishers = drawing.publishers.get(broker, ())
    title = f"{drawing.names.get(broker, broker)}: {quantity(drawing.loads.get(broker, 0.0))}"
    title += " messages/s"
    if publishers:
        noun = "publisher" if len(publishers) == 1 else "publishers"
        title += f"\n{len(publishers)} {noun}: " + ", ".join(publishers)
    ring = None
    if publishers:
        ring = tag(
            "circle", cx=x, cy=y, r=radius + 3, class_="home", style=f"stroke:{drawing.colour}"
        )
    if broker in drawing.squares:
        # As large as the disc would be.
        side = radius * math.sqrt(math.pi)
        mark = tag("rect", x=x - side / 2, y=y - side / 2, width=side, height=side)
    else:
        mark = tag("circle", cx=x, cy=y, r=radius)
    return tag("g", tag("title", title), ring, mark)


def _arcs(drawing: Drawing, radii: Mapping[str, float]) -> list[Markup]:
    arcs = []
    for (source, target), number in sorted(drawing.transfers.items()):
        start, end = drawing.placement.points[source], drawing.placement.points[target]
        if source == target or math.dist(start, end) < 1:
            continue
        title = f"{number} publishers went from {source} to {target}"
        width = 1.0 + 0.8 * math.sqrt(number)
        shaft, head = _arc(start, end, radii[target] + 5, width)
        arcs.append(
            tag(
                "g",
                tag("title", title),
                tag("path", d=shaft, stroke_width=width, fill="none"),
                tag("path", d=head, stroke="none"),
            )
        )
    return arcs


def _arc(start: Point, end: Point, gap: float, width: float) -> tuple[str, str]:
    """Path data of a bent shaft that ends `gap` before the end's centre, and of its head."""
    (x1, y1), (x2, y2) = start, end
    control = ((x1 + x2) / 2 + (y2 - y1) * BEND, (y1 + y2) / 2 - (x2 - x1) * BEND)
    length = math.dist(control, end)
    along = ((x2 - control[0]) / length, (y2 - control[1]) / length)
    size = 4.5 + width
    tip = (x2 - along[0] * gap, y2 - along[1] * gap)
    base = (tip[0] - along[0] * size, tip[1] - along[1] * size)
    wing = (-along[1] * size * 0.5, along[0] * size * 0.5)
    shaft = f"M{x1:.1f} {y1:.1f}Q{control[0]:.1f} {control[1]:.1f} {base[0]:.1f} {base[1]:.1f}"
    head = (
        f"M{tip[0]:.1f} {tip[1]:.1f}L{base[0] + wing[0]:.1f} {base[1] + wing[1]:.1f}"
        f"L{base[0] - wing[0]:.1f} {base[1] - wing[1]:.1f}Z"
    )
    return shaft, head


def _labels(drawing: Drawing, radii: Mapping[str, float]) -> list[Markup]:
    """Names of brokers with publishers and of the busiest, wherever a name finds room."""
    by_load = sorted(radii, key=lambda broker: (-drawing.loads.get(broker, 0.0), broker))
    hosts = sorted(
        drawing.publishers, key=lambda broker: (-len(drawing.publishers[broker]), broker)
    )
    discs = {
        broker: (x - radii[broker], y - radii[broker], x + radii[broker], y + radii[broker])
        for broker, (x, y) in drawing.placement.points.items()
    }
    written: list[Box] = []
    labels = []
    named = by_load if len(by_load) <= FEW else by_load[:NAMED_BY_LOAD]
    for broker in dict.fromkeys([*hosts, *named]):
        number = len(drawing.publishers.get(broker, ()))
        text = f"{broker} · {number}" if number else broker
        # Publishers' places matter more than the discs of brokers without any.
        kept = [discs[other] for other in (hosts if number else discs)]
        box = _free_box(
            drawing.placement.points[broker], radii[broker] + 4, len(text), kept + written
        )
        if box is None:
            continue
        written.append(box)
        labels.append(tag("text", text, x=box[0], y=box[3] - 4, class_="host" if number else None))
    return labels


def _free_box(point: Point, gap: float, characters: int, taken: Sequence[Box]) -> Box | None:
    """The first place beside the point where the text covers nothing; None when all do."""
    (x, y), width, height = point, characters * 8.4 + 2, 17.0
    for away in (gap, gap + 9, gap + 18):
        corners = (
            (x + away, y - height / 2),
            (x - away - width, y - height / 2),
            (x - width / 2, y - away - height),
            (x - width / 2, y + away),
            (x + away * 0.7, y - away * 0.7 - height),
            (x + away * 0.7, y + away * 0.7),
            (x - away * 0.7 - width, y - away * 0.7 - height),
        )
        for left, top in corners:
            box = (left, top, left + width, top + height)
            inside = left >= 0 and top >= 0 and box[2] <= WIDTH and box[3] <= HEIGHT
            if inside and not any(_overlap(box, other) for other in taken):
                return box
    return None


def _overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
