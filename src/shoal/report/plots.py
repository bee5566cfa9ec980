"""Figures of a study as SVG: marked lines over steps, a linear or a logarithmic axis.

A drawing carries its own style, so it is the same as a file and inside a page.  Lines differ by
colour and by mark, and a mark tells its value when pointed at.

>>> from shoal.report.study import Figure, StudyLine
>>> drawing = plot(Figure(id="5a", title="", caption="", x_label="X", y_label="rate",
...                lines=(StudyLine(name="baseline", points=((1, 2.0), (4, 3.0))),)))
>>> drawing.startswith("<svg"), drawing.count("<path")
(True, 5)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from shoal.report.drawing.charts import axis_label, ticks
from shoal.report.drawing.figures import quantity
from shoal.report.drawing.markup import Markup, join, tag
from shoal.report.study import Figure, StudyLine

WIDTH, HEIGHT = 560, 340
LEFT, RIGHT, TOP, BOTTOM = 66, 14, 26, 44
LEGEND_ROW, LEGEND_KEY, MOST_COLUMNS = 17, 34, 5
# Text in place of missing lines or rows, and its height.
UNMEASURED, UNMEASURED_HEIGHT = "nothing was measured", 40

# Okabe and Ito's palette after a grey for the reference; shades of its second and third colour,
# for series that come in degrees; then the same again, dashed.
COLOURS = (
    "#6b7280", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000",
    "#2384bd", "#4b9fcf", "#78b8de", "#a3d0ea", "#dc6f1d", "#e38a48", "#eaa574", "#f0bfa0",
)  # fmt: skip
# Paths around the origin: disc, square, triangle, diamond, cross.
MARKS = (
    "m-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0 -7 0",
    "m-3.2 -3.2h6.4v6.4h-6.4z",
    "m0 -4l4 7h-8z",
    "m0 -4.4l4.4 4.4l-4.4 4.4l-4.4 -4.4z",
    "m-3 -3l6 6m0 -6l-6 6",
)
STYLE = """
text { font: 12px system-ui, -apple-system, "Segoe UI", Roboto, Arial, sans-serif; fill: #5b6675; }
.grid { stroke: #dfe4ea; } .axis { stroke: #9aa5b1; } .end { text-anchor: end; }
.middle { text-anchor: middle; } .series { fill: none; stroke-width: 1.8;
stroke-linejoin: round; } .unit, .legend { fill: #1b2430; }
"""


class Axis(NamedTuple):
    """Positions of values on an axis, and the labelled ones."""

    at: Callable[[float], float]
    marks: Sequence[float]


def plot(figure: Figure) -> Markup:
    """The whole drawing; an axis' label stands beside it, the legend below."""
    points = [point for line in figure.lines for point in line.points if point[1] is not None]
    columns = _legend_columns(figure.lines)
    rows = math.ceil(len(figure.lines) / columns)
    height = HEIGHT + rows * LEGEND_ROW + 6
    if not points:
        height = UNMEASURED_HEIGHT
        marks = tag("text", UNMEASURED, x=8, y=14)
    else:
        x = _axis([x for x, _ in points], figure.x_scale, LEFT + 12, WIDTH - RIGHT - 12)
        values = [y for _, y in points if y is not None]
        y = _axis(values, figure.y_scale, HEIGHT - BOTTOM, TOP, zero=True)
        marks = join(
            tag("text", figure.y_label, x=8, y=14, class_="unit"),
            _frame(x, y),
            [
                _series(line, _number(line, place), x, y, figure)
                for place, line in enumerate(figure.lines)
            ],
            tag(
                "text", figure.x_label, x=(LEFT + WIDTH - RIGHT) / 2, y=HEIGHT - 6, class_="middle"
            ),
            [
                _legend(line, place, columns, marks=figure.marks)
                for place, line in enumerate(figure.lines)
            ],
        )
    return tag(
        "svg",
        tag("style", Markup(STYLE)),
        marks,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {WIDTH} {height}",
        role="img",
        aria_label=f"{figure.title}: {figure.y_label} over {figure.x_label}",
    )


def _axis(
    values: Sequence[float],
    scale: Literal["steps", "linear", "log"],
    start: float,
    end: float,
    *,
    zero: bool = False,
) -> Axis:
    if scale == "steps":
        steps = sorted(set(values))
        width = (end - start) / max(1, len(steps) - 1)
        return Axis(lambda value: start + steps.index(value) * width, steps)
    if scale == "log":
        positive = [value for value in values if value > 0] or [1.0]
        low, high = math.log10(min(positive)), math.log10(max(positive))
        if high - low < 0.3:
            low, high = low - 0.15, high + 0.15
        marks = _decades(low, high)
        return Axis(
            lambda value: (
                start + (math.log10(max(value, 10**low)) - low) / (high - low) * (end - start)
            ),
            marks,
        )
    least = min(0.0, *values) if zero else min(values)
    most = (max(values) or 1.0) * (1.06 if zero else 1.0)
    if most <= least:
        most = least + 1
    marks = ticks(least, most, 5 if zero else 8)
    return Axis(lambda value: start + (value - least) / (most - least) * (end - start), marks)


def _decades(low: float, high: float) -> list[float]:
    """1, 2 and 5 times powers of ten between two logarithms; only powers if there are many."""
    factors = (1, 2, 5) if high - low < 2.5 else (1,)
    powers = range(math.floor(low), math.ceil(high) + 1)
    found = [factor * 10.0**power for power in powers for factor in factors]
    return [value for value in found if low - 1e-9 <= math.log10(value) <= high + 1e-9]


def _frame(x: Axis, y: Axis) -> Markup:
    bottom = HEIGHT - BOTTOM
    marks = []
    for value in y.marks:
        at = y.at(value)
        marks.append(tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=at, y2=at, class_="grid"))
        marks.append(tag("text", axis_label(value), x=LEFT - 8, y=at + 4, class_="end"))
    for value in x.marks:
        at = x.at(value)
        marks.append(tag("line", x1=at, x2=at, y1=bottom, y2=bottom + 4, class_="axis"))
        marks.append(tag("text", axis_label(value), x=at, y=bottom + 18, class_="middle"))
    marks.append(tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=bottom, y2=bottom, class_="axis"))
    return join(marks)


def _series(line: StudyLine, number: int, x: Axis, y: Axis, figure: Figure) -> Markup:
    colour, dash = _look(number)
    commands, marks = [], []
    pen = "M"
    for across, value in line.points:
        if value is None:
            pen = "M"
            continue
        place = f"{x.at(across):.1f} {y.at(value):.1f}"
        commands.append(f"{pen}{place}")
        pen = "L"
        if figure.marks:
            title = f"{line.name}, {axis_label(across)}: {quantity(value)}"
            marks.append(tag("path", tag("title", title), d=f"M{place}{_mark(number)}"))
    return tag(
        "g",
        tag("path", d="".join(commands), stroke=colour, stroke_dasharray=dash, class_="series")
        if commands
        else None,
        tag("g", marks, fill=colour, stroke=colour) if marks else None,
    )


def _legend_columns(lines: Sequence[StudyLine]) -> int:
    """As many as the longest name leaves room for."""
    longest = max((len(line.name) for line in lines), default=1)
    return max(1, min(MOST_COLUMNS, int((WIDTH - 16) / (LEGEND_KEY + 7 * longest))))


def _number(line: StudyLine, place: int) -> int:
    return place if line.look is None else line.look


def _legend(line: StudyLine, place: int, columns: int, *, marks: bool) -> Markup:
    number = _number(line, place)
    colour, dash = _look(number)
    width = (WIDTH - 16) / columns
    x, y = 8 + place % columns * width, HEIGHT + 12 + place // columns * LEGEND_ROW
    return tag(
        "g",
        tag(
            "path", d=f"M{x:.1f} {y - 4}h20", stroke=colour, stroke_dasharray=dash, class_="series"
        ),
        tag("path", d=f"M{x + 10:.1f} {y - 4}{_mark(number)}", fill=colour, stroke=colour)
        if marks
        else None,
        tag("text", line.name, x=x + 26, y=y, class_="legend"),
    )


def _look(number: int) -> tuple[str, str | None]:
    return COLOURS[number % len(COLOURS)], None if number < len(COLOURS) else "5 3"


def _mark(number: int) -> str:
    return MARKS[number % len(MARKS)]
