"""Load and delay over time: a line for each run, with ticks where publishers move.

Runs are compared from when publishing begins, which in some systems is later than in others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from shoal.report.comparison import swatch
from shoal.report.drawing import figures
from shoal.report.drawing.charts import Series, line_chart
from shoal.report.drawing.markup import Markup, tag
from shoal.report.exchanges import exchanged
from shoal.report.inputs import ReportRun


def time_unit_of(runs: Sequence[ReportRun]) -> tuple[str, float]:
    """Return the unit of times, and its length in µs."""
    late_us = _late_us(runs)
    end_us = max(
        (row["window_start_us"] - late_us[run.name] for run in runs for row in run.timeline),
        default=0,
    )
    if end_us > 3 * 3600e6:
        return "h", 3600e6
    return ("min", 60e6) if end_us > 600e6 else ("s", 1e6)


def charts_of(
    runs: Sequence[ReportRun], colours: Sequence[str], time_unit: str, unit_us: float
) -> list[tuple[str, list[Series], str]]:
    """Return each chart's title, lines and unit; publishing begins at the same place."""
    late_us = _late_us(runs)
    charts = []
    for name, column, unit, divisor in (
        ("Load", "message_rate_per_s", "messages/s per broker", 1.0),
        ("Delay", "delay_mean_us", "ms, mean of deliveries", 1000.0),
    ):
        series = [
            Series(
                name=run.name,
                colour=colour,
                points=[
                    (
                        (row["window_start_us"] - late_us[run.name]) / unit_us,
                        _scaled(row[column], divisor),
                    )
                    for row in run.timeline
                ],
                moves=list(_marks(run, late_us[run.name], time_unit, unit_us)),
            )
            for run, colour in zip(runs, colours, strict=True)
        ]
        charts.append((name, series, unit))
    return charts


def _scaled(value: float | None, divisor: float) -> float | None:
    return None if value is None else value / divisor


def _marks(
    run: ReportRun, late_us: float, time_unit: str, unit_us: float
) -> Iterator[tuple[float, str]]:
    """Return positions of moves and exchanges, 0 if they precede publishing, and their labels."""
    for row in run.migrations:
        what = f"{row['publisher']}: {row['source']} → {row['target']}"
        yield _mark(row["resumed_us"], what, late_us, time_unit, unit_us)
    for row in exchanged(run):
        new, old = f"{row['left']} - {row['right']}", f"{row['old_left']} - {row['old_right']}"
        yield _mark(row["at_us"], f"{new} instead of {old}", late_us, time_unit, unit_us)


def _mark(
    at_us: float, what: str, late_us: float, time_unit: str, unit_us: float
) -> tuple[float, str]:
    told = f"{what} at {figures.quantity(at_us / unit_us)} {time_unit}"
    return max(0.0, at_us - late_us) / unit_us, told


def _late_us(runs: Sequence[ReportRun]) -> dict[str, float]:
    """Return how much later than the first of them each run began to publish, by its name.

    Systems whose brokers must agree on more let publishers wait longer.
    """
    begins = {run.name: run.timeline[0]["window_start_us"] for run in runs if run.timeline}
    first = min(begins.values(), default=0)
    return {run.name: begins.get(run.name, first) - first for run in runs}


def _shifts(runs: Sequence[ReportRun]) -> Markup | None:
    """Return a note on runs that are drawn earlier than they were; None without such runs."""
    late = [
        f"{name} ({figures.seconds(late_us)} s)"
        for name, late_us in _late_us(runs).items()
        if late_us
    ]
    if not late:
        return None
    words = (
        "Lines begin where publishing does. These runs began later, while their brokers settled, "
        f"and are drawn as much to the left: {', '.join(late)}. Times in tables are their own."
    )
    return tag("p", words, class_="note")


def over_time(
    runs: Sequence[ReportRun],
    colours: Sequence[str],
    charts: Sequence[tuple[str, Sequence[Series], str]],
    time_unit: str,
) -> Sequence[Markup | None]:
    """Return a legend, a drawing for each chart, and notes about them."""
    legend = [
        tag("span", swatch(colour), run.name) for run, colour in zip(runs, colours, strict=True)
    ]
    drawn = [
        tag(
            "figure",
            tag("figcaption", name),
            tag("div", line_chart(series, unit=unit, time_unit=time_unit, name=name)),
            tag("output", class_="reading"),
            class_="chart",
        )
        for name, series, unit in charts
    ]
    ticks = "A tick below the axis is a publisher's move, or an exchange of links."
    return (
        tag("p", legend, class_="legend"),
        *drawn,
        tag("p", ticks, class_="note"),
        _shifts(runs),
    )
