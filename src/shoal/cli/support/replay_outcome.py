"""Results of replays through live brokers, for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from shoal.report.replays import Replay


def show_replays(console: Console, replays: Sequence[Replay]) -> None:
    """Print the table, the changes, the moves, and the problems."""
    from shoal.report.replays import effects, held_back, moved, moved_sentence, problems

    first = replays[0]
    console.print(
        f"live: {first.brokers} brokers, {first.publications:,} publications of "
        f"{first.publishers} MQTT clients for {first.subscriptions:,} subscribers",
        highlight=False,
        soft_wrap=True,
    )
    if any(replay.measured is not None for replay in replays):
        console.print(replay_table(replays))
    for text in (*effects(replays), *held_back(replays)):
        console.print(text, highlight=False, soft_wrap=True)
    for replay in replays:
        transfers = moved(replay)
        if transfers:
            console.print(moved_sentence(replay), highlight=False, soft_wrap=True)
        for home, lasts in transfers.items():
            there = "; ".join(f"{last}: {', '.join(names)}" for last, names in lasts.items())
            console.print(f"  from {home} to {there}", highlight=False)
    for replay in replays:
        for problem in problems(replay):
            console.print(problem, highlight=False, soft_wrap=True)


def replay_table(replays: Sequence[Replay]) -> Table:
    """Predicted and measured, side by side for each replay."""
    from shoal.report.replays import LINES, cell

    table = Table(box=None, pad_edge=False, padding=(0, 0, 0, 1))
    table.add_column("")
    for replay in replays:
        table.add_column(f"{replay.name}:\npredicted", justify="right")
        table.add_column("\nmeasured", justify="right", style="bold")
        table.add_column("\noff by", justify="right", style="dim")
    for line in LINES:
        cells = [part for replay in replays for part in cell(line, replay)]
        table.add_row(f"{line.label}, {line.unit}" if line.unit else line.label, *cells)
    return table
