"""`shoal up`: a whole network on this machine."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import AsyncIterator, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from shoal.cli.support.console_pages import check_console
from shoal.cli.support.errors import UserError
from shoal.cli.support.rows import show_table
from shoal.cli.support.up_network import NetworkOptions, with_size_options
from shoal.overlays.registry import SYSTEMS

if TYPE_CHECKING:
    import asyncio

    from shoal.runtime.network_file import NetworkFile


@with_size_options
def up(
    context: typer.Context,
    *,
    port: Annotated[
        int, typer.Option(help="The first broker's MQTT port, the others after it; 0: any free.")
    ] = 1883,
    system: Annotated[
        str, typer.Option(help=f"The brokers' system: {', '.join(SYSTEMS)}.")
    ] = "tree",
    sizes: dict[str, Any],
    host: Annotated[str, typer.Option(help="The address for MQTT clients.")] = "127.0.0.1",
    websockets: Annotated[
        bool, typer.Option("--websockets", help="Let MQTT clients in over WebSocket, too.")
    ] = False,
    scenario: Annotated[
        Path | None,
        typer.Option(
            metavar="SCENARIO.toml",
            help="Start a scenario's network: its brokers, links, system and parameters.",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY.PATH=VALUE",
            help="Change a key of the scenario; without one, of the system's parameters.",
        ),
    ] = None,
    folder: Annotated[
        Path | None, typer.Option(help="For the network file and the logs; else a temporary one.")
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder for sessions and retained messages, for the next run; without it they "
            "are deleted at the end.",
        ),
    ] = None,
    log: Annotated[
        bool, typer.Option("--log", help="Log publications; `shoal log read` gives them back.")
    ] = False,
    console: Annotated[
        bool,
        typer.Option("--console", help="Show the network in a browser, with orders allowed."),
    ] = False,
) -> None:
    """Start a network of brokers on this machine, a process each; Ctrl-C stops it.

    The brokers are linked as their system needs it (a balanced tree, each with each), those of a
    scenario as it says. A broker whose process dies is started again, with all its clients'
    sessions, their queued messages, and retained messages.
    """
    from shoal.runtime.forks import prepare

    options = NetworkOptions(sizes, port, system, host, websockets, scenario, settings)
    options.check(context)
    if console:
        check_console()
    prepare()
    try:
        network, path = _write(options.network(), folder, data, has_log=log)
    except OSError as error:
        # An error without a file is about a listener's address.
        where = error.filename or f"--host {host}: brokers cannot listen there"
        raise UserError(f"{where}: {error.strerror}") from error
    _run(network, path, forget=data is None, has_console=console)
    print("stopped")


def _write(
    network: NetworkFile, folder: Path | None, data: Path | None, *, has_log: bool
) -> tuple[NetworkFile, Path]:
    """Return the network with a folder for its state, and its file."""
    from shoal.runtime.network_file import dump_network, problems
    from shoal.runtime.network_sections import StorageSection
    from shoal.runtime.supervisor import with_logs

    home = folder if folder is not None else Path(tempfile.mkdtemp(prefix="shoal-"))
    for option, chosen in (("--folder", folder), ("--data", data)):
        if chosen is not None and chosen.exists() and not chosen.is_dir():
            raise UserError(f"{option} {chosen}: is a file; give a folder")
    home.mkdir(parents=True, exist_ok=True)
    place = str((data or home / "data").resolve())
    # State that is deleted at the end need not outlast a power cut.
    storage = StorageSection(folder=place, sync="never" if data is None else "second")
    network = msgspec.structs.replace(network, storage=storage)
    if has_log:
        network = with_logs(network, place, storage.sync)
    if found := problems(network):
        raise UserError("\n       ".join(found))
    path = home / "network.toml"
    path.write_text(dump_network(network), encoding="utf-8")
    return network, path


def _run(network: NetworkFile, path: Path, *, forget: bool, has_console: bool) -> None:
    """Run until Ctrl-C; with `forget`, delete the brokers' state then."""
    from shoal.runtime.serving import run_until_signal
    from shoal.runtime.supervisor import StartError, Supervisor

    async def run(stop: asyncio.Event) -> None:
        supervisor = Supervisor(network, path)
        try:
            await supervisor.start()
            _show(network, path, supervisor.left, supervisor.stopped)
            async with _console(network) if has_console else contextlib.nullcontext():
                print("Ctrl-C stops it", flush=True)
                await stop.wait()
        finally:
            await supervisor.stop()

    try:
        run_until_signal(run)
    except StartError as error:
        raise UserError(str(error)) from error
    except TimeoutError as error:
        problem = f"the brokers did not get ready: {error}; see the logs in {path.parent}"
        raise UserError(problem) from None
    if forget:
        shutil.rmtree(path.parent / "data", ignore_errors=True)


def _show(
    network: NetworkFile, path: Path, left: Collection[str], stopped: Collection[str]
) -> None:
    absent = {*left, *stopped}
    brokers = [broker for broker in network.brokers if broker.name not in absent]
    table = Table(title=f"{len(brokers)} brokers, {network.system}", title_justify="left")
    columns = ["broker", "MQTT", "admin"]
    if network.brokers[0].websocket:
        columns.insert(2, "WebSocket")
    if network.links:
        columns.append("linked to")
    for column in columns:
        table.add_column(column)
    for broker in brokers:
        websocket = [broker.websocket] if broker.websocket else []
        there = ", ".join(name for name in network.neighbours(broker.name) if name not in absent)
        links = [there] if network.links else []
        table.add_row(broker.name, broker.mqtt, *websocket, broker.admin, *links)
    console = Console()
    show_table(console, table)
    if SYSTEMS[network.system].shape.opens_links:
        console.print("brokers open their links themselves", highlight=False)
    if stopped:
        names = ", ".join(sorted(stopped))
        console.print(f"spare, started by load: {names}", soft_wrap=True, highlight=False)
    if left:
        names = ", ".join(sorted(left))
        console.print(f"not started, as they have left: {names}", soft_wrap=True, highlight=False)
    console.print(f"network file and logs in {path.parent}", soft_wrap=True, highlight=False)
    console.print(f"look at it: shoal status {path}", soft_wrap=True, highlight=False)
    if network.log.folder:
        console.print(
            f"read what it carried: shoal log read {path}", soft_wrap=True, highlight=False
        )


@contextlib.asynccontextmanager
async def _console(network: NetworkFile) -> AsyncIterator[None]:
    """Serve the console meanwhile."""
    from shoal.console.serving import default_address, running_console
    from shoal.runtime.operations.caller import ANYBODY

    async with running_console(network, ANYBODY, default_address(), allows_orders=True) as url:
        Console().print(f"console: {url}", soft_wrap=True, highlight=False)
        yield
