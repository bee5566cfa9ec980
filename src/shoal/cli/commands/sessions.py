"""`shoal sessions`: which sessions a live network has, page by page, and to delete one."""

from __future__ import annotations

import asyncio
import heapq
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal
from urllib.parse import urlencode

import typer
from rich.console import Console
from rich.filesize import decimal

from shoal.cli.support.errors import UserError
from shoal.cli.support.live.operators import (
    Operator,
    OperatorCertificate,
    OperatorPassword,
    read_caller,
)
from shoal.cli.support.live.orders import order_everywhere, that_answers
from shoal.cli.support.live.statuses import Statuses, admin_addresses, ask_status, problem_of
from shoal.cli.support.live.wrongs import duration
from shoal.cli.support.rows import show_rows

if TYPE_CHECKING:
    from shoal.runtime.addresses import Address
    from shoal.runtime.network_file import NetworkFile
    from shoal.runtime.operations.caller import Caller

Row = dict[str, Any]


def sessions(
    action: Annotated[Literal["list", "delete"], typer.Argument(help="The action.")],
    network_file: Annotated[Path, typer.Argument(metavar="NETWORK.toml", help="The network.")],
    client: Annotated[
        str, typer.Argument(help="A client identifier: list or delete this session only.")
    ] = "",
    user: Annotated[str, typer.Option(help="Only this user's.")] = "",
    away: Annotated[bool, typer.Option("--away", help="Only of disconnected clients.")] = False,
    most: Annotated[int, typer.Option(min=1, metavar="N", help="List so many.")] = 50,
    begin: Annotated[
        str, typer.Option("--from", metavar="CLIENT", help="From this identifier on.")
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
    operator: Operator = "",
    operator_password: OperatorPassword = "",
    operator_certificate: OperatorCertificate = "",
) -> None:
    """List the sessions of a running network in the order of their clients, or delete one.

    Deleting a session ends its connection, too; its will is published, and its queued messages are
    lost.
    """
    from shoal.cli.support.live.networks import read_network

    network = read_network(network_file, has_files=False)
    caller = read_caller(network, operator, operator_password, operator_certificate)
    if action == "delete":
        if not client:
            raise UserError("delete: give the client identifier of the session")
        broker = asyncio.run(_delete(network, caller, client))
        print(f"the session of {client} at {broker} is deleted")
        return
    found = asyncio.run(_list(network, caller, client, user, begin, most, is_away=away))
    statuses, rows, behind = found
    if as_json:
        print(json.dumps({"sessions": rows, "next": behind}, indent=2))
    else:
        _show(rows, behind)
        for name, answer in statuses.items():
            if answer is None:
                print(f"not asked: {name} {statuses.why_not(name)}")
    if client and not rows:
        raise typer.Exit(1)


async def _list(
    network: NetworkFile,
    caller: Caller,
    client: str,
    user: str,
    begin: str,
    most: int,
    *,
    is_away: bool,
) -> tuple[Statuses, list[Row], str | None]:
    """So many rows of all brokers, and the client with which the next page begins."""
    statuses = await ask_status(network, caller)
    here = admin_addresses(network, statuses)

    def is_wanted(row: Row) -> bool:
        return (not user or row["user"] == user) and not (is_away and row["address"] is not None)

    async def first_of(name: str) -> list[Row]:
        """As many as may be among the first of all."""
        rows: list[Row] = []
        async for row in _sessions_of(name, here[name], caller.to(name), client, begin):
            if is_wanted(row):
                rows.append(row)
            if len(rows) > most:
                break
        return rows

    found = await asyncio.gather(*map(first_of, here))
    merged = heapq.merge(*found, key=lambda row: (row["client"], row["broker"]))
    rows = [row for row, _ in zip(merged, range(most + 1), strict=False)]
    behind = rows[most]["client"] if len(rows) > most else None
    return statuses, rows[:most], behind


async def _sessions_of(
    name: str, address: Address, caller: Caller, client: str, begin: str
) -> AsyncIterator[Row]:
    from shoal.runtime.supervisor import get_json

    query: str | None = urlencode({"client": client} if client else {"from": begin})
    while query is not None:
        try:
            found = await get_json(address, f"/clients?{query}", caller)
        except OSError as error:
            raise UserError(f"{name} does not answer: {problem_of(error)}") from error
        for row in found["clients"]:
            yield {"broker": name, **row}
        query = found["next"]


async def _delete(network: NetworkFile, caller: Caller, client: str) -> str:
    """Delete the session and return its broker; each broker is asked, and the one with the session
    deletes it.
    """
    statuses = await ask_status(network, caller)
    absent = f"{client} has no session at {{broker}}"
    known = await order_everywhere(
        network, statuses, caller, "delete-session", absent, client=client
    )
    if not known:
        where = that_answers(network, statuses)
        raise UserError(f"no broker{where} has a session of {client}")
    done = next((name for name, problem in known.items() if not problem), "")
    if not done:
        raise UserError("; ".join(f"{name}: {problem}" for name, problem in known.items()))
    return done


def _show(rows: list[Row], behind: str | None) -> None:
    console = Console(highlight=False)
    if not rows:
        console.print("no sessions")
        return
    headings = ["client", "user", "broker", "state", "kept for", "subscriptions", "queued", "size"]
    cells = [
        [
            row["client"],
            row["user"],
            row["broker"],
            _state(row),
            "ever" if row.get("expiry_s", 0) is None else duration(row.get("expiry_s")),
            f"{row['subscriptions']:,}",
            f"{row['waiting'] + row['in_flight']:,}",
            decimal(row["waiting_bytes"]),
        ]
        for row in rows
    ]
    users = any(row["user"] for row in rows)
    if not users:
        headings.remove("user")
        for each in cells:
            del each[1]
    show_rows(console, headings, cells, numbers=("subscriptions", "queued", "size"))
    if behind is not None:
        console.print(f"next page: --from {behind}", soft_wrap=True, markup=False)


def _state(row: Row) -> str:
    if row["address"] is not None:
        return "connected"
    if row.get("going"):
        return f"on the way to {row['going']}"
    return "away" if row["away_s"] is None else f"away for {duration(row['away_s'])}"
