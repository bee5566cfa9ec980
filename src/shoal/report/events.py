"""Events that a run's brokers report: members declared dead, or added, and services."""

from __future__ import annotations

from shoal.report.drawing import figures
from shoal.report.drawing.markup import Markup, join, tag
from shoal.report.inputs import ReportRun

MAX_ROWS = 500


def events(run: ReportRun) -> Markup | None:
    """A row for each, in order."""
    if not run.events:
        return None
    body = [
        tag("tr", tag("td", f"{figures.seconds(at_us)} s"), tag("td", what))
        for at_us, what in run.events[:MAX_ROWS]
    ]
    head = tag("thead", tag("tr", [tag("th", label, scope="col") for label in ("at", "what")]))
    number = len(run.events)
    note = f"The first {MAX_ROWS} of {figures.count(number)}." if number > MAX_ROWS else ""
    return join(
        tag("h3", "Events that brokers report"),
        tag("p", note, class_="note") if note else None,
        tag("div", tag("table", head, tag("tbody", body), class_="movers"), class_="scroll"),
    )
