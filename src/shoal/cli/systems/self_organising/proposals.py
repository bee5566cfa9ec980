"""Outcomes of the links that brokers proposed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table

from shoal.cli.support.live.statuses import Statuses, clock

if TYPE_CHECKING:
    from shoal.overlays.self_organising.records import ProposalRecord

# Of all brokers together, of those that ended and of the others.
PROPOSALS_SHOWN = 10


def proposed(statuses: Statuses) -> Table:
    """Return the last proposed links with their outcomes, and the last exchanges."""
    table = Table(
        title="links that were proposed",
        caption="cost: of the cycle that the new link closes, in an interval",
        title_justify="left",
        caption_justify="left",
    )
    for column in ("at", "new link", "instead of", "outcome", "cost", "said by"):
        table.add_column(column)
    rows = proposals(statuses)
    ended = [row for row in rows if row.outcome in ("done", "failed")][-PROPOSALS_SHOWN:]
    others = [row for row in rows if row.outcome not in ("done", "failed")][-PROPOSALS_SHOWN:]
    for row in sorted([*ended, *others], key=lambda row: row.at_us):
        old = f"{row.old_left} - {row.old_right}" if row.old_left else ""
        table.add_row(
            clock(row.at_us),
            f"{row.left} - {row.right}",
            old,
            f"{row.outcome}: {row.reason}" if row.reason else row.outcome,
            _cost(row),
            row.broker,
        )
    return table


def _cost(row: ProposalRecord) -> str:
    if not row.cost_now or row.cost_then is None:
        return ""
    percent = 100 * (row.cost_now - row.cost_then) / row.cost_now
    return f"{percent:.0f} % less: {row.cost_then:.4g}, not {row.cost_now:.4g}"


def proposals(statuses: Statuses) -> list[ProposalRecord]:
    """Return proposed links with their outcomes, in order."""
    from shoal.overlays.self_organising.records import ProposalRecord

    return [ProposalRecord(**row) for row in statuses.in_order("proposals")]
