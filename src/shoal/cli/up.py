"""`shoal up`: a whole network on this machine."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from shoal.cli.errors import UserError

if TYPE_CHECKING:
    import asyncio

    from shoal.overlays.bluedove.segments import Dimension
    from shoal.runtime.network_file import Network

MAX_BROKERS = 200


def up(
    context: typer.Context,
    brokers: Annotated[int, typer.Option("--brokers", "-n", help="How many brokers.")] = 3,
    port: Annotated[
        int, typer.Option(help="The first broker's MQTT port, the others after it; 0: any free.")
    ] = 1883,
    system: Annotated[
        str, typer.Option(help="What the brokers run: tree, grape, pop or bluedove.")
    ] = "tree",
    dispatchers: Annotated[int, typer.Option(help="BlueDove: brokers for clients.")] = 2,
    matchers: Annotated[int, typer.Option(help="BlueDove: brokers that match.")] = 4,
    dimensions: Annotated[
        list[str] | None,
        typer.Option(
            "--dimension", metavar="NAME=LOW:HIGH", help="BlueDove: what to divide by; repeatable."
        ),
    ] = None,
    host: Annotated[str, typer.Option(help="Where MQTT clients connect.")] = "127.0.0.1",
    websockets: Annotated[
        bool, typer.Option("--websockets", help="Let MQTT clients in over WebSocket, too.")
    ] = False,
    scenario: Annotated[
        Path | None,
        typer.Option(
            metavar="SCENARIO.toml",
            help="Start what a scenario describes: its brokers, links, system and parameters.",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY.PATH=VALUE", help="Change a key of the scenario."),
    ] = None,
    folder: Annotated[
        Path | None, typer.Option(help="For the network file and the logs; else a temporary one.")
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Where brokers keep sessions and retained messages for the next run, too; "
            "else they are forgotten when it stops.",
        ),
    ] = None,
) -> None:
    """Start a network of brokers on this machine, a process each; Ctrl-C stops it.

    The brokers are linked as a balanced tree, those of BlueDove each with each, those of a
    scenario as it says.  A broker whose process dies is started again, with all its clients'
    sessions, what waits in them, and retained messages.
    """
    from shoal.overlays.registry import SYSTEMS
    from shoal.runtime.network_file import StorageSection, dump_network, problems
    from shoal.runtime.serving import run_until_signal
    from shoal.runtime.supervisor import StartError, Supervisor, local_cluster, local_network

    if system not in SYSTEMS:
        raise UserError(f"--system {system}: use one of {', '.join(SYSTEMS)}")
    is_tree = SYSTEMS[system].needs_tree
    _check_count("--brokers", brokers)
    _check_count("--dispatchers", dispatchers)
    _check_count("--matchers", matchers)
    if scenario is None:
        _check_port(port, brokers if is_tree else dispatchers)
        if settings:
            raise UserError("--set changes a scenario; name one by --scenario")
    else:
        _check_said_once(context)
    try:
        if scenario is not None:
            network = _of_scenario(scenario, settings or (), host, port, websockets)
        elif is_tree:
            network = local_network(brokers, system, host=host, port=port, websockets=websockets)
        else:
            axes = tuple(_dimension(text) for text in dimensions or ("x=0:1000",))
            network = local_cluster(
                dispatchers, matchers, axes, host=host, port=port, websockets=websockets
            )
        home = folder if folder is not None else Path(tempfile.mkdtemp(prefix="shoal-"))
        home.mkdir(parents=True, exist_ok=True)
        place = str((data or home / "data").resolve())
        # What is forgotten at the end need not outlast a power cut.
        storage = StorageSection(folder=place, sync="never" if data is None else "second")
        network = msgspec.structs.replace(network, storage=storage)
        if found := problems(network):
            raise UserError("\n       ".join(found))
        path = home / "network.toml"
        path.write_text(dump_network(network), encoding="utf-8")
    except OSError as error:
        raise UserError(str(error)) from error

    async def run(stop: asyncio.Event) -> None:
        supervisor = Supervisor(network, path)
        try:
            await supervisor.start()
            _show(network, path)
            await stop.wait()
        finally:
            await supervisor.stop()

    try:
        run_until_signal(run)
    except StartError as error:
        raise UserError(str(error)) from error
    except TimeoutError:
        raise UserError(f"the brokers did not get ready; see the logs in {home}") from None
    if data is None:
        shutil.rmtree(home / "data", ignore_errors=True)
    print("stopped")


def _check_count(option: str, count: int) -> None:
    if not 1 <= count <= MAX_BROKERS:
        raise UserError(f"{option} {count}: use 1 to {MAX_BROKERS}")


def _check_port(port: int, doors: int) -> None:
    if not 0 <= port <= 65_535 - doors:
        raise UserError(f"--port {port}: is not a port that leaves room for {doors} brokers")


def _check_said_once(context: typer.Context) -> None:
    """UserError for an option that says what the scenario says."""
    for name in ("brokers", "system", "dispatchers", "matchers", "dimensions"):
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            option = "dimension" if name == "dimensions" else name
            raise UserError(f"--{option}: the scenario says that; change it by --set KEY=VALUE")


def _of_scenario(
    path: Path, settings: Sequence[str], host: str, port: int, websockets: bool
) -> Network:
    """What a scenario describes; UserError says why that cannot be."""
    from shoal.experiments.live.networks import scenario_network
    from shoal.experiments.run_files import read_workload
    from shoal.experiments.scenario import load_scenario

    try:
        scenario = load_scenario(path, settings)
        workload = read_workload(Path(scenario.workload.path))
        _check_count("brokers of the scenario:", len(workload.brokers))
        _check_port(port, len(workload.brokers))
        return scenario_network(scenario, workload, host=host, port=port, websockets=websockets)
    except ValueError as error:
        raise UserError(str(error)) from error


def _dimension(text: str) -> Dimension:
    from shoal.overlays.bluedove.segments import Dimension

    name, _, bounds = text.partition("=")
    low, _, high = bounds.partition(":")
    try:
        return Dimension(attribute=name, low=float(low), high=float(high))
    except ValueError as error:
        raise UserError(f"--dimension {text}: write NAME=LOW:HIGH, such as x=0:1000") from error


def _show(network: Network, path: Path) -> None:
    table = Table(title=f"{len(network.brokers)} brokers, {network.system}", title_justify="left")
    for column in ("broker", "MQTT", "WebSocket", "admin", "linked to"):
        if column != "WebSocket" or network.brokers[0].websocket:
            table.add_column(column)
    for broker in network.brokers:
        websocket = [broker.websocket] if broker.websocket else []
        links = ", ".join(network.neighbours(broker.name))
        table.add_row(broker.name, broker.mqtt, *websocket, broker.admin, links)
    console = Console()
    console.print(table)
    console.print(f"network file and logs in {path.parent}", soft_wrap=True, highlight=False)
    console.print(f"look at it: shoal status {path}", soft_wrap=True, highlight=False)
    console.print("Ctrl-C stops it", soft_wrap=True)
