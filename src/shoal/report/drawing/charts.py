"""Charts as SVG: lines over time with the moves marked below, and sorted bars.

A chart is a fixed drawing that scales with the page; the page's script only adds the reading
under the pointer, from the same figures (`readings`).

>>> ticks(0.0, 97.0, 5)
[0.0, 20.0, 40.0, 60.0, 80.0]
>>> ticks(0.0, 0.0, 5)
[0.0]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from shoal.report.drawing.figures import quantity
from shoal.report.drawing.markup import Markup, join, tag

WIDTH = 1200
LEFT, RIGHT, TOP = 64, 16, 14
PLOT_HEIGHT = 210
RUG_ROW = 13

# More bars than this cannot be told apart; the highest are shown and the caption says so.
MAX_BARS = 90
BAR_HEIGHT = 190
# A broker's name below its bar: as many characters of it at most, each so wide.
NAME_LENGTH, CHARACTER = 16, 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One run's line: (time, value or None) points in time order, and the times of its moves."""

    name: str
    colour: str
    points: Sequence[tuple[float, float | None]]
    moves: Sequence[tuple[float, str]] = ()


def line_chart(series: Sequence[Series], *, unit: str, time_unit: str, name: str) -> Markup:
    """All series on one time axis; moves are ticks in one row per series that has any."""
    x_end = max((x for line in series for x, _ in line.points), default=0.0) or 1.0
    values = [y for line in series for _, y in line.points if y is not None]
    y_end = (max(values, default=0.0) or 1.0) * 1.06
    bottom = TOP + PLOT_HEIGHT
    moving = [line for line in series if line.moves]
    axis = bottom + 22
    height = axis + len(moving) * RUG_ROW + 10

    def x_at(x: float) -> float:
        return LEFT + x / x_end * (WIDTH - LEFT - RIGHT)

    def y_at(y: float) -> float:
        return bottom - y / y_end * PLOT_HEIGHT

    return tag(
        "svg",
        _grid(x_at, y_at, x_end, y_end, bottom, time_unit),
        tag("text", unit, x=LEFT, y=TOP - 3, class_="unit"),
        [_line(line, x_at, y_at) for line in series],
        [_rug(line, x_at, axis + 4 + row * RUG_ROW) for row, line in enumerate(moving)],
        tag("line", x1=0, x2=0, y1=TOP, y2=bottom, class_="cursor", visibility="hidden"),
        viewBox=f"0 0 {WIDTH} {height}",
        class_="lines",
        role="img",
        aria_label=f"{name}, {unit}",
        data_chart=name,
    )


def readings(series: Sequence[Series], unit: str, time_unit: str) -> Mapping[str, object]:
    """Return the data with which the page's script shows values under the pointer."""
    x_end = max((x for line in series for x, _ in line.points), default=0.0) or 1.0
    return {
        "left": LEFT / WIDTH,
        "right": 1 - RIGHT / WIDTH,
        "width": WIDTH,
        "end": x_end,
        "unit": unit,
        "timeUnit": time_unit,
        "series": [
            {
                "name": line.name,
                "colour": line.colour,
                "x": [round(x, 3) for x, _ in line.points],
                "y": [None if y is None else quantity(y) for _, y in line.points],
            }
            for line in series
        ],
    }


def _grid(
    x_at: Callable[[float], float],
    y_at: Callable[[float], float],
    x_end: float,
    y_end: float,
    bottom: float,
    time_unit: str,
) -> Markup:
    marks = []
    for y in ticks(0.0, y_end, 4):
        marks.append(tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y_at(y), y2=y_at(y), class_="grid"))
        marks.append(tag("text", axis_label(y), x=LEFT - 8, y=y_at(y) + 4, class_="tick end"))
    for x in ticks(0.0, x_end, 12):
        label = f"{axis_label(x)} {time_unit}"
        marks.append(tag("line", x1=x_at(x), x2=x_at(x), y1=bottom, y2=bottom + 4, class_="grid"))
        marks.append(tag("text", label, x=x_at(x), y=bottom + 16, class_="tick middle"))
    return join(marks)


def axis_label(value: float) -> str:
    """An axis label: no digits beyond those that say something."""
    return f"{value:,.6g}"


def _line(line: Series, x_at: Callable[[float], float], y_at: Callable[[float], float]) -> Markup:
    """The readings as a line; those that stand between two gaps as dots, to be seen as well."""
    commands, dots = [], []
    pen = "M"
    for (x, y), (_, after) in pairwise([*line.points, (0.0, None)]):
        if y is None:
            pen = "M"
            continue
        place = f"{x_at(x):.1f} {y_at(y):.1f}"
        if pen == "M" and after is None:
            # A line without length; round caps show it as a dot.
            dots.append(f"M{place}h0")
        else:
            commands.append(f"{pen}{place}")
        pen = "L"
    paths = (("series", commands), ("series lone", dots))
    return join(
        tag("path", d="".join(found), stroke=line.colour, class_=name)
        for name, found in paths
        if found
    )


def _rug(line: Series, x_at: Callable[[float], float], y: float) -> Markup:
    return tag(
        "g",
        tag("text", "moves", x=LEFT - 8, y=y + 8, class_="tick end", style=f"fill:{line.colour}"),
        [
            tag("path", tag("title", label), d=f"M{x_at(x):.1f} {y}v9", stroke=line.colour)
            for x, label in line.moves
        ],
        class_="rug",
    )


def ticks(start: float, end: float, wanted: int) -> list[float]:
    """Round positions from `start` on, about `wanted` of them, none beyond `end`."""
    if end <= start:
        return [start]
    rough = (end - start) / wanted
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough)
    first = math.ceil(start / step)
    return [index * step for index in range(first, math.floor(end / step) + 1)]


def bar_chart(
    loads: Sequence[Mapping[str, float]],
    *,
    names: Sequence[str],
    colours: Sequence[str],
    unit: str,
) -> Markup:
    """Brokers sorted by their load in one run; of two, behind each bar of the second stands the
    first's."""
    first = loads[0]
    brokers = sorted(set().union(*loads), key=lambda b: (-first.get(b, 0.0), b))
    shown = brokers[:MAX_BARS]
    y_end = max([load for each in loads for load in each.values()], default=0.0) * 1.05 or 1.0
    slot = (WIDTH - LEFT - RIGHT) / max(len(shown), 12)
    bottom = TOP + BAR_HEIGHT
    labels = [
        name if len(name) <= NAME_LENGTH else name[: NAME_LENGTH - 1] + "\N{HORIZONTAL ELLIPSIS}"
        for name in shown
    ]
    longest = CHARACTER * max(map(len, labels), default=0)
    is_flat = longest <= slot
    looks = [(0.08, 0.84, 0.38), (0.3, 0.4, 1.0)][-len(loads) :]

    def y_at(value: float) -> float:
        return bottom - value / y_end * BAR_HEIGHT

    marks = []
    for y in ticks(0.0, y_end, 4):
        marks.append(tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y_at(y), y2=y_at(y), class_="grid"))
        marks.append(tag("text", axis_label(y), x=LEFT - 8, y=y_at(y) + 4, class_="tick end"))
    for index, (broker, label) in enumerate(zip(shown, labels, strict=True)):
        x = LEFT + index * slot
        values = [each.get(broker, 0.0) for each in loads]
        said = ", ".join(
            f"{name} {quantity(value)}" for name, value in zip(names, values, strict=True)
        )
        marks.append(
            tag(
                "g",
                tag("title", f"{broker}: {said} {unit}"),
                tag("rect", x=x, y=TOP, width=slot, height=BAR_HEIGHT, class_="slot"),
                [
                    _bar(x + slot * left, slot * width, y_at(value), bottom, colour, opacity)
                    for (left, width, opacity), value, colour in zip(
                        looks, values, colours, strict=True
                    )
                ],
                _bar_label(label, x + slot / 2, bottom, is_flat=is_flat),
            )
        )
    return tag(
        "svg",
        marks,
        tag("text", unit, x=LEFT, y=TOP - 3, class_="unit"),
        viewBox=f"0 0 {WIDTH} {bottom + (24 if is_flat else 10 + longest)}",
        class_="bars",
        role="img",
        aria_label=f"load per broker, {' and '.join(names)}",
    )


def _bar(x: float, width: float, y: float, bottom: float, colour: str, opacity: float) -> Markup:
    return tag(
        "rect", x=x, y=y, width=width, height=bottom - y, fill=colour, opacity=f"{opacity:g}"
    )


def _bar_label(label: str, x: float, bottom: float, *, is_flat: bool) -> Markup:
    """A name below a bar; from the bar downwards where it is wider than there is room for."""
    if is_flat:
        return tag("text", label, x=x, y=bottom + 16, class_="tick middle")
    place = f"translate({x + 3:.1f} {bottom + 6:.1f}) rotate(-90)"
    return tag("text", label, transform=place, class_="tick end")
