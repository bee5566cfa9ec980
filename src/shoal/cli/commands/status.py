"""`shoal status`: the status of a live network's brokers."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from shoal.cli.support.errors import UserError
from shoal.cli.support.live.operators import (
    Operator,
    OperatorCertificate,
    OperatorPassword,
    read_caller,
)
from shoal.cli.support.live.statuses import Statuses, ask_status, check_known
from shoal.cli.support.rows import show_table
from shoal.cli.systems.registry import ADVISING, SHOWN

if TYPE_CHECKING:
    from shoal.runtime.network_file import NetworkFile


def status(
    network_file: Annotated[
        Path, typer.Argument(metavar="NETWORK.toml", help="The network to ask.")
    ],
    as_json: Annotated[
        bool, typer.Option("--json", help="All figures, as one JSON object.")
    ] = False,
    advise: Annotated[
        bool, typer.Option("--advise", help="The links its brokers recommend, as TOML.")
    ] = False,
    details: Annotated[
        bool, typer.Option("--details", "-d", help="Also each broker's tables and decisions.")
    ] = False,
    broker: Annotated[
        str, typer.Option("--broker", "-b", metavar="NAME", help="Only this one, with details.")
    ] = "",
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Repeat until Ctrl-C.")] = False,
    every: Annotated[
        float, typer.Option(min=0.1, metavar="S", help="With --watch: seconds between.")
    ] = 2.0,
    operator: Operator = "",
    operator_password: OperatorPassword = "",
    operator_certificate: OperatorCertificate = "",
) -> None:
    """Ask every broker of a network for its status: problems first, then a line for each.

    With details: links, tables, disks, refusals, moves of publishers with reasons. Exit code 1 when
    a broker does not answer, is not ready or lacks a link.
    """
    from shoal.cli.support.live.networks import read_network

    if watch and (as_json or advise):
        raise UserError("--watch: shows the tables; leave --json and --advise out")
    if broker and advise:
        raise UserError("--advise: is about all brokers; leave --broker out")
    if as_json and advise:
        raise UserError("--advise: prints TOML; leave --json out")
    network = read_network(network_file, has_files=False)
    adviser = ADVISING.get(network.system) if advise else None
    if advise and adviser is None:
        able = ", ".join(ADVISING)
        raise UserError(f"{network.name}: {network.system} recommends no links; {able} does")
    silent = [broker.name for broker in network.brokers if not broker.admin]
    if len(silent) == len(network.brokers):
        raise UserError(f"{network_file}: no broker has an admin address; give it one (admin = …)")
    caller = read_caller(network, operator, operator_password, operator_certificate)

    def ask() -> Statuses:
        found = asyncio.run(ask_status(network, caller))
        if broker:
            check_known(network, found, broker)
        return found.only(broker) if broker else found

    has_details = details or bool(broker)
    if watch:
        _watch(network, ask, every, has_details=has_details)
        return
    statuses = ask()
    if adviser is not None:
        print(adviser.of_network(network, statuses))
    elif as_json:
        print(json.dumps(statuses, indent=2))
    else:
        _show(Console(), network, statuses, has_details=has_details)
    if any(each is None or each["missing"] for each in statuses.values()):
        raise typer.Exit(1)


def _watch(
    network: NetworkFile, ask: Callable[[], Statuses], every_s: float, *, has_details: bool
) -> None:
    """Show the status, and changes, until Ctrl-C."""
    console = Console()
    try:
        while True:
            statuses = ask()
            console.clear()
            console.print(f"{network.name}, {datetime.now():%H:%M:%S}", highlight=False)
            _show(console, network, statuses, has_details=has_details)
            time.sleep(every_s)
    except (KeyboardInterrupt, BrokenPipeError):
        return


def _show(
    console: Console, network: NetworkFile, statuses: Statuses, *, has_details: bool = False
) -> None:
    """Print problems, then a line for each broker; with details, the tables of each."""
    from shoal.cli.support.live import overview
    from shoal.cli.support.live.wrongs import wrongs
    from shoal.overlays.registry import SYSTEMS

    strangers = (
        f"[yellow]{each}, so it has no effect[/yellow]" for each in network.strangers(statuses)
    )
    heading = f"{network.name}: {overview.summary(statuses)}"
    for text in chain((heading,), wrongs(statuses, time.time_ns() // 1_000), strangers):
        console.print(text, soft_wrap=True, highlight=False)
    console.print(overview.overview(statuses))
    for text in overview.footnotes(statuses):
        console.print(text, soft_wrap=True, highlight=False)
    if not has_details:
        hint = "more: --details, --broker NAME; all: --json"
        console.print(hint, soft_wrap=True, highlight=False, style="dim")
        return
    system = SYSTEMS[network.system]
    overview.details(console, statuses, system.records)
    shown = [show(statuses) for show in SHOWN]
    for further in (overview.moved(statuses), *shown, overview.told(statuses, system.told)):
        if further.row_count:
            show_table(console, further)
