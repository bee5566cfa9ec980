"""Decisions of GRAPE and POP: the last publisher moves of each broker, with their figures."""

from __future__ import annotations

from rich.table import Table

from shoal.cli.support.live.statuses import Statuses, clock

# Of all brokers together.
SELECTIONS_SHOWN = 10


def selected(statuses: Statuses) -> Table:
    """Return the last decisions to move a publisher, without decisions to stay."""
    rows = [*statuses.shown("selections"), *statuses.shown("subscriber_selections")]
    table = Table(
        title="why clients were moved",
        caption="load: messages of all brokers together; delay: the mean that was estimated\n"
        "$mqtt/B2: what clients publish at B2 without saying what they will",
        title_justify="left",
        caption_justify="left",
    )
    for column in ("at", "client", "from", "to", "load", "delay"):
        table.add_column(column)
    moved = [row for row in rows if row["target"] != row["broker"]]
    moved.sort(key=lambda row: row["decided_us"])
    for row in moved[-SELECTIONS_SHOWN:]:
        table.add_row(
            clock(row["decided_us"]),
            row.get("publisher") or row.get("subscriber", ""),
            row["broker"],
            row["target"],
            change(row.get("rate_now"), row.get("rate_target")),
            change(row.get("delay_now_us"), row.get("delay_target_us"), "ms", 1_000),
        )
    return table


def change(now: float | None, then: float | None, unit: str = "", scale: float = 1) -> str:
    """Return a change as text; empty if the decision did not use it.

    >>> change(40.0, 30.0), change(10_000, 12_000, "ms", 1_000), change(None, None), change(0, 0)
    ('40 -> 30 (25 % less)', '10 -> 12 ms (20 % more)', '', '0 -> 0')
    """
    if now is None or then is None:
        return ""
    text = f"{now / scale:.3g} -> {then / scale:.3g}{unit and ' '}{unit}"
    percent = 100 * (then - now) / now if now else 0
    if abs(percent) < 0.5:
        return text
    return f"{text} ({abs(percent):.0f} % {'more' if percent > 0 else 'less'})"
