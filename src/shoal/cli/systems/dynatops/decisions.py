"""Recent decisions about places."""

from __future__ import annotations

from rich.table import Table

from shoal.cli.support.live.statuses import Statuses, clock

# Of all brokers together.
DECISIONS_SHOWN = 10


def decided(statuses: Statuses) -> Table:
    """The last that was decided about where brokers of a ring stand, and where users should be."""
    table = Table(title="better places", title_justify="left")
    for column in ("at", "what", "said by"):
        table.add_column(column)
    for row in statuses.in_order("reconfigurations")[-DECISIONS_SHOWN:]:
        what = "brokers stay" if row["outcome"] == "kept" else f"brokers: {row['outcome']}"
        if row["moved"]:
            what = f"{row['moved']} brokers changed places: "
            what += f"saves {row['benefit']:,.0f} for {row['price']:,.0f}"
        table.add_row(clock(row["at_us"]), what, row["broker"])
    for row in statuses.in_order("placements")[-DECISIONS_SHOWN:]:
        what = f"user {row['client']} should go to {row['target']}"
        table.add_row(clock(row["at_us"]), what, row["broker"])
    return table
