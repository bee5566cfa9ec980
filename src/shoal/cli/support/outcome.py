"""What a comparison of runs came to, for the terminal: the table, and the verdict in one line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from shoal.report.inputs import Run

NO_BREAK_SPACE = "\N{NO-BREAK SPACE}"

_STYLES = {"better": "green", "worse": "yellow", "": "dim"}


def outcome_table(runs: Sequence[Run]) -> Table:
    """Every metric of the report's table, runs side by side, changes against the first."""
    from shoal.report.comparison import GROUPS, verdict
    from shoal.report.drawing import figures

    table = Table(box=None, pad_edge=False, padding=(0, 1))
    table.add_column("")
    for run in runs:
        table.add_column(run.name, justify="right")
    for group, metrics in GROUPS:
        table.add_row(Text(group, style="bold"))
        for metric in metrics:
            cells = []
            for run in runs:
                value, before = run.metrics[metric.column], runs[0].metrics[metric.column]
                cell = Text(metric.show(value))
                if run is not runs[0]:
                    change = figures.change(value, before) if metric.compared else ""
                    # Ordinary blanks at the end of a cell would not count in its alignment.
                    change = change.replace(" ", "").rjust(8, NO_BREAK_SPACE)
                    cell.append(change, _STYLES[verdict(value, before)])
                cells.append(cell)
            label = f"  {metric.label}" + (f", {metric.unit}" if metric.unit else "")
            table.add_row(label, *cells)
    return table


def verdict_line(runs: Sequence[Run], judge: str = "Spark") -> str:
    """Deliveries that `judge` expects against those that the runs made, in one line."""
    from shoal.report.drawing.figures import count

    totals = {
        column: sum(int(run.metrics[column]) for run in runs)
        for column in ("expected", "delivered", "lost", "duplicated", "phantom")
    }
    across = f" in {len(runs)} runs" if len(runs) > 1 else ""
    return (
        f"deliveries expected by {judge}{across}: {count(totals['expected'])}, "
        f"delivered: {count(totals['delivered'])}, lost: {count(totals['lost'])}, "
        f"duplicated: {count(totals['duplicated'])}, phantom: {count(totals['phantom'])}"
    )
