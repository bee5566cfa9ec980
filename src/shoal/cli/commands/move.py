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
from shoal.cli.support.live.orders import order_everywhere, that_answers
from shoal.cli.support.live.statuses import ask_status, check_known

if TYPE_CHECKING:
    from shoal.runtime.network_file import NetworkFile
    from shoal.runtime.operations.caller import Caller


def move(
    network_file: Annotated[Path, typer.Argument(metavar="NETWORK.toml", help="The network.")],
    client: Annotated[str, typer.Argument(help="Its client identifier.")],
    broker: Annotated[str, typer.Argument(help="The new broker.")],
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


async def _move(network: NetworkFile, caller: Caller, client: str, broker: str) -> str:
    """Move the client and return its former broker; each broker is asked, and the one with the
    session does it.
    """
    statuses = await ask_status(network, caller)
    check_known(network, statuses, broker)
    absent = f"{client} is not connected to {{broker}}"
    known = await order_everywhere(
        network, statuses, caller, "move", absent, client=client, broker=broker
    )
    if not known:
        where = that_answers(network, statuses)
        raise UserError(f"no client {client} is connected to a broker{where}")
    source = next((name for name, problem in known.items() if not problem), "")
    if not source:
        raise UserError("; ".join(known.values()))
    return source
