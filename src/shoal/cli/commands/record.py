"""`shoal record`: a running MQTT broker's publications, as tables."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.support.declared_options import given, option_name
from shoal.cli.support.errors import UserError
from shoal.cli.support.interrupts import run_until_interrupted
from shoal.cli.support.live.clients import (
    Authority,
    Broker,
    Certificate,
    Connecting,
    KeyFile,
    Password,
    ServerName,
    Username,
    Version,
    check_topic_filters,
    read_connecting,
)
from shoal.cli.support.live.logs import LogSpan, read_logs
from shoal.cli.support.live.network_reports import ask_report
from shoal.cli.support.live.operators import (
    Operator,
    OperatorCertificate,
    OperatorPassword,
    read_caller,
)
from shoal.cli.support.places import check_new
from shoal.cli.support.table_places import output_folder, put_output
from shoal.frames.table_places import named
from shoal.log.instants import EARLIEST
from shoal.log.remote import LogLogin

if TYPE_CHECKING:
    from shoal.experiments.live.recording import Recorder
    from shoal.runtime.network_file import NetworkFile
    from shoal.runtime.operations.caller import Caller

# Beyond this a recording, which is kept in memory, ends.
MOST = 5_000_000


def record(
    context: typer.Context,
    out: Annotated[Path, typer.Option(help="The folder to write.")],
    broker: Broker = "127.0.0.1:1883",
    topic: Annotated[list[str] | None, typer.Option("--topic", "-t", help="As in MQTT; #.")] = None,
    seconds: Annotated[
        float | None,
        typer.Option(min=0.1, metavar="S", help="The duration; until Ctrl-C by default."),
    ] = None,
    count: Annotated[
        int,
        typer.Option(min=1, metavar="N", help=f"Or until so many publications, at most {MOST:,}."),
    ] = 1_000_000,
    levels: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="The first so many levels of a topic name its publisher; all by default.",
        ),
    ] = None,
    network_file: Annotated[
        Path | None,
        typer.Option(
            "--network",
            "-n",
            metavar="NETWORK.toml",
            help="A shoal network: publications from its logs, if it has any; also its clients, "
            "their filters, and the brokers' round trips and service times.",
        ),
    ] = None,
    begin: Annotated[
        str,
        typer.Option(
            "--from",
            help="What the logs have since then: earliest, the default, a time "
            "(2026-11-30T08:00, in UTC), or how long ago (-1h).",
        ),
    ] = "",
    end: Annotated[
        str, typer.Option("--to", help="And until then; the present end by default.")
    ] = "",
    qos: Annotated[int, typer.Option(min=0, max=2, metavar="N", help="0, 1 or 2.")] = 1,
    version: Version = "5",
    username: Username = None,
    password: Password = None,
    authority: Authority = "",
    certificate: Certificate = "",
    key: KeyFile = "",
    server_name: ServerName = "",
    operator: Operator = "",
    operator_password: OperatorPassword = "",
    operator_certificate: OperatorCertificate = "",
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the folder at --out.")
    ] = False,
) -> None:
    """Record the publications of a running MQTT broker of any kind.

    DIR/publications.parquet is the input of `shoal workload`: a publisher for each topic,
    attributes from user properties, JSON and topic levels. Retained messages are not recorded: they
    were not published during the recording.

    With --network, publications come from the logs of its brokers (table log of the network file),
    each with the time when it entered; publishers.parquet has the publishers' brokers. Without
    logs, and with --broker or --seconds, the command subscribes instead.

    Of a network DIR also has subscriptions.parquet with its clients' filters, clients.parquet with
    their brokers, brokers.parquet with times to match a publication, and round_trips.csv.
    """
    from shoal.cli.support.live.networks import read_network
    from shoal.experiments.live.recording import Recorder
    from shoal.frames.errors import TableError
    from shoal.frames.folders import new_folder
    from shoal.log.remote import log_addresses

    check_topic_filters(*(topic or ()))
    if count > MOST:
        raise UserError(f"--count {count}: use 1 to {MOST}")
    out = output_folder(out, overwrite=overwrite)
    check_new(out, overwrite=overwrite)
    network, caller = None, None
    if network_file is not None:
        network = read_network(network_file, has_files=False)
        caller = read_caller(network, operator, operator_password, operator_certificate)
    recorder = Recorder(levels, network.json if network is not None else "auto")
    is_live = [option_name(name) for name in given(context, ("broker", "seconds"))]
    if begin or end:
        option = "--from" if begin else "--to"
        if network_file is None:
            raise UserError(f"{option} reads the logs of a network: name it by --network")
        if is_live:
            raise UserError(f"{option} reads logs, {is_live[0]} records what comes: give one")
    reads_logs = bool(begin or end)
    if network_file is not None and network is not None and network.log.folder and not is_live:
        reads_logs = reads_logs or bool(log_addresses(network_file))
    if reads_logs:
        login = LogLogin(username or "", password or "", authority, server_name)
        span = LogSpan(tuple(topic or ("#",)), begin or EARLIEST, end)
        _record_logs(str(network_file), login, span, count, recorder)
    else:
        connecting = read_connecting(
            broker, username, password, authority, certificate, key, server_name, version
        )
        _record_live(connecting, topic or ["#"], seconds, count, qos, recorder)
    try:
        with new_folder(out, overwrite=overwrite) as folder:
            recorder.write(folder)
            said = ""
            if network is not None and caller is not None:
                said = _write_network(network, caller, folder, reads_logs=reads_logs)
    except TableError as error:
        raise UserError(str(error)) from error
    put_output(out, overwrite=overwrite)
    counts = f"{len(recorder):,} publications of {recorder.publishers:,} publishers"
    print(f"{counts}{said} -> {named(str(out))}")
    if not recorder:
        _warn("there are no publications")


def _warn(text: str) -> None:
    print(f"shoal: warning: {text}", file=sys.stderr)


def _record_logs(
    network_file: str, login: LogLogin, span: LogSpan, count: int, recorder: Recorder
) -> None:
    """Take records of all brokers' logs, by time; UserError where one cannot be read."""
    from shoal.log.errors import LogError
    from shoal.log.records import LogRecord

    try:
        for row in read_logs(network_file, login, span):
            if not isinstance(row.record, LogRecord):
                continue
            if len(recorder) == count:
                _warn(f"the logs have more than --count {count:,}: the rest is left out")
                break
            recorder.take_logged(row.record, row.broker)
    except LogError as error:
        raise UserError(str(error)) from error


def _record_live(
    connecting: Connecting,
    topics: list[str],
    seconds: float | None,
    count: int,
    qos: int,
    recorder: Recorder,
) -> None:
    """Take publications as they come."""
    from shoal.client import ClientError

    try:
        run_until_interrupted(_record(connecting, topics, seconds, count, qos, recorder))
    except KeyboardInterrupt:
        pass
    except (ClientError, ValueError) as error:
        if not recorder:
            raise UserError(str(error)) from error
        _warn(f"it ended early: {error}")


async def _record(
    connecting: Connecting,
    topics: list[str],
    seconds: float | None,
    count: int,
    qos: int,
    recorder: Recorder,
) -> None:
    async with connecting.client() as client:
        loop = asyncio.get_running_loop()
        subscriptions = [client.subscribe(each, qos=qos) for each in topics]
        for subscription in subscriptions:
            await subscription.granted()
        print(f"records {', '.join(topics)} at {client.address}", file=sys.stderr, flush=True)
        enough: asyncio.Future[None] = loop.create_future()

        async def read(number: int) -> None:
            while True:
                message = await subscriptions[number].get()
                if not message.retain:
                    recorder.take(message, time.time_ns() // 1_000)
                if len(recorder) >= count and not enough.done():
                    enough.set_result(None)

        reading = [asyncio.create_task(read(number)) for number in range(len(subscriptions))]
        try:
            await asyncio.wait(
                [*reading, enough], timeout=seconds, return_when=asyncio.FIRST_COMPLETED
            )
            for task in reading:
                if task.done():
                    task.result()
        finally:  # also at Ctrl-C: the client that they read from closes
            for task in reading:
                task.cancel()
            await asyncio.gather(*reading, return_exceptions=True)


def _write_network(network: NetworkFile, caller: Caller, folder: Path, *, reads_logs: bool) -> str:
    """Write tables about the network; return a summary."""
    from shoal.experiments.live.recorded_network import write_network

    report, unlogged = asyncio.run(ask_report(network, caller))
    found, left_out = write_network(folder, report)
    for each in left_out:
        _warn(each)
    if reads_logs:
        if unlogged:
            _warn(f"no log has what entered at {', '.join(unlogged)}")
        if network.log.topics != ("#",) or network.log.qos:
            topics = ", ".join(network.log.topics)
            _warn(f"the logs keep only publications on {topics} from QoS {network.log.qos} on")
    subscriptions = "1 subscription" if found == 1 else f"{found:,} subscriptions"
    clients = "1 client" if len(report.clients) == 1 else f"{len(report.clients):,} clients"
    return f", {subscriptions} at {len(report.service_us):,} brokers, {clients}"
