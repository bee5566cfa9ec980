"""`shoal publish`: send publications into a live network."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.support.errors import UserError
from shoal.cli.support.interrupts import run_until_interrupted
from shoal.cli.support.live.clients import (
    Authority,
    Broker,
    Certificate,
    KeyFile,
    Password,
    ServerName,
    Username,
    Version,
    read_attribute,
    read_connecting,
)

if TYPE_CHECKING:
    from shoal.model import Value

# Publications that wait for their acknowledgement at once.
PIPELINE = 200


def publish(
    topic: Annotated[str, typer.Argument(help="The topic.")],
    payload: Annotated[
        str, typer.Argument(help="The payload; - reads one publication per line from stdin.")
    ] = "",
    attributes: Annotated[
        list[str] | None,
        typer.Option(
            "--attribute",
            "-a",
            metavar="NAME=VALUE",
            help="An attribute for content filters; repeatable.",
        ),
    ] = None,
    json_payload: Annotated[
        bool, typer.Option("--json", help="The payload is JSON; its fields are attributes, too.")
    ] = False,
    broker: Broker = "127.0.0.1:1883",
    qos: Annotated[int, typer.Option(min=0, max=2, help="0, 1 or 2.")] = 1,
    retain: Annotated[
        bool, typer.Option("--retain", help="Keep it for later subscribers.")
    ] = False,
    trace: Annotated[
        str | None,
        typer.Option(metavar="LABEL", help="Have brokers trace it: shoal story NETWORK LABEL."),
    ] = None,
    username: Username = None,
    password: Password = None,
    authority: Authority = "",
    certificate: Certificate = "",
    key: KeyFile = "",
    server_name: ServerName = "",
    version: Version = "5",
) -> None:
    """Publish to a live network, with any broker's MQTT address."""
    from shoal.client import ClientError
    from shoal.matching.topics.filters import TopicError, check_topic

    try:
        check_topic(topic)
    except TopicError as error:
        raise UserError(str(error)) from error
    read = dict(_attribute(each) for each in attributes or ())
    is_stdin = payload == "-"
    payloads: Iterable[bytes] = [os.fsencode(payload)]
    if is_stdin:
        payloads = (line.removesuffix(b"\n").removesuffix(b"\r") for line in sys.stdin.buffer)
    if json_payload:
        payloads = _checked(payloads, is_stdin=is_stdin)
    if not is_stdin:
        payloads = list(payloads)  # so that errors in them are reported before a connection is made
    connecting = read_connecting(
        broker, username, password, authority, certificate, key, server_name, version
    )

    async def run() -> None:
        async with connecting.client() as client:
            for batch in _batches(payloads):
                await asyncio.gather(
                    *(
                        client.publish(
                            topic,
                            each,
                            qos=qos,
                            retain=retain,
                            attributes=read,
                            content_type="application/json" if json_payload else None,
                            trace=trace,
                        )
                        for each in batch
                    )
                )

    try:
        run_until_interrupted(run())
    except (ClientError, ValueError) as error:
        raise UserError(str(error)) from error


def _batches(payloads: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Those before a broken one are published, and then it is told."""
    batch: list[bytes] = []
    try:
        for payload in payloads:
            batch.append(payload)
            if len(batch) == PIPELINE:
                yield batch
                batch = []
    except UserError:
        if batch:
            yield batch
        raise
    if batch:
        yield batch


def _checked(payloads: Iterable[bytes], *, is_stdin: bool) -> Iterator[bytes]:
    """UserError at one that is no JSON, as Python's NaN and Infinity are none."""
    from shoal.language.errors import shorten

    for number, payload in enumerate(payloads, 1):
        try:
            json.loads(payload, parse_constant=_refuse)
        except ValueError as error:
            shown = shorten(payload.decode(errors="backslashreplace"))
            line = f"line {number}: " if is_stdin else ""
            raise UserError(f"--json: {line}{shown} is not JSON: {error}") from None
        yield payload


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _attribute(text: str) -> tuple[str, Value]:
    from shoal.language import read_plain_value

    name, value = read_attribute(text)
    return name, read_plain_value(value)
