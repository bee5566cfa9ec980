"""The result of a comparison of runs, for the terminal: the table, and the verdict in one line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from shoal.report.inputs import ReportRun

NO_BREAK_SPACE = "\N{NO-BREAK SPACE}"

# Columns that a seed's row shares with a run's row.
SPREAD = (
    "message_rate_per_s",
    "delay_mean_us",
    "hops_mean",
    "migrations",
    "subscriber_moves",
    "exchanges",
    "message_overhead",
    "delivered",
)
_STYLES = {"better": "green", "worse": "yellow", "": "dim"}


def outcome_table(runs: Sequence[ReportRun]) -> Table:
    """Every metric of the report's table, runs side by side, changes against the first.

    Runs of several seeds have their medians over these above the figures of the first seed.
    """
    from shoal.report.comparison import groups_of, verdict
    from shoal.report.drawing import figures

    table = Table(box=None, pad_edge=False, padding=(0, 1))
    table.add_column("")
    for run in runs:
        table.add_column(run.name, justify="right")
    if any(run.seeds for run in runs):
        _add_medians(table, runs)
    for group, metrics in groups_of(runs):
        table.add_row(Text(group, style="bold"))
        for metric in metrics:
            cells = []
            for run in runs:
                value, before = run.metrics[metric.column], runs[0].metrics[metric.column]
                cell = Text(metric.show(value))
                if run is not runs[0]:
                    change = figures.change(value, before) if metric.compared else ""
                    cell.append(_aligned(change), _STYLES[verdict(value, before)])
                cells.append(cell)
            label = f"  {metric.label}" + (f", {metric.unit}" if metric.unit else "")
            table.add_row(label, *cells)
    return table


def _add_medians(table: Table, runs: Sequence[ReportRun]) -> None:
    """The main figures of all seeds; a change against the first run is in the sentences below."""
    from shoal.report.comparison import GROUPS
    from shoal.report.drawing.figures import count

    counts = sorted({len(run.seeds) or 1 for run in runs})
    table.add_row(Text(f"Median of {' or '.join(map(count, counts))} seeds", style="bold"))
    for metric in (
        metric for _, metrics in GROUPS for metric in metrics if metric.column in SPREAD
    ):
        unit = f", {metric.unit}" if metric.unit else ""
        cells = [_middle(run, metric.column, metric.show) for run in runs]
        pad = "" if len(cells) == 1 else _aligned("")
        table.add_row(
            f"  {metric.label}{unit}", cells[0], *(Text(cell + pad) for cell in cells[1:])
        )
    table.add_row("")
    table.add_row(Text("Figures below: of the first seed only", style="italic"))


def _middle(run: ReportRun, column: str, show: Callable[[float | None], str]) -> str:
    """The median over a run's seeds; its own figure where it has one."""
    values = [row[column] for row in run.seeds or [run.metrics] if row[column] is not None]
    return show(median(values) if values else None)


def _aligned(change: str) -> str:
    """As wide as each change: ordinary blanks at a cell's end would not count in its alignment."""
    return change.replace(" ", "").rjust(8, NO_BREAK_SPACE)


def verdict_line(runs: Sequence[ReportRun], judge: str = "Spark") -> str:
    """Deliveries that `judge` expects against those that the runs made, in one line."""
    from shoal.report.drawing.figures import count

    totals = {
        column: sum(int(run.metrics[column]) for run in runs)
        for column in ("expected", "delivered", "lost", "duplicated", "phantom")
    }
    across = f" in {len(runs)} runs" if len(runs) > 1 else ""
    across += " of the first seed" if any(run.seeds for run in runs) else ""
    return (
        f"deliveries expected by {judge}{across}: {count(totals['expected'])}, "
        f"delivered: {count(totals['delivered'])}, lost: {count(totals['lost'])}, "
        f"duplicated: {count(totals['duplicated'])}, phantom: {count(totals['phantom'])}"
    )
