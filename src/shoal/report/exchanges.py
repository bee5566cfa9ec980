"""Links that brokers have exchanged in a run, or recommend: the links, times, and savings."""

from __future__ import annotations

from collections.abc import Iterable

from shoal.report.drawing import figures
from shoal.report.drawing.markup import Markup, join, tag
from shoal.report.inputs import ReportRun, Row

Link = tuple[str, str]

MAX_ROWS = 500
HEAD = ("at", "new link", "instead of", "cost of its cycle per interval", "overlay hops", "saved")


def exchanged(run: ReportRun) -> list[Row]:
    """The exchanges of links that were made, in their order."""
    return [row for row in run.proposals if row["outcome"] == "done"]


def only_recommends(run: ReportRun) -> bool:
    """Return whether its brokers found better links, and left them and publishers where they
    were.
    """
    has_advice = any(row["outcome"] == "advised" for row in run.proposals)
    return has_advice and not exchanged(run) and not run.migrations


def links_at_end(run: ReportRun) -> list[Link]:
    """The links that there are in the end."""
    links = dict.fromkeys(_in_order(run.links))
    for row in exchanged(run):
        links.pop(_link(row["old_left"], row["old_right"]), None)
        links[_link(row["left"], row["right"])] = None
    return sorted(links)


def new_links(run: ReportRun) -> set[Link]:
    """Those that there are in the end and were not at the start."""
    return {*links_at_end(run)} - {*_in_order(run.links)}


def gone_links(run: ReportRun) -> set[Link]:
    """Those that were there at the start and are not in the end."""
    return {*_in_order(run.links)} - {*links_at_end(run)}


def exchanges(run: ReportRun) -> Markup | None:
    """A row for each link that was exchanged, or of each that is recommended the last word."""
    rows, title = exchanged(run), "Which links were exchanged"
    if only_recommends(run):
        advised = (row for row in run.proposals if row["outcome"] == "advised")
        rows = list({_link(row["left"], row["right"]): row for row in advised}.values())
        title = "Which links are recommended"
    if not rows:
        return None
    body = [tag("tr", [tag("td", cell, class_="number" if at > 3 else None)
                       for at, cell in enumerate(_cells(row))])
            for row in rows[:MAX_ROWS]]  # fmt: skip
    head = tag("thead", tag("tr", [tag("th", label, scope="col") for label in HEAD]))
    table = tag("table", head, tag("tbody", body), class_="movers")
    return join(
        tag("h3", title),
        tag("p", _note(run, len(rows)), class_="note"),
        tag("div", table, class_="scroll"),
    )


def links_in_words(number: int) -> str:
    return "1 link" if number == 1 else f"{figures.count(number)} links"


def _note(run: ReportRun, number: int) -> str:
    text = links_in_words(number)
    if only_recommends(run):
        text += "; nothing was changed, each is recommended by itself"
    else:
        failed = sum(row["outcome"] == "failed" for row in run.proposals)
        text += f"; begun and given up: {figures.count(failed)}" if failed else ""
    text += ". Its cycle is what a new link closes with those between its ends."
    return text + (f" The first {MAX_ROWS} are shown." if number > MAX_ROWS else "")


def _cells(row: Row) -> tuple[str, ...]:
    now, then = row["cost_now"], row["cost_then"]
    is_known = bool(now) and then is not None
    return (
        f"{figures.seconds(row['at_us'])} s",
        f"{row['left']} - {row['right']}",
        f"{row['old_left']} - {row['old_right']}",
        f"{figures.quantity(now)} → {figures.quantity(then)}" if is_known else figures.MISSING,
        figures.count(row["hops"]),
        figures.percent((now - then) / now) if is_known else figures.MISSING,
    )


def _link(left: str, right: str) -> Link:
    return min((left, right), (right, left))


def _in_order(links: Iterable[Link]) -> list[Link]:
    return [_link(left, right) for left, right in links]
