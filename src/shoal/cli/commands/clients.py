"""`shoal clients`: the clients of a live network, their brokers and queues."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.filesize import decimal

from shoal.cli.support.live.client_rows import Row, ask_clients, present_rows
from shoal.cli.support.live.operators import (
    Operator,
    OperatorCertificate,
    OperatorPassword,
    read_caller,
)
from shoal.cli.support.rows import show_rows

# By the name that brokers have for it.
_COUNTS = {
    "subscriptions": "subscriptions",
    "published": "published",
    "in_flight": "in flight",
    "waiting": "waiting",
    "waiting_bytes": "bytes",
    "dropped": "dropped",
}


def clients(
    network_file: Annotated[Path, typer.Argument(metavar="NETWORK.toml", help="The network.")],
    client: Annotated[str, typer.Argument(help="Only this one, by its identifier.")] = "",
    user: Annotated[str, typer.Option(help="Only this user's.")] = "",
    away: Annotated[bool, typer.Option("--away", help="Only disconnected clients.")] = False,
    most: Annotated[int, typer.Option(min=1, metavar="N", help="List so many.")] = 20,
    by: Annotated[
        Literal["waiting", "published", "dropped"],
        typer.Option(
            metavar="FIGURE",
            help="The order: waiting, published or dropped messages; the most first.",
        ),
    ] = "waiting",
    as_json: Annotated[bool, typer.Option("--json", help="All figures, as JSON.")] = False,
    operator: Operator = "",
    operator_password: OperatorPassword = "",
    operator_certificate: OperatorCertificate = "",
) -> None:
    """Ask every broker of a running network for its clients: their brokers and queues.

    Exit code 1 when a client is asked for and no broker that answers has it.
    """
    from shoal.cli.support.live.networks import read_network

    network = read_network(network_file, has_files=False)
    caller = read_caller(network, operator, operator_password, operator_certificate)
    statuses, rows = asyncio.run(ask_clients(network, caller, client))
    rows = [each for each in rows if not user or each["user"] == user]
    rows = [each for each in rows if not away or each["address"] is None]
    figures = ("waiting_bytes", "waiting") if by == "waiting" else (by,)
    rows.sort(key=lambda row: (*(-row[each] for each in figures), row["client"]))
    if as_json:
        print(json.dumps(rows, indent=2))
    else:
        _show(present_rows(rows), most, is_sought=bool(client or user or away))
        for name, found in statuses.items():
            if found is None:
                print(f"not asked: {name} {statuses.why_not(name)}")
    if client and not rows:
        raise typer.Exit(1)


def _show(rows: list[Row], most: int, *, is_sought: bool) -> None:
    """Print rows with whole identifiers; columns without values share a line below."""
    console = Console(highlight=False)
    if not rows:
        console.print("no such client" if is_sought else "no clients")
        return
    shown = rows[:most]
    nothing = [name for name in _COUNTS if not any(row[name] for row in shown)]
    has_users = any(row["user"] for row in shown)
    counts = {key: heading for key, heading in _COUNTS.items() if key not in nothing}
    headings = ["client", *(["user"] if has_users else []), "broker", "from", *counts.values()]
    show_rows(
        console,
        headings,
        [
            [
                row["client"],
                *([row["user"]] if has_users else []),
                row["broker"],
                _place(row),
                *(
                    decimal(row[key]) if key == "waiting_bytes" else f"{row.get(key, 0):,}"
                    for key in counts
                ),
            ]
            for row in shown
        ],
        numbers=list(counts.values()),
    )
    if nothing:
        console.print(f"0 for all: {', '.join(_COUNTS[name] for name in nothing)}", soft_wrap=True)
    if len(rows) > most:
        console.print(f"{len(rows) - most:,} more")


def _place(row: Row) -> str:
    if row["address"] is not None:
        return f"{row['address']} ({row['listener']})"
    if row.get("going"):
        return f"on the way to {row['going']}"
    return "away" if row["away_s"] is None else f"away for {row['away_s']:,} s"
