"""Moves of publishers: a row per publisher that moved, in the order of first moves.

>>> transfer(["EWR", "ORD"])
'EWR → ORD'
>>> transfer(list("ABCDEFGHI"))
'A → B → C → (4 more) → H → I'
"""

from __future__ import annotations

from collections.abc import Sequence

from shoal.report.drawing import figures
from shoal.report.drawing.markup import Markup, join, tag
from shoal.report.inputs import ReportRun, Row
from shoal.report.remarks import why_nobody_moved

# A longer transfer is shown by its ends; a longer table would be most of the page.
MAX_STOPS = 6
MAX_MOVERS = 500


def movers(run: ReportRun) -> Markup:
    """A row per publisher that moved, with its whole transfer."""
    transfers: dict[str, list[Row]] = {}
    for migration in run.migrations:
        transfers.setdefault(migration["publisher"], []).append(migration)
    stayed = len(run.moves) - sum(row["publisher"] in transfers for row in run.moves)
    if not transfers:
        has_decided = run.metrics["selection_time_mean_us"] is not None
        why = why_nobody_moved(run.scenario, run.checks, has_decided=has_decided)
        text = f"None of the {figures.count(stayed)} publishers moved. {why}"
        return tag("p", text, class_="note")
    names = {row["broker"]: row["name"] for row in run.brokers}
    order = sorted(transfers.items(), key=lambda item: (item[1][0]["resumed_us"], item[0]))
    head = (
        "publisher",
        "transfer",
        "from",
        "to",
        "overlay hops",
        "first move",
        "last move",
        "wait",
    )
    rows = []
    for publisher, steps in order[:MAX_MOVERS]:
        stops = [steps[0]["source"], *(step["target"] for step in steps)]
        waits = [step["resumed_us"] - step["paused_us"] for step in steps]
        cells = (
            publisher, transfer(stops), names.get(stops[0]) or stops[0],
            names.get(stops[-1]) or stops[-1], str(sum(step["path_hops"] for step in steps)),
            f"{figures.seconds(steps[0]['resumed_us'])} s",
            f"{figures.seconds(steps[-1]['resumed_us'])} s",
            f"{figures.milliseconds(sum(waits) / len(waits))} ms",
        )  # fmt: skip
        rows.append(
            tag("tr", [tag("td", cell, class_="number" if at > 3 else None)
                       for at, cell in enumerate(cells)])
        )  # fmt: skip
    table = tag(
        "table",
        tag("thead", tag("tr", [tag("th", label, scope="col") for label in head])),
        tag("tbody", rows),
        class_="movers",
    )
    moves = f"{figures.count(len(run.migrations))} moves of {figures.count(len(transfers))}"
    began = "it began" if stayed == 1 else "they began"
    note = f"{moves} publishers; {figures.count(stayed)} stayed where {began}."
    if len(order) > MAX_MOVERS:
        note += f" The first {MAX_MOVERS} to move are shown."
    return join(tag("p", note, class_="note"), tag("div", table, class_="scroll"))


def transfer(stops: Sequence[str]) -> str:
    if len(stops) <= MAX_STOPS:
        return " → ".join(stops)
    left_out = f"({len(stops) - MAX_STOPS + 1} more)"
    return " → ".join([*stops[: MAX_STOPS - 3], left_out, *stops[-2:]])
