"""`shoal story`: what became of a traced message, from its publisher to every subscriber."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlencode

import msgspec
import typer
from rich.console import Console
from rich.filesize import decimal
from rich.markup import escape

from shoal.cli.support.errors import UserError
from shoal.cli.support.live.operators import (
    Operator,
    OperatorCertificate,
    OperatorPassword,
    read_caller,
)
from shoal.cli.support.rows import show_rows

if TYPE_CHECKING:
    from shoal.runtime.addresses import Address
    from shoal.runtime.network_file import NetworkFile
    from shoal.runtime.operations.caller import Caller
    from shoal.runtime.tracing.story import Story, StoryRow

LISTED = 20
_COLOURS = {"dropped": "red", "missing": "red", "waiting": "yellow", "sent": "yellow"}


def story(
    network_file: Annotated[Path, typer.Argument(metavar="NETWORK.toml", help="The network.")],
    message: Annotated[
        str,
        typer.Argument(
            metavar="[MESSAGE]", help="Its key or its label; without it: the traced messages."
        ),
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
    otlp: Annotated[
        str,
        typer.Option(
            metavar="URL", help="Send it to an OpenTelemetry collector (http://…:4318/v1/traces)."
        ),
    ] = "",
    no: Annotated[
        bool, typer.Option("--no", help="Also subscribers whose content filter says no.")
    ] = False,
    operator: Operator = "",
    operator_password: OperatorPassword = "",
    operator_certificate: OperatorCertificate = "",
) -> None:
    """Tell the story of a traced message: the subscribers that have it, and why others do not.

    Messages are traced that have the user property $trace (its value is the label), and those of a
    sample (`shoal trace`). Brokers keep the last 500.
    """
    from shoal.cli.support.live.networks import read_network

    network = read_network(network_file, has_files=False)
    caller = read_caller(network, operator, operator_password, operator_certificate)
    if otlp:
        if not message:
            raise UserError("--otlp: name the message by its key or label")
        _send(asyncio.run(_stories(network, caller, message)), message, otlp)
    elif message:
        _tell(asyncio.run(_stories(network, caller, message)), message, as_json=as_json, no=no)
    else:
        _list(asyncio.run(_list_traces(network, caller)), network_file, as_json=as_json)


async def _list_traces(network: NetworkFile, caller: Caller) -> list[dict[str, Any]]:
    """A line for each traced message, the newest first."""
    from shoal.runtime.tracing.story import summaries

    return summaries(await _ask(await _addresses(network, caller), caller))[:LISTED]


async def _stories(network: NetworkFile, caller: Caller, message: str) -> list[Story]:
    """The stories of a key or a label."""
    from shoal.runtime.tracing.story import keys_of, stories

    here = await _addresses(network, caller)
    answers = await _ask(here, caller, message)
    told: list[Story] = []
    for key in keys_of(answers, LISTED):
        told += stories(answers if key == message else await _ask(here, caller, key))
    return told


async def _addresses(network: NetworkFile, caller: Caller) -> dict[str, Address]:
    from shoal.cli.support.live.statuses import admin_addresses, ask_status

    return admin_addresses(network, await ask_status(network, caller))


async def _ask(here: dict[str, Address], caller: Caller, key: str = "") -> dict[str, Any]:
    """The answers of all brokers that answer, by name."""
    from shoal.runtime.supervisor import get_json

    path = f"/traces?{urlencode({'key': key})}" if key else "/traces"
    answers = await asyncio.gather(
        *(get_json(address, path, caller.to(name)) for name, address in here.items()),
        return_exceptions=True,
    )
    return {
        name: answer
        for name, answer in zip(here, answers, strict=True)
        if not isinstance(answer, BaseException)
    }


def _list(rows: list[dict[str, Any]], network_file: Path, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    if not rows:
        print("no message is traced; begin with one of:")
        print(f"  shoal trace {network_file} -t '#' --rate 1/100")
        print("  a message with the user property $trace = a label of yours")
        return
    table = [
        [
            datetime.fromtimestamp(row["published_us"] / 1e6).strftime("%H:%M:%S"),
            row["label"] or row["key"],
            row["topic"],
            ", ".join(f"{count} {state}" for state, count in row["states"].items()) or "nobody",
        ]
        for row in rows
    ]
    show_rows(Console(highlight=False), ["at", "message", "topic", "subscribers"], table)


def _check_told(told: list[Story], message: str) -> None:
    if not told:
        raise UserError(
            f"no broker has a traced message {message}; brokers keep the last 500, and "
            "`shoal story NETWORK.toml` lists them"
        )


def _send(told: list[Story], message: str, endpoint: str) -> None:
    from shoal.runtime.tracing.otlp import export

    _check_told(told, message)
    try:
        export(told, endpoint)
    except OSError as error:
        raise UserError(f"--otlp: {error}") from error
    print(f"sent to {endpoint}: {', '.join(each.key for each in told)}")


def _tell(told: list[Story], message: str, *, as_json: bool, no: bool) -> None:
    _check_told(told, message)
    if as_json:
        print(json.dumps([msgspec.to_builtins(each) for each in told], indent=2))
        return
    console = Console(highlight=False)
    for each in told:
        _show(console, each, no=no)


def _show(console: Console, story: Story, *, no: bool) -> None:
    at = datetime.fromtimestamp(story.published_us / 1e6).strftime("%H:%M:%S.%f")[:-3]
    about = f"{story.topic}, {decimal(story.bytes)}, published by {story.publisher} at {at}"
    console.print(f"[bold]{escape(story.key)}[/bold]", soft_wrap=True)
    console.print(escape(about), soft_wrap=True)
    if story.attributes:
        words = ", ".join(f"{name} = {value!r}" for name, value in story.attributes.items())
        console.print(escape(words), soft_wrap=True)
    console.print(story.headline, soft_wrap=True)
    for row in story.missing:
        words = f"{row.name} at {row.broker}: {row.state}" + (f", {row.why}" if row.why else "")
        console.print(f"  [{_COLOURS[row.state]}]{escape(words)}[/]", soft_wrap=True)
    console.print("      ms", style="dim")
    for row in story.rows:
        if no or row.state != "no":
            console.print(_line(row), soft_wrap=True)
    if story.left_out:
        console.print(f"{story.left_out:,} more subscribers were not kept", soft_wrap=True)


def _line(row: StoryRow) -> str:
    words = [f"[bold]{escape(row.name)}[/bold]" if row.kind != "client" else escape(row.name)]
    if row.state:
        colour = _COLOURS.get(row.state)
        words.append(f"[{colour}]{row.state}[/]" if colour else row.state)
    if row.ended_ms is not None and row.kind != "broker":
        words.append(f"({row.ended_ms:,.1f} ms)")
    words.append(f"[dim]{escape(row.text)}[/dim]")
    if row.state == "no" and row.verdict:
        words.append(
            f"\n{' ' * (12 + 2 * row.depth)}{escape(row.verdict.splitlines()[-1].strip())}"
        )
    return f"{row.from_ms:8,.1f}  {'  ' * row.depth}{' '.join(words)}"
