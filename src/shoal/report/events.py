"""What a run's brokers say happened: who was taken for dead, or added, and who serves what."""

from __future__ import annotations

from shoal.report.drawing import figures
from shoal.report.drawing.markup import Markup, join, tag
from shoal.report.inputs import Run

MAX_ROWS = 500


def events(run: Run) -> Markup | None:
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
        tag("h3", "What brokers say happened"),
        tag("p", note, class_="note") if note else None,
        tag("div", tag("table", head, tag("tbody", body), class_="movers"), class_="scroll"),
    )
