"""`shoal retained`: lists and deletes the retained messages of a live network."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple
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
from shoal.cli.support.live.statuses import (
    admin_addresses,
    ask_status,
    check_known,
    problem_of,
)
from shoal.cli.support.live.wrongs import duration
from shoal.cli.support.rows import show_rows

if TYPE_CHECKING:
    from shoal.runtime.addresses import Address
    from shoal.runtime.network_file import NetworkFile
    from shoal.runtime.operations.caller import Caller

Row = dict[str, Any]


class _RetainedQuery(NamedTuple):
    """The broker that is asked: every broker has all retained messages."""

    name: str
    address: Address
    caller: Caller


def retained(
    action: Annotated[Literal["list", "delete"], typer.Argument(help="The action.")],
    network_file: Annotated[Path, typer.Argument(metavar="NETWORK.toml", help="The network.")],
    topic_filter: Annotated[
        str, typer.Argument(metavar="FILTER", help="A topic, or a topic filter.")
    ] = "#",
    broker: Annotated[str, typer.Option("--broker", "-b", help="Which to ask.")] = "",
    most: Annotated[int, typer.Option(min=1, metavar="N", help="List so many.")] = 50,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Delete all matches of a filter without a question.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="All there are, as JSON.")] = False,
    operator: Operator = "",
    operator_password: OperatorPassword = "",
    operator_certificate: OperatorCertificate = "",
) -> None:
    """List the retained messages of a running network, or delete them, on a topic or on many.

    A list says topics, sizes and publishers; `shoal subscribe` shows payloads, to clients with read
    access. Deletion is an order: subscribers of a topic get the empty message that deletes.
    """
    from shoal.cli.support.live.networks import read_network
    from shoal.matching.topics.filters import TopicError, read_topic_filter

    try:
        wildcards = read_topic_filter(topic_filter).has_wildcards
    except TopicError as error:
        raise UserError(str(error)) from error
    network = read_network(network_file, has_files=False)
    caller = read_caller(network, operator, operator_password, operator_certificate)
    asked = asyncio.run(_choose(network, caller, broker))
    if action == "list":
        limit = None if as_json else most
        rows, has_more = asyncio.run(_list(asked, topic_filter, limit))
        _show(rows, has_more=has_more, as_json=as_json, topic_filter=topic_filter)
        return
    if wildcards and not yes:
        rows, _ = asyncio.run(_list(asked, topic_filter, None))
        _confirm(len(rows), topic_filter)
    asyncio.run(_delete(asked, topic_filter))
    print(f"deleted the retained messages on {topic_filter}")


async def _choose(network: NetworkFile, caller: Caller, broker: str) -> _RetainedQuery:
    statuses = await ask_status(network, caller)
    if broker:
        check_known(network, statuses, broker)
    here = admin_addresses(network, statuses)
    name = broker or next(iter(here))
    if name not in here:
        raise UserError(f"{name} {statuses.why_not(name)}")
    return _RetainedQuery(name, here[name], caller.to(name))


async def _list(
    asked: _RetainedQuery, topic_filter: str, most: int | None
) -> tuple[list[Row], bool]:
    """So many messages, and whether there are more."""
    from shoal.runtime.supervisor import get_json

    rows: list[Row] = []
    query: str | None = urlencode({"filter": topic_filter})
    while query is not None and (most is None or len(rows) <= most):
        try:
            found = await get_json(asked.address, f"/retained?{query}", asked.caller)
        except OSError as error:
            raise UserError(f"{asked.name} does not answer: {problem_of(error)}") from error
        if "problem" in found:
            raise UserError(f"{asked.name}: {found['problem']}")
        rows += found["retained"]
        query = found["next"]
    more = most is not None and (len(rows) > most or query is not None)
    return rows[:most], more


async def _delete(asked: _RetainedQuery, topic_filter: str) -> None:
    from shoal.runtime.supervisor import order

    try:
        problem = await order(asked.address, "delete-retained", asked.caller, filter=topic_filter)
    except OSError as error:
        raise UserError(f"{asked.name} does not answer: {problem_of(error)}") from error
    if problem:
        raise UserError(f"{asked.name}: {problem}")


def _confirm(number: int, topic_filter: str) -> None:
    question = f"{number:,} retained messages match {topic_filter}"
    if not sys.stdin.isatty():
        raise UserError(f"{question}: say --yes to delete them")
    if not typer.confirm(f"{question}: delete them?"):
        raise UserError("nothing was deleted")


def _show(rows: list[Row], *, has_more: bool, as_json: bool, topic_filter: str) -> None:
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    console, now_s = Console(highlight=False), time.time()
    if not rows:
        console.print(f"nothing is retained on {topic_filter}", soft_wrap=True, markup=False)
        return
    headings = ["topic", "size", "QoS", "publisher", "age", "expires in"]
    cells = [
        [
            row["topic"],
            decimal(row["bytes"]),
            str(row["qos"]),
            row["publisher"],
            duration(max(0.0, now_s - row["published_s"])),
            duration(row["expires_in_s"]),
        ]
        for row in rows
    ]
    show_rows(console, headings, cells, numbers=("size", "QoS"))
    if has_more:
        console.print("there are more: --most N, or another filter", soft_wrap=True)
