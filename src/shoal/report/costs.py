"""Messages of whole runs by phase and kind: a table with the runs side by side.

>>> rows = [{"phase": "set-up", "kind": "Subscribe", "messages": 4, "bytes": 200}]
>>> kinds([rows, [{"phase": "after", "kind": "notice", "messages": 1, "bytes": None}]])
[('set-up', 'Subscribe'), ('after', 'notice')]
"""

from __future__ import annotations

from collections.abc import Sequence

from shoal.report.drawing import figures
from shoal.report.drawing.markup import Markup, tag
from shoal.report.inputs import ReportRun, Row

PHASES = ("set-up", "publishing", "after")


def kinds(costs: Sequence[Sequence[Row]]) -> list[tuple[str, str]]:
    """The phases and kinds that any run has: phases in their order, the most messages first."""
    most: dict[tuple[str, str], int] = {}
    for rows in costs:
        for row in rows:
            key = row["phase"], row["kind"]
            most[key] = max(most.get(key, 0), row["messages"])
    return sorted(most, key=lambda key: (PHASES.index(key[0]), -most[key], key[1]))


def costs_table(runs: Sequence[ReportRun]) -> Markup | None:
    """Messages, and bytes of control messages, by phase and kind; None without any."""
    found = kinds([run.costs for run in runs])
    if not found:
        return None
    by_run = [{(row["phase"], row["kind"]): row for row in run.costs} for run in runs]
    head = tag("tr", tag("th", ""), [tag("th", run.name, scope="col") for run in runs])
    bodies = []
    for phase in PHASES:
        lines = [
            tag(
                "tr",
                tag("th", kind, scope="row"),
                [_cell(rows.get((phase, kind))) for rows in by_run],
            )
            for each, kind in found
            if each == phase
        ]
        if lines:
            title = tag("th", phase, colspan=len(runs) + 1, scope="rowgroup")
            bodies.append(tag("tbody", tag("tr", title, class_="group"), lines))
    return tag("div", tag("table", tag("thead", head), bodies, class_="comparison"), class_="wide")


def _cell(row: Row | None) -> Markup:
    if row is None:
        return tag("td", figures.count(0))
    size = row["bytes"]
    text = f"{figures.count(size)} bytes" if size else ""
    return tag(
        "td", figures.count(row["messages"]), tag("span", text, class_="change") if text else None
    )
