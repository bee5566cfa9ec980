"""`shoal subscribe`: prints matching publications as they come."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.support.errors import UserError
from shoal.cli.support.interrupts import drop_output, may_stop_here, run_until_interrupted
from shoal.cli.support.live.clients import (
    Authority,
    Broker,
    Certificate,
    KeyFile,
    Password,
    ServerName,
    Username,
    Version,
    check_topic_filters,
    read_connecting,
)

if TYPE_CHECKING:
    from shoal.client import Message


def subscribe(
    where: Annotated[
        str, typer.Argument(help="The content filter, in SQL: \"carrier = 'UA'\"; or nothing.")
    ] = "",
    topic: Annotated[str, typer.Option("--topic", "-t", help="A topic filter, as in MQTT.")] = "#",
    count: Annotated[int, typer.Option(min=0, help="Stop after so many; 0: when stopped.")] = 0,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object per line: topic, payload, attributes.")
    ] = False,
    since: Annotated[
        str,
        typer.Option(
            "--from",
            help="First the past, from brokers' logs: earliest, 2026-11-30T08:00 (UTC), or -1h.",
        ),
    ] = "",
    every: Annotated[
        str,
        typer.Option(help="The newest of each topic in this time: 10s, or 10s BY sensor."),
    ] = "",
    changed: Annotated[
        str,
        typer.Option(help="Only if a value has changed: temp, or temp BY 0.5, door.state."),
    ] = "",
    broker: Broker = "127.0.0.1:1883",
    qos: Annotated[int, typer.Option(min=0, max=2, help="0, 1 or 2.")] = 1,
    username: Username = None,
    password: Password = None,
    authority: Authority = "",
    certificate: Certificate = "",
    key: KeyFile = "",
    server_name: ServerName = "",
    version: Version = "5",
) -> None:
    """Subscribe at a live broker and print publications, one line each, until Ctrl-C."""
    from shoal.client import ClientError
    from shoal.language import parse

    async def run() -> None:
        async with connecting.client() as client:
            left = count
            wanted = client.subscribe(
                topic,
                where or None,
                qos=qos,
                since=since or None,
                every=every or None,
                changed=changed or None,
            )
            async with wanted as subscription:
                print(f"subscribed at {client.address}", file=sys.stderr, flush=True)
                while True:
                    line = _line(await subscription.get(), as_json)
                    with may_stop_here():
                        print(line, flush=True)
                    left -= 1
                    if left == 0:
                        return

    connecting = read_connecting(
        broker, username, password, authority, certificate, key, server_name, version
    )
    check_topic_filters(topic)
    try:
        if where:
            parse(where)
        run_until_interrupted(run())
    except (ClientError, ValueError) as error:
        raise UserError(str(error)) from error
    except (KeyboardInterrupt, BrokenPipeError):
        drop_output()


def _line(message: Message, as_json: bool) -> str:
    from shoal.language.errors import escaped

    payload = message.payload.decode(errors="replace")
    if as_json:
        row = {"topic": message.topic, "payload": payload, "attributes": dict(message.attributes)}
        return json.dumps(row)
    attributes = " ".join(f"{name}={value}" for name, value in message.attributes.items())
    # Published control characters are shown, and not interpreted by the terminal.
    return " ".join(escaped(part) for part in (message.topic, payload, attributes) if part)
