"""`shoal replay`: a workload's events through a live network, predicted and measured."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.console import Console

from shoal.cli.errors import STOPPED_EXIT_CODE, UserError

if TYPE_CHECKING:
    from shoal.experiments.live.judge import Key
    from shoal.experiments.run_files import Workload

MAX_SPEED = 1_000_000


def replay(
    workload: Annotated[Path, typer.Argument(help="The folder that `shoal workload` made.")],
    network_file: Annotated[
        Path, typer.Option("--network", "-n", metavar="NETWORK.toml", help="The running network.")
    ],
    truth: Annotated[
        Path | None,
        typer.Option(
            help="What must be delivered, made by `shoal truth`.",
            show_default="each filter read for each event, slowly",
        ),
    ] = None,
    speed: Annotated[float, typer.Option(help="So many times as fast as the workload says.")] = 1.0,
    seconds: Annotated[
        float | None, typer.Option(help="Only the events of the first so many seconds.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="A JSON file for `shoal report --replay`.")
    ] = None,
    username: Annotated[str | None, typer.Option(help="Who the clients are.")] = None,
    password: Annotated[
        str | None, typer.Option(envvar="SHOAL_PASSWORD", help="And how they prove it.")
    ] = None,
) -> None:
    """Replay a workload through a running network, and say what became of every publication.

    Publishers and subscribers are MQTT clients at the brokers that the workload names; `shoal up
    --scenario` starts a network that has them.  Beside what was measured stands what the simulator
    predicts of the same network.  Exit code 1 when deliveries are wrong.
    """
    from shoal.cli.networks import read_network
    from shoal.cli.replay_outcome import show_replays
    from shoal.cli.steps import Steps
    from shoal.client import ClientError
    from shoal.experiments.live.brokers import UnrestError
    from shoal.experiments.live.comparison import compare
    from shoal.experiments.live.replay import Credentials, ReplayError
    from shoal.report.replays import decode_replay, problems, proof
    from shoal.runtime.serving import StoppedError, run_or_stop

    network = read_network(network_file)
    try:
        with Steps() as steps:
            with steps.step("read the workload") as step:
                chosen = _chosen(workload, speed, seconds)
                expected, judge = _expected(workload, chosen, truth)
                step.result = f"{len(chosen.events):,} events, {len(expected):,} deliveries"
            with steps.step("replay", bars=["replay"]) as step:
                comparison = run_or_stop(
                    lambda: compare(
                        chosen,
                        network,
                        expected,
                        judge,
                        name=network.system if out is None else out.stem,
                        credentials=Credentials(username, password),
                        progress=lambda what, share: step.show_share(0, share, what),
                    )
                )
        text = msgspec.json.encode(comparison)
        if out is not None:
            out.parent.mkdir(parents=True, exist_ok=True)
            out.write_bytes(text)
    except StoppedError:
        print("stopped", file=sys.stderr)
        raise typer.Exit(STOPPED_EXIT_CODE) from None
    except (ClientError, OSError, ReplayError, UnrestError, ValueError) as error:
        raise UserError(str(error)) from error
    result = decode_replay(text)
    console = Console()
    show_replays(console, [result])
    console.print(proof([result]), highlight=False, soft_wrap=True)
    if problems(result):
        raise typer.Exit(1)


def _chosen(path: Path, speed: float, seconds: float | None) -> Workload:
    """The workload with the events that are asked for, at their times."""
    from shoal.experiments.run_files import read_workload

    if not 0 < speed <= MAX_SPEED:
        raise UserError(f"--speed {speed}: is not above 0 and up to {MAX_SPEED:,}")
    workload = read_workload(path)
    events = workload.events
    if seconds is not None:
        events = events.before(round(seconds * 1e6))
    if not len(events):
        raise UserError(f"{path}: no events" + ("" if seconds is None else f" in {seconds} s"))
    return workload._replace(events=events.at_speed(speed))


def _expected(path: Path, workload: Workload, truth: Path | None) -> tuple[set[Key], str]:
    """What must be delivered, and who says so."""
    from shoal.experiments.live.judge import expected_by_filters, expected_by_truth

    if truth is None:
        return expected_by_filters(workload, path), "the filters"
    return expected_by_truth(truth, workload.events), "Spark"
