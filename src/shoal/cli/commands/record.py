"""`shoal record`: a running MQTT broker's publications, as tables."""

from __future__ import annotations

import asyncio
import sys
import time
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

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
from shoal.cli.support.live.operators import (
    Operator,
    OperatorCertificate,
    OperatorPassword,
    read_caller,
)
from shoal.cli.support.live.subscriptions import ask_subscriptions
from shoal.cli.support.places import check_new
from shoal.log.remote import LogLogin

if TYPE_CHECKING:
    from shoal.experiments.live.recording import Recorder
    from shoal.runtime.network_file import NetworkFile
    from shoal.runtime.operations.caller import Caller

# Beyond this a recording, which is kept in memory, ends.
MOST = 5_000_000


def record(
    out: Annotated[Path, typer.Option(help="The folder to write.")],
    broker: Broker = "127.0.0.1:1883",
    topic: Annotated[list[str] | None, typer.Option("--topic", "-t", help="As in MQTT; #.")] = None,
    seconds: Annotated[
        float | None, typer.Option(min=0.1, help="For how long; until Ctrl-C by default.")
    ] = None,
    count: Annotated[
        int, typer.Option(min=1, max=MOST, help="Or until so many publications.")
    ] = 1_000_000,
    levels: Annotated[
        int | None,
        typer.Option(
            min=1, help="The first so many levels of a topic name its publisher; all by default."
        ),
    ] = None,
    network_file: Annotated[
        Path | None,
        typer.Option(
            "--network",
            "-n",
            metavar="NETWORK.toml",
            help="A shoal network, whose clients' filters are recorded, too.",
        ),
    ] = None,
    begin: Annotated[
        str,
        typer.Option(
            "--from",
            help="With --network: take what its logs have since then: earliest, a time "
            "(2026-11-30T08:00, in UTC), or how long ago (-1h).",
        ),
    ] = "",
    end: Annotated[str, typer.Option("--to", help="Likewise; the present end.")] = "",
    qos: Annotated[int, typer.Option(min=0, max=2, help="0, 1 or 2.")] = 1,
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
    attributes from user properties, JSON and topic levels. Of a shoal network,
    DIR/subscriptions.parquet has its clients' filters and where they are, and DIR/brokers.parquet
    its brokers. Retained messages are not recorded: they were not published during the recording.

    With --from, publications come from the logs of the network's brokers (table log of the network
    file), each with the time when it entered.
    """
    from shoal.cli.support.live.networks import read_network
    from shoal.experiments.live.recording import Recorder
    from shoal.frames.errors import TableError
    from shoal.frames.folders import new_folder

    check_topic_filters(*(topic or ()))
    check_new(out, overwrite=overwrite)
    network, caller = None, None
    if network_file is not None:
        network = read_network(network_file, has_files=False)
        caller = read_caller(network, operator, operator_password, operator_certificate)
    recorder = Recorder(levels, network.json if network is not None else "auto")
    if end and not begin:
        raise UserError("--to goes with --from")
    if begin:
        if network_file is None:
            raise UserError("--from reads the logs of a network: name it by --network")
        login = LogLogin(username or "", password or "", authority, server_name)
        span = LogSpan(tuple(topic or ("#",)), begin, end)
        _record_logs(str(network_file), login, span, count, recorder)
    else:
        connecting = read_connecting(
            broker, username, password, authority, certificate, key, server_name, version
        )
        _record_live(connecting, topic or ["#"], seconds, count, qos, recorder)
    try:
        with new_folder(out, overwrite=overwrite) as folder:
            recorder.write(folder)
            said = _write_clients(network, caller, folder) if network and caller else ""
    except TableError as error:
        raise UserError(str(error)) from error
    print(f"{len(recorder):,} publications of {recorder.publishers:,} publishers{said} -> {out}")
    if not recorder:
        print("shoal: warning: there are no publications", file=sys.stderr)


def _record_logs(
    network_file: str, login: LogLogin, span: LogSpan, count: int, recorder: Recorder
) -> None:
    """Take records of all brokers' logs, by time; UserError where one cannot be read."""
    from shoal.log.errors import LogError
    from shoal.log.records import LogRecord

    try:
        rows = read_logs(network_file, login, span)
        for row in islice((each.record for each in rows), count):
            if isinstance(row, LogRecord):
                recorder.take_logged(row)
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
        print(f"shoal: warning: it ended early: {error}", file=sys.stderr)


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


def _write_clients(network: NetworkFile, caller: Caller, folder: Path) -> str:
    from shoal.experiments.live.recording import write_clients

    rows, names = asyncio.run(ask_subscriptions(network, caller))
    found, left_out = write_clients(folder, rows, names)
    for said in left_out:
        print(f"shoal: warning: a subscription is left out, {said}", file=sys.stderr)
    what = "1 subscription" if found == 1 else f"{found:,} subscriptions"
    return f", {what} at {len(names):,} brokers"
