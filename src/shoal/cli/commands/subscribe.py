"""`shoal subscribe`: print what matches, as it comes."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.support.errors import UserError

if TYPE_CHECKING:
    from shoal.client import Message


def subscribe(
    where: Annotated[
        str, typer.Argument(help="What content to ask for, in SQL: \"carrier = 'UA'\"; or nothing.")
    ] = "",
    topic: Annotated[str, typer.Option("--topic", "-t", help="Which topics, as in MQTT.")] = "#",
    count: Annotated[int, typer.Option(min=0, help="Stop after so many; 0: when stopped.")] = 0,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object per line: topic, payload, attributes.")
    ] = False,
    broker: Annotated[str, typer.Option(help="host:port of a broker.")] = "127.0.0.1:1883",
    qos: Annotated[int, typer.Option(min=0, max=2, help="0, 1 or 2.")] = 1,
    username: Annotated[str | None, typer.Option(help="Who you are.")] = None,
    password: Annotated[
        str | None, typer.Option(envvar="SHOAL_PASSWORD", help="And how you prove it.")
    ] = None,
) -> None:
    """Subscribe at a live broker and print what arrives, one line each, until Ctrl-C."""
    from shoal.cli.support.networks import read_broker_address
    from shoal.client import Client, ClientError
    from shoal.language import FilterSyntaxError, parse

    async def run() -> None:
        async with Client(address, username=username, password=password) as client:
            left = count
            async with client.subscribe(topic, where or None, qos=qos) as subscription:
                print(f"subscribed at {client.address}", file=sys.stderr, flush=True)
                while True:
                    print(_line(await subscription.get(), as_json), flush=True)
                    left -= 1
                    if left == 0:
                        return

    address = read_broker_address(broker)
    try:
        if where:
            parse(where)
        asyncio.run(run())
    except (ClientError, FilterSyntaxError) as error:
        raise UserError(str(error)) from error
    except (KeyboardInterrupt, BrokenPipeError):
        return


def _line(message: Message, as_json: bool) -> str:
    from shoal.language.errors import escaped

    payload = message.payload.decode(errors="replace")
    if as_json:
        row = {"topic": message.topic, "payload": payload, "attributes": dict(message.attributes)}
        return json.dumps(row)
    attributes = " ".join(f"{name}={value}" for name, value in message.attributes.items())
    # Whatever is published, a terminal shows it and does not do it.
    return " ".join(escaped(part) for part in (message.topic, payload, attributes) if part)
