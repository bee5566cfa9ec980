"""`shoal top`: which clients, topics and filters of a live network are heavy, or lag behind."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

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
from shoal.cli.support.live.statuses import (
    Statuses,
    admin_addresses,
    ask_status,
    check_known,
    problem_of,
)
from shoal.cli.support.rows import show_rows

if TYPE_CHECKING:
    from shoal.runtime.network_file import NetworkFile
    from shoal.runtime.operations.caller import Caller

# By kind and measure, how much a second of each name.
Found = dict[str, dict[str, Counter[str]]]
_HEADINGS = {"clients": "client that publishes", "topics": "topic", "filters": "filter"}


def top(
    network_file: Annotated[Path, typer.Argument(metavar="NETWORK.toml", help="The network.")],
    by: Annotated[
        Literal["messages", "bytes", "time"],
        typer.Option(
            metavar="FIGURE",
            help="The order: messages, bytes, or time of testing filters; the most first.",
        ),
    ] = "messages",
    most: Annotated[int, typer.Option(min=1, max=50, metavar="N", help="So many of each.")] = 10,
    broker: Annotated[str, typer.Option("--broker", "-b", help="Only at this one.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="All figures, as JSON.")] = False,
    operator: Operator = "",
    operator_password: OperatorPassword = "",
    operator_certificate: OperatorCertificate = "",
) -> None:
    """Say which clients publish most, to which topics, which filters cost most, and which clients
    lose or wait most.

    Rates are from samples of the last two to four minutes: estimates, of which the large ones are
    good. Messages that wait, and those that were dropped, are counted exactly.
    """
    from shoal.cli.support.live.networks import read_network

    network = read_network(network_file, has_files=False)
    caller = read_caller(network, operator, operator_password, operator_certificate)
    statuses, found = asyncio.run(_ask(network, caller, broker))
    worst = _worst_clients(statuses)[:most]
    if as_json:
        print(json.dumps({**found, "worst_clients": worst}, indent=2))
        return
    console = Console(highlight=False)
    for kind, heading in _HEADINGS.items():
        _show(console, heading, found.get(kind, {}), by, most)
    _show_worst(console, worst)
    for name, answer in statuses.items():
        if answer is None:
            print(f"not asked: {name} {statuses.why_not(name)}")


async def _ask(network: NetworkFile, caller: Caller, broker: str) -> tuple[Statuses, Found]:
    """Return all brokers' samples, together."""
    from shoal.runtime.supervisor import get_json

    statuses = await ask_status(network, caller)
    if broker:
        check_known(network, statuses, broker)
        statuses = statuses.only(broker)
    here = admin_addresses(network, statuses)

    async def ask(name: str) -> dict[str, Any]:
        try:
            return await get_json(here[name], "/top", caller.to(name))
        except OSError as error:
            raise UserError(f"{name} does not answer: {problem_of(error)}") from error

    total: Found = {}
    for answer in await asyncio.gather(*map(ask, here)):
        for kind, measures in answer.items():
            for measure, rows in measures.items():
                counts = total.setdefault(kind, {}).setdefault(measure, Counter())
                for row in rows:
                    counts[row["name"]] += row["per_s"]
    return statuses, total


def _show(
    console: Console, heading: str, found: Mapping[str, Counter[str]], by: str, most: int
) -> None:
    measure = by if by in found else "messages"
    names = [name for name, _ in found.get(measure, Counter()).most_common(most)]
    if not names:
        console.print(f"{heading}: none lately")
        return
    columns = {"messages": "messages/s", "bytes": "bytes/s", "time": "CPU"}
    shown = [key for key in columns if key in found]
    rows = [[name, *(_amount(key, found[key][name]) for key in shown)] for name in names]
    headings = [columns[key] for key in shown]
    show_rows(console, [heading, *headings], rows, numbers=headings)


def _worst_clients(statuses: Statuses) -> list[dict[str, Any]]:
    """All brokers' clients that lose or wait, with their brokers; those that lose first."""
    rows = [
        {**row, "broker": name}
        for name, answer in statuses.items()
        if answer is not None
        for row in answer["worst_clients"]
        if row["waiting"] or row["dropped_us"] is not None
    ]
    return sorted(rows, key=lambda row: (row["dropped_us"] is None, -row["waiting"]))


def _show_worst(console: Console, worst: Sequence[Mapping[str, Any]]) -> None:
    if not worst:
        console.print("no client has messages that wait")
        return
    headings = ["client that lags", "broker", "waiting", "bytes", "in flight", "dropped"]
    rows = [
        [
            *(row["client"], row["broker"], f"{row['waiting']:,}", decimal(row["waiting_bytes"])),
            *(f"{row['in_flight']:,}", f"{row['dropped']:,}"),
        ]
        for row in worst
    ]
    show_rows(console, headings, rows, numbers=headings[2:])


def _amount(measure: str, per_s: float) -> str:
    """
    >>> _amount("messages", 1234.5), _amount("bytes", 1500.0), _amount("time", 0.0123)
    ('1,234', '1.5 kB', '1.23 %')
    """
    if measure == "bytes":
        return decimal(round(per_s))
    if measure == "time":
        return f"{100 * per_s:.3g} %"
    return f"{per_s:,.0f}" if per_s >= 9.95 else f"{per_s:.2g}"
