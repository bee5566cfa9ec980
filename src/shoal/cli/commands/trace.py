"""`shoal trace`: a sample of a live network's messages is traced from publisher to subscribers."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Annotated

import typer

from shoal.cli.support.errors import UserError
from shoal.cli.support.live.operators import (
    Operator,
    OperatorCertificate,
    OperatorPassword,
    read_caller,
)

_UNITS = {"s": 1, "m": 60, "h": 3_600}


def trace(
    network_file: Annotated[Path, typer.Argument(metavar="NETWORK.toml", help="The network.")],
    topic: Annotated[
        str, typer.Option("--topic", "-t", metavar="FILTER", help="Messages on these topics.")
    ] = "#",
    where: Annotated[
        str, typer.Option("--where", metavar="SQL", help="Messages that this content filter takes.")
    ] = "",
    rate: Annotated[
        str, typer.Option(metavar="1/N", help="One of so many, at each broker that they enter at.")
    ] = "1/1000",
    duration: Annotated[
        str, typer.Option("--for", metavar="TIME", help="For so long: 30s, 10m, 2h; 0s ends it.")
    ] = "10m",
    operator: Operator = "",
    operator_password: OperatorPassword = "",
    operator_certificate: OperatorCertificate = "",
) -> None:
    """Have brokers trace a sample of messages; `shoal story` then tells what became of each.

    A publisher traces single messages by itself: with the user property `$trace`.
    """
    from shoal.cli.support.live.networks import read_network
    from shoal.cli.support.live.orders import order_everywhere
    from shoal.cli.support.live.statuses import ask_status

    each, seconds = _each(rate), _seconds(duration)
    network = read_network(network_file, has_files=False)
    caller = read_caller(network, operator, operator_password, operator_certificate)
    said = {"topic": topic, "where": where, "each": str(each), "seconds": str(seconds)}

    async def begin() -> list[str]:
        statuses = await ask_status(network, caller)
        answers = await order_everywhere(network, statuses, caller, "trace", "", **said)
        silent = [f"{name} {statuses.why_not(name)}" for name, row in statuses.items() if not row]
        return [*silent, *(f"{name}: {problem}" for name, problem in answers.items())]

    problems = asyncio.run(begin())
    for problem in problems:
        print(problem)
    if seconds:
        print(f"one of {each:,} messages on {topic} is traced for {duration}")
        print(f"what became of them: shoal story {network_file}")
    else:
        print("no more messages are traced, but those that publishers flag")
    if problems:
        raise typer.Exit(1)


def _each(text: str) -> int:
    """
    >>> _each("1/1000"), _each("1")
    (1000, 1)
    """
    found = re.fullmatch(r"1(?:/([1-9]\d{0,8}))?", text.strip())
    if found is None:
        raise UserError(f"--rate: {text!r} is not 1/N, such as 1/1000")
    return int(found[1] or 1)


def _seconds(text: str) -> int:
    """
    >>> _seconds("10m"), _seconds("30s"), _seconds("0s")
    (600, 30, 0)
    """
    found = re.fullmatch(r"(\d{1,6})([smh])", text.strip())
    if found is None:
        raise UserError(f"--for: {text!r} is no time, such as 30s, 10m or 2h")
    return int(found[1]) * _UNITS[found[2]]
