"""`shoal log`: reads the log of a live network, lists its readers, serves a broker's old folder."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from shoal.cli.support.errors import UserError
from shoal.cli.support.interrupts import drop_output
from shoal.cli.support.live.clients import Authority, Password, ServerName, Username
from shoal.cli.support.live.logs import LogSpan, read_logs

if TYPE_CHECKING:
    from shoal.log.merging import LoggedRecord
    from shoal.log.remote import LogLogin, RemoteLog
    from shoal.log.staging.remote import RemoteStaging

Action = Literal["read", "readers", "forget", "staged", "unstage", "serve"]
Format = Literal["jsonl", "arrow", "parquet"]
# Records in one batch of a table.
BATCH = 10_000


def log(
    action: Annotated[Action, typer.Argument(help="The action.")],
    target: Annotated[
        str,
        typer.Argument(help="NETWORK.toml, a log's address (http://host:port), or a log's folder."),
    ],
    name: Annotated[
        str, typer.Argument(help="With forget: the named reader; with unstage: the query.")
    ] = "",
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", "-t", help="A topic filter, as in MQTT; without it all topics."),
    ] = None,
    where: Annotated[str, typer.Option(help="The content filter, in SQL.")] = "",
    begin: Annotated[
        str,
        typer.Option(
            "--from", help="earliest, a time (2026-11-30T08:00, in UTC), or how long ago: -90s, -1h"
        ),
    ] = "earliest",
    end: Annotated[
        str, typer.Option("--to", help="The end, written likewise; without it the present end.")
    ] = "",
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on as records come, until Ctrl-C.")
    ] = False,
    without: Annotated[
        list[str] | None,
        typer.Option(metavar="BROKER", help="Read without this broker; else each must answer."),
    ] = None,
    format: Annotated[Format, typer.Option(help="Of the output.")] = "jsonl",
    out: Annotated[Path | None, typer.Option(help="The file to write; stdout.")] = None,
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="With serve: the address to listen at.")
    ] = "127.0.0.1:0",
    network_file: Annotated[
        Path | None, typer.Option("--network", help="With serve: whose users and TLS.")
    ] = None,
    username: Username = None,
    password: Password = None,
    authority: Authority = "",
    server_name: ServerName = "",
) -> None:
    """Read what brokers of a network have logged (table log of the network file).

    read prints the records of all brokers by time, filtered at the brokers, as JSON lines, or as a
    table: one row for each publication with its broker, offset, time, publisher, topic, payload and
    attributes. Gaps in a log are named on stderr.

    readers lists named readers and how far each is behind; forget deletes one, so that its records
    can be deleted, too.

    staged lists queries of Spark that publish exactly once: rows of their last batch at each
    broker, and rows that wait. unstage drops a query with its rows: a repeated batch of it is
    published again.

    serve gives the folder of a broker that has left, or does not run, to readers.
    """
    from shoal.log.errors import LogError
    from shoal.log.remote import LogLogin

    login = LogLogin(username or "", password or "", authority, server_name)
    span = LogSpan(tuple(topic or ("#",)), begin, end, where, tuple(without or ()), follow)
    try:
        match action:
            case "read":
                _check_read(span, format=format, out=out, target=target)
                rows = read_logs(target, login, span)
                _write(rows if format == "jsonl" else _without_gaps(rows), format, out)
            case "readers":
                _show_readers(target, login)
            case "forget":
                _forget(target, login, name)
            case "staged":
                _show_staged(target, login)
            case "unstage":
                _unstage(target, login, name)
            case "serve":
                _serve(Path(target), listen, network_file)
    except LogError as error:
        raise UserError(str(error)) from error
    except (KeyboardInterrupt, BrokenPipeError):
        drop_output()


def _check_read(span: LogSpan, *, format: Format, out: Path | None, target: str) -> None:
    """UserError for options that do not go together, before a broker is asked."""
    from shoal.language import FilterSyntaxError
    from shoal.log.selections import RecordSelection
    from shoal.matching.topics.filters import TopicError

    try:
        RecordSelection(span.topics, span.where)
    except (TopicError, FilterSyntaxError) as error:
        raise UserError(str(error)) from error
    if format == "parquet" and out is None:
        raise UserError("--format parquet needs --out FILE")
    if span.follow and (span.end or format == "parquet"):
        raise UserError("--follow goes with neither --to nor --format parquet")
    if span.follow and Path(target).is_dir():
        raise UserError(f"{target} is a folder, which does not grow; leave out --follow")


def _without_gaps(rows: Iterable[LoggedRecord]) -> Iterator[LoggedRecord]:
    from shoal.log.records import LogGap

    return (row for row in rows if not isinstance(row.record, LogGap))


def _write(rows: Iterator[LoggedRecord], format: Format, out: Path | None) -> None:
    if format == "jsonl":
        _write_lines(rows, out)
        return
    from shoal.log.columns import SCHEMA, to_batches

    if format == "parquet":
        import pyarrow.parquet as pq  # type: ignore[import-untyped]

        assert out is not None
        with pq.ParquetWriter(out, SCHEMA) as writer:
            for batch in to_batches(rows, BATCH):
                writer.write_batch(batch)
        return
    import pyarrow as pa

    sink = sys.stdout.buffer if out is None else out.open("wb")
    with pa.ipc.new_stream(sink, SCHEMA) as stream:
        for batch in to_batches(rows, BATCH):
            stream.write_batch(batch)
    if out is not None:
        sink.close()


def _write_lines(rows: Iterator[LoggedRecord], out: Path | None) -> None:
    from shoal.log.rows import json_row

    sink = sys.stdout if out is None else out.open("w", encoding="utf-8")
    try:
        for row in rows:
            print(
                json.dumps(json_row(row.broker, row.offset, row.record), ensure_ascii=False),
                file=sink,
                flush=out is None,
            )
    finally:
        if out is not None:
            sink.close()


def _show_readers(target: str, login: LogLogin) -> None:
    from rich.console import Console

    from shoal.cli.support.live.wrongs import duration
    from shoal.cli.support.rows import show_rows

    rows, now_s = [], time.time()
    for name, log in _remote(target, login).items():
        for each in log.readers():
            state = "deleted" if each["is_lost"] else "kept"
            moved = duration(max(0.0, now_s - each["moved_us"] / 1_000_000))
            rows.append(
                [each["name"], name, f"{each['offset']:,}", f"{each['behind']:,}", moved, state]
            )
    if not rows:
        print("there are no named readers")
        return
    headings = ["reader", "broker", "offset", "behind", "moved ago", "its records are"]
    show_rows(Console(highlight=False), headings, sorted(rows), numbers=("offset", "behind"))


def _forget(target: str, login: LogLogin, reader: str) -> None:
    if not reader:
        raise UserError("forget: which reader? write its name behind the network")
    having = [
        log
        for log in _remote(target, login).values()
        if any(each["name"] == reader for each in log.readers())
    ]
    if not having:
        raise UserError(f"there is no reader {reader}")
    for log in having:
        log.forget(reader)
    print(f"forgot reader {reader} at {len(having)} brokers")


def _show_staged(target: str, login: LogLogin) -> None:
    from rich.console import Console

    from shoal.cli.support.rows import show_rows

    rows = []
    for broker, staging in _staging(target, login).items():
        for each in staging.queries():
            batch = "-" if each["batch"] is None else str(each["batch"])
            counts = [f"{each[key]:,}" for key in ("rows", "published", "waiting")]
            rows.append([each["query"], broker, batch, *counts, each["problem"]])
    if not rows:
        print("there are no staged rows")
        return
    counted = ("batch", "rows", "published", "waiting")
    headings = ["query", "broker", *counted, "problem"]
    show_rows(Console(highlight=False), headings, sorted(rows), numbers=counted)


def _unstage(target: str, login: LogLogin, query: str) -> None:
    if not query:
        raise UserError("unstage: which query? write it behind the network (shoal log staged)")
    having = [
        staging
        for staging in _staging(target, login).values()
        if any(each["query"] == query for each in staging.queries())
    ]
    if not having:
        raise UserError(f"there is no query {query}")
    for staging in having:
        staging.forget(query)
    print(f"dropped query {query} at {len(having)} brokers")


def _staging(target: str, login: LogLogin) -> dict[str, RemoteStaging]:
    from shoal.log.staging.remote import RemoteStaging

    logs = _remote(target, login)
    return {name: RemoteStaging(each, patience_s=0.0) for name, each in logs.items()}


def _remote(target: str, login: LogLogin) -> dict[str, RemoteLog]:
    from shoal.log.remote import RemoteLog, open_logs

    found = {}
    for name, each in open_logs(target, login).items():
        if not isinstance(each, RemoteLog):
            raise UserError(f"{target} is a folder; name a network file or an address")
        found[name] = each
    return found


def _serve(folder: Path, listen: str, network_file: Path | None) -> None:
    from shoal.cli.support.live.networks import read_network
    from shoal.runtime.addresses import read_address
    from shoal.runtime.front_ends.entry.access import AccessError
    from shoal.runtime.log_serving.folders import serve_folder
    from shoal.runtime.serving import run_until_signal
    from shoal.runtime.tls.contexts import TlsError

    if not folder.is_dir():
        raise UserError(f"serve: {folder} is no folder")
    network = read_network(network_file) if network_file is not None else None
    try:
        address = read_address(listen)
        run_until_signal(lambda stop: serve_folder(folder, address, network, stop))
    except (AccessError, TlsError, ValueError, OSError) as error:
        raise UserError(str(error)) from error
