"""`shoal move`: send a client of a live network to another broker."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.support.errors import UserError
from shoal.cli.support.live.operators import (
    Operator,
    OperatorCertificate,
    OperatorPassword,
    read_caller,
)
from shoal.cli.support.live.statuses import admin_addresses, ask_status, check_known, problem_of

if TYPE_CHECKING:
    from shoal.runtime.network_file import Network
    from shoal.runtime.operations.caller import Caller


def move(
    network_file: Annotated[Path, typer.Argument(metavar="NETWORK.toml", help="The network.")],
    client: Annotated[str, typer.Argument(help="Its client identifier.")],
    broker: Annotated[str, typer.Argument(help="Where it is to go.")],
    operator: Operator = "",
    operator_password: OperatorPassword = "",
    operator_certificate: OperatorCertificate = "",
) -> None:
    """Send a client to another broker of a running network.

    Its subscriptions go along, and all that is on its way to it; nothing is lost, doubled or out of
    order, and its will is not published.  Only clients that follow can be moved: shoal.Client,
    and others of MQTT 5 that say $follow when they connect.
    """
    from shoal.cli.support.live.networks import read_network

    network = read_network(network_file, has_files=False)
    caller = read_caller(network, operator, operator_password, operator_certificate)
    source = asyncio.run(_move(network, caller, client, broker))
    print(f"{client} has moved from {source} to {broker}")


async def _move(network: Network, caller: Caller, client: str, broker: str) -> str:
    """Where it was; each broker is asked, and the one knows that has it."""
    from shoal.runtime.supervisor import order

    statuses = await ask_status(network, caller)
    check_known(network, statuses, broker)
    here = admin_addresses(network, statuses)

    async def ask(name: str) -> str | None:
        """Why not; None where the client is not."""
        try:
            problem = await order(here[name], "move", caller.to(name), client=client, broker=broker)
        except OSError as error:
            return f"{name} does not answer: {problem_of(error)}"
        return None if problem == f"{client} is not connected to {name}" else problem

    answers = dict(zip(here, await asyncio.gather(*map(ask, here)), strict=True))
    known = {name: problem for name, problem in answers.items() if problem is not None}
    if not known:
        silent = ", ".join(name for name in statuses if name not in here)
        where = f" that answers ({silent} does not)" if silent else ""
        raise UserError(f"no client {client} is connected to a broker{where}")
    source = next((name for name, problem in known.items() if not problem), "")
    if not source:
        raise UserError("; ".join(known.values()))
    return source
