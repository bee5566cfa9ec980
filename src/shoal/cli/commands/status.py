"""`shoal status`: what the brokers of a live network are doing."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.filesize import decimal
from rich.markup import escape
from rich.table import Table

from shoal.cli.support.errors import UserError
from shoal.cli.support.live.operators import (
    Operator,
    OperatorCertificate,
    OperatorPassword,
    read_caller,
)
from shoal.cli.support.live.statuses import Statuses, ask_status, clock
from shoal.cli.systems.registry import ADVISING, SHOWN

if TYPE_CHECKING:
    from shoal.overlays.trace_rows import Told
    from shoal.runtime.network_file import Network
    from shoal.runtime.operations.caller import Caller

DECISIONS_SHOWN = 10


def status(
    network_file: Annotated[
        Path, typer.Argument(metavar="NETWORK.toml", help="The network to ask.")
    ],
    as_json: Annotated[
        bool, typer.Option("--json", help="All there is, as one JSON object.")
    ] = False,
    advise: Annotated[
        bool, typer.Option("--advise", help="The links its brokers recommend, as TOML.")
    ] = False,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Again and again, until Ctrl-C.")
    ] = False,
    every: Annotated[float, typer.Option(min=0.1, help="With --watch: seconds between.")] = 2.0,
    operator: Operator = "",
    operator_password: OperatorPassword = "",
    operator_certificate: OperatorCertificate = "",
) -> None:
    """Ask every broker of a network what it is doing: links, clients, tables, who moved.

    Exit code 1 when a broker does not answer or is not ready.
    """
    from shoal.cli.support.live.networks import read_network

    if watch and (as_json or advise):
        raise UserError("--watch: shows the tables; leave --json and --advise out")
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
    if watch:
        _watch(network, caller, every)
        return
    statuses = asyncio.run(ask_status(network, caller))
    if adviser is not None:
        print(adviser.of_network(network, statuses))
    elif as_json:
        print(json.dumps(statuses, indent=2))
    else:
        _show(Console(), network, statuses)
    if not all(each is not None and each["ready"] for each in statuses.values()):
        raise typer.Exit(1)


def _watch(network: Network, caller: Caller, every_s: float) -> None:
    """Show it, and what changed, until Ctrl-C."""
    console = Console()
    try:
        while True:
            statuses = asyncio.run(ask_status(network, caller))
            console.clear()
            console.print(f"{network.name}, {datetime.now():%H:%M:%S}", highlight=False)
            _show(console, network, statuses)
            time.sleep(every_s)
    except (KeyboardInterrupt, BrokenPipeError):
        return


def _show(console: Console, network: Network, statuses: Statuses) -> None:
    from shoal.overlays.registry import SYSTEMS

    console.print(_table(statuses))
    remarks = (_waiting, _raised, _sent, _refused, _disks, _certificates, _versions)
    for text in (each for remark in remarks for each in remark(statuses)):
        console.print(text, soft_wrap=True, highlight=False)
    for stranger in network.strangers(statuses):
        text = f"[yellow]{stranger}, so it has no effect[/yellow]"
        console.print(text, soft_wrap=True, highlight=False)
    held = _held(statuses, SYSTEMS[network.system].records)
    shown = [show(statuses) for show in SHOWN]
    told = _told(statuses, SYSTEMS[network.system].told)
    for further in (held, _moved(statuses), *shown, told):
        if further.row_count:
            console.print(further)


def _table(statuses: Statuses) -> Table:
    table = Table(
        caption="publications: those handled, brokers' own among them", caption_justify="left"
    )
    for column in ("broker", "state", "up for", "links"):
        table.add_column(column)
    for column in ("clients", "publications", "deliveries"):
        table.add_column(column, justify="right")
    for name, found in statuses.items():
        if found is None:
            table.add_row(name, "[red]no answer[/red]")
            continue
        links = ", ".join(map(_link, found["links"]))
        counts, mqtt = found["counts"], found["mqtt"]
        alone = not found["links"]
        table.add_row(
            name,
            _state(found),
            _duration(found.get("uptime_s")),
            links,
            f"{mqtt['connected']:,}",
            f"{mqtt['publications'] if alone else counts.get('publications_in', 0):,}",
            f"{mqtt['deliveries']:,}",
        )
    return table


def _duration(seconds: float | None) -> str:
    """How long, in the largest unit that is full."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds is not None and seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return "" if seconds is None else f"{seconds:.0f} s"


def _state(found: Mapping[str, Any]) -> str:
    if found.get("clients", {}).get("is_draining"):
        return "[yellow]drained[/yellow]"
    return "ready" if found["ready"] else "[yellow]not ready[/yellow]"


def _waiting(statuses: Statuses) -> Iterator[str]:
    """What those lack that are not ready, and how far those are that leave."""
    for name, found in statuses.items():
        if found is None and (name in statuses.refusals or name in statuses.silences):
            yield f"[red]{name} {escape(statuses.why_not(name))}[/red]"
    for name, found in statuses.items():
        # A broker of an earlier version says no more than that it is not ready.
        if found is not None and (missing := found.get("missing")):
            yield f"[yellow]{name} waits for: {'; '.join(missing)}[/yellow]"
        if found is not None and found["leaving"]["stage"]:
            problem = found["leaving"]["problem"]
            words = f"{name} leaves, busy with: {found['leaving']['stage']}"
            yield f"[yellow]{words}: {problem}[/yellow]" if problem else words


def _raised(statuses: Statuses) -> Iterator[str]:
    """Whose code has raised what nothing caught."""
    for name, found in statuses.items():
        raised = (found or {}).get("exceptions", {})  # brokers of earlier versions say nothing
        if count := raised.get("count"):
            times = "an exception" if count == 1 else f"{count:,} exceptions, the last"
            last = escape(raised["last"])
            yield f"[red]{name} has raised {times} (its log says more): {last}[/red]"


def _sent(statuses: Statuses) -> Iterator[str]:
    """Who is on the way to another broker, and what became of those who were to go."""
    for name, found in statuses.items():
        clients = (found or {}).get("clients", {})
        if clients.get("is_draining") and clients["problem"]:
            yield f"[yellow]{name} still has clients: {clients['problem']}[/yellow]"
        counts = dict(clients.get("moves", {}))
        if clients.get("moving"):
            counts["on their way"] = clients["moving"]
        if counts:
            words = ", ".join(f"{count:,} {outcome}" for outcome, count in counts.items())
            yield f"clients of {name} that were to move: {words}"


def _held(statuses: Statuses, records: Mapping[str, type]) -> Table:
    """What brokers hold to route by, and what their system has recorded since they started."""
    table = Table("broker", "has", title="tables, and what was recorded", title_justify="left")
    for name, found in statuses.items():
        if found is not None:
            counts = dict(found["tables"])
            counts |= {key: found["counts"].get(row.__name__, 0) for key, row in records.items()}
            words = [_counted(key, count) for key, count in counts.items() if count]
            table.add_row(name, ", ".join(words))
    return table


def _counted(table: str, rows: int) -> str:
    """
    >>> _counted("subscriber_selections", 1), _counted("subscriptions", 1_234)
    ('1 subscriber selection', '1,234 subscriptions')
    """
    words = table.replace("_", " ")
    return f"{rows:,} {words.removesuffix('s') if rows == 1 else words}"


def _link(link: Mapping[str, Any]) -> str:
    """A link in a few words."""
    away_us = link.get("away_us", 0)  # brokers of an earlier version do not say
    words = [] if link["state"] == "up" else [link["state"]]
    if words and away_us:
        words = [f"{link['state']} for {_duration(away_us / 1e6)}"]
        if not link.get("connections", 1):  # a broker that has started since knows no more
            words = [f"away for {_duration(away_us / 1e6)} or longer"]
    if congested_us := link.get("congested_us"):
        words.append(f"congested for {congested_us / 1e6:.1f} s")
    if waiting := link.get("buffered_bytes", 0) + link.get("spooled_bytes", 0):
        words.append(f"{decimal(waiting)} wait")
    return f"{link['neighbour']} ({', '.join(words)})" if words else str(link["neighbour"])


def _refused(statuses: Statuses) -> Iterator[str]:
    """What clients and operators were refused since the brokers started."""
    for name, found in statuses.items():
        rows = (found or {}).get("mqtt", {}).get("refusals", ())
        words = [f"{row['count']:,} {row['what']} ({row['reason']})" for row in rows]
        if words:
            yield f"{name}: {', '.join(words)}"


def _disks(statuses: Statuses) -> Iterator[str]:
    """What brokers keep on disk, and who cannot write it."""
    journals = {name: (found or {}).get("journal") for name, found in statuses.items()}
    kept = {name: journal for name, journal in journals.items() if journal}
    if kept:
        sizes = ", ".join(f"{name} {decimal(row['bytes'])}" for name, row in kept.items())
        yield f"on disk: {sizes}"
        # Brokers of an earlier version do not say.
        free = {name: row["free_bytes"] for name, row in kept.items() if "free_bytes" in row}
        if free:
            least = min(free, key=lambda name: free[name])
            yield f"free on their disks: {decimal(free[least])} at least ({least})"
    for name, row in kept.items():
        if row["is_failing"]:
            yield f"[red]{name} cannot write to its disk: it refuses what it could not keep[/red]"


def _certificates(statuses: Statuses) -> Iterator[str]:
    """Those that end soon, or have."""
    from shoal.runtime.tls.endings import remark

    for name, found in statuses.items():
        for row in (found or {}).get("certificates", ()):
            if words := remark(row):
                yield f"[yellow]{name}: {escape(words)}[/yellow]"


def _versions(statuses: Statuses) -> Iterator[str]:
    """Who runs which version, where they are not all of one."""
    found: dict[str, list[str]] = {}
    for name, each in statuses.items():
        if each is not None:
            found.setdefault(each.get("version", "an earlier one"), []).append(name)
    if len(found) > 1:
        words = "; ".join(f"{version}: {', '.join(names)}" for version, names in found.items())
        yield f"[yellow]versions: {words}[/yellow]"


def _moved(statuses: Statuses) -> Table:
    """The publishers that are, or are about to be, elsewhere than their clients."""
    table = Table(title="publishers that moved", title_justify="left")
    for column in ("publisher", "its client is at", "publishes at", "moves"):
        table.add_column(column, justify="right" if column == "moves" else "left")
    for found in statuses.values():
        for row in (found or {}).get("publishers", ()):
            if row["moved"] or row["is_moving"]:
                place = f"{row['broker']} (moving)" if row["is_moving"] else row["broker"]
                table.add_row(row["publisher"], row["door"], place, f"{row['moved']:,}")
    return table


def _told(statuses: Statuses, kinds: Mapping[str, type[Told]]) -> Table:
    """What brokers say happened lately; two may say the same."""
    rows = [kind(**row) for name, kind in kinds.items() for row in statuses.shown(name)]
    rows.sort(key=lambda row: row.at_us)
    table = Table("at", "what", title="what happened", title_justify="left")
    for row in rows[-DECISIONS_SHOWN:]:
        table.add_row(clock(row.at_us), row.in_words())
    return table
