"""`shoal replay`: a workload's events through a live network, predicted and measured."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import msgspec
import typer
from rich.console import Console

from shoal.cli.support.errors import STOPPED_EXIT_CODE, UserError
from shoal.cli.support.live.clients import (
    Authority,
    Certificate,
    KeyFile,
    Password,
    ServerName,
    Username,
    read_tls,
)
from shoal.cli.support.live.operators import (
    Operator,
    OperatorCertificate,
    OperatorPassword,
    read_caller,
)
from shoal.cli.support.places import check_file
from shoal.cli.support.table_places import local

if TYPE_CHECKING:
    from shoal.experiments.live.judge import Key
    from shoal.experiments.live.replay import ReplayCredentials
    from shoal.experiments.run_files import WorkloadFiles
    from shoal.report.replays import Replay
    from shoal.runtime.network_file import NetworkFile
    from shoal.runtime.operations.caller import Caller

MAX_SPEED = 1_000_000


class ReplayEvents(NamedTuple):
    """Options about the events to replay."""

    path: Path
    truth: Path | None
    speed: float
    seconds: float | None

    def read(self) -> WorkloadFiles:
        """The workload with the events that are asked for, at their times."""
        from shoal.experiments.run_files import read_workload

        if not 0 < self.speed <= MAX_SPEED:
            raise UserError(f"--speed {self.speed}: is not above 0 and up to {MAX_SPEED:,}")
        workload = read_workload(self.path)
        events = workload.events
        if self.seconds is not None:
            events = events.before(round(self.seconds * 1e6))
        if not len(events):
            when = "" if self.seconds is None else f" in {self.seconds} s"
            raise UserError(f"{self.path}: no events{when}")
        return workload._replace(events=events).at_speed(self.speed)

    def expected(self, workload: WorkloadFiles) -> tuple[set[Key], str]:
        """Return the expected deliveries, and their source."""
        from shoal.experiments.live.judge import expected_by_filters, expected_by_truth
        from shoal.pipeline.checks.provenance import DEFINITIONS, check_truth, judge_of

        if self.truth is None:
            return expected_by_filters(workload, self.path), DEFINITIONS
        check_truth(self.truth, self.path)
        return expected_by_truth(self.truth, workload.events), judge_of(self.truth)


def replay(
    workload: Annotated[Path, typer.Argument(help="The folder that `shoal workload` made.")],
    network_file: Annotated[
        Path, typer.Option("--network", "-n", metavar="NETWORK.toml", help="The running network.")
    ],
    truth: Annotated[
        Path | None,
        typer.Option(
            help="The expected deliveries, made by `shoal truth`.",
            show_default="each filter read for each event, slowly",
        ),
    ] = None,
    speed: Annotated[float, typer.Option(help="So many times as fast as in the workload.")] = 1.0,
    seconds: Annotated[
        float | None, typer.Option(help="Only the events of the first so many seconds.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="A JSON file for `shoal report --replay`.")
    ] = None,
    username: Username = None,
    password: Password = None,
    over_tls: Annotated[
        bool, typer.Option("--tls", help="To listeners over TLS; so with the options below.")
    ] = False,
    authority: Authority = "",
    certificate: Certificate = "",
    key: KeyFile = "",
    server_name: ServerName = "",
    operator: Operator = "",
    operator_password: OperatorPassword = "",
    operator_certificate: OperatorCertificate = "",
) -> None:
    """Replay a workload through a running network, and report the outcome of every publication.

    Publishers and subscribers are MQTT clients at the brokers that the workload names; `shoal up
    --scenario` starts a network that has them. Beside the measured figures stand the simulator's
    predictions for the same network. Exit code 1 when deliveries are wrong. Ctrl-C ends it with the
    outcome of all publications until then.
    """
    from shoal.cli.support.live.networks import read_network
    from shoal.cli.support.replay_outcome import show_replays
    from shoal.client import ClientError
    from shoal.experiments.live.brokers import UnrestError
    from shoal.experiments.live.comparison import STOPPED
    from shoal.experiments.live.replay import ReplayCredentials, ReplayError
    from shoal.report.replays import problems, proof
    from shoal.runtime.serving import StoppedError

    if out is not None:
        check_file(out)
    network = read_network(network_file, has_files=False)
    caller = read_caller(network, operator, operator_password, operator_certificate)
    tls = None
    if over_tls or any((authority, certificate, server_name)):
        tls = read_tls(authority, certificate, key, server_name)
    name = network.system if out is None else out.stem
    try:
        expected = None if truth is None else local(truth)
        events = ReplayEvents(local(workload), expected, speed, seconds)
        result = _compare(events, network, caller, name, ReplayCredentials(username, password, tls))
        if out is not None:
            out.parent.mkdir(parents=True, exist_ok=True)
            out.write_bytes(msgspec.json.encode(result))
    except StoppedError:
        print("stopped", file=sys.stderr)
        raise typer.Exit(STOPPED_EXIT_CODE) from None
    except (ClientError, OSError, ReplayError, UnrestError, ValueError) as error:
        raise UserError(str(error)) from error
    console = Console()
    show_replays(console, [result])
    console.print(proof([result]), highlight=False, soft_wrap=True)
    if STOPPED in result.unfinished:
        raise typer.Exit(STOPPED_EXIT_CODE)
    if problems(result):
        raise typer.Exit(1)


def _compare(
    events: ReplayEvents,
    network: NetworkFile,
    caller: Caller,
    name: str,
    credentials: ReplayCredentials,
) -> Replay:
    """Replay, and predict the same, with bars that show how far it is."""
    from shoal.cli.support.steps import CommandSteps
    from shoal.experiments.live.comparison import compare
    from shoal.runtime.serving import run_or_stop

    with CommandSteps() as steps:
        with steps.step("read the workload") as step:
            workload = events.read()
            expected, judge = events.expected(workload)
            step.result = f"{len(workload.events):,} events, {len(expected):,} deliveries"
        with steps.step("replay", bars=["replay"]) as step:
            return run_or_stop(
                lambda: compare(
                    workload,
                    network,
                    expected,
                    judge,
                    name=name,
                    credentials=credentials,
                    caller=caller,
                    progress=lambda what, share: step.show_share(0, share, what),
                    is_partial=True,
                )
            )
