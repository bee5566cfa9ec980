"""`shoal publish`: send publications into a live network."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterable
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
    topic: Annotated[str, typer.Argument(help="Where to publish.")],
    payload: Annotated[
        str, typer.Argument(help="What to publish; - reads one publication per line from stdin.")
    ] = "",
    attributes: Annotated[
        list[str] | None,
        typer.Option(
            "--attribute", "-a", metavar="NAME=VALUE", help="What content filters see; repeatable."
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
    payloads: Iterable[str] = (payload,)
    if payload == "-":
        payloads = (line.rstrip("\n") for line in sys.stdin)
    elif json_payload:
        _check_json(payload)
    connecting = read_connecting(
        broker, username, password, authority, certificate, key, server_name, version
    )

    async def run() -> None:
        async with connecting.client() as client:
            for batch in _batches(payloads):
                if json_payload:
                    for each in batch:
                        _check_json(each)
                await asyncio.gather(
                    *(
                        client.publish(
                            topic,
                            each.encode(),
                            qos=qos,
                            retain=retain,
                            attributes=read,
                            content_type="application/json" if json_payload else None,
                        )
                        for each in batch
                    )
                )

    try:
        run_until_interrupted(run())
    except (ClientError, ValueError) as error:
        raise UserError(str(error)) from error


def _batches(payloads: Iterable[str]) -> Iterable[list[str]]:
    batch: list[str] = []
    for payload in payloads:
        batch.append(payload)
        if len(batch) == PIPELINE:
            yield batch
            batch = []
    if batch:
        yield batch


def _check_json(payload: str) -> None:
    """UserError unless a payload is JSON."""
    from shoal.language.errors import shorten

    try:
        json.loads(payload)
    except ValueError as error:
        raise UserError(f"--json: {shorten(payload)} is not JSON: {error}") from None


def _attribute(text: str) -> tuple[str, Value]:
    from shoal.language import read_plain_value

    name, value = read_attribute(text)
    return name, read_plain_value(value)
