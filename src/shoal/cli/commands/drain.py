"""`shoal drain`: send all clients of a live broker to others, as before it is upgraded."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shoal.cli.support.errors import UserError
from shoal.cli.support.live.operators import (
    Operator,
    OperatorCertificate,
    OperatorPassword,
    read_caller,
)
from shoal.cli.support.live.orders import give_order
from shoal.cli.support.live.statuses import problem_of

if TYPE_CHECKING:
    from shoal.runtime.addresses import Address
    from shoal.runtime.operations.caller import Caller

_INSTEAD = "only a broker that runs can hand over its clients: start it, then drain it"
_POLL_S = 0.2
_SAY_AFTER_S = 5.0


def drain(
    network_file: Annotated[Path, typer.Argument(metavar="NETWORK.toml", help="The network.")],
    broker: Annotated[str, typer.Argument(help="The broker's name.")],
    after: Annotated[
        float,
        typer.Option(
            metavar="S",
            min=0,
            max=3_600,
            help="Let /ready say so for so long before it begins: a load balancer has new "
            "connections go elsewhere then.",
        ),
    ] = 0,
    operator: Operator = "",
    operator_password: OperatorPassword = "",
    operator_certificate: OperatorCertificate = "",
) -> None:
    """Redirect all clients of a broker to others, with their sessions, and let it admit none.

    It stays in the network, and forwards other brokers' publications, until `shoal undrain` or its
    next start. Clients that follow are redirected; the others get a DISCONNECT with a reason, and
    find another broker by themselves. Ends when no client and no session is left.
    """
    from shoal.cli.support.live.networks import read_network

    network = read_network(network_file, has_files=False)
    caller = read_caller(network, operator, operator_password, operator_certificate)
    address = asyncio.run(give_order(network, caller, broker, "drain", _INSTEAD, after=str(after)))
    asyncio.run(_watch(broker, address, caller.to(broker)))
    print(f"{broker} is drained")


async def _watch(broker: str, address: Address, caller: Caller) -> None:
    """Poll until no client and no session is left."""
    from shoal.runtime.supervisor import get_json

    said, waited_s = "", 0.0
    while True:
        try:
            found: dict[str, Any] = await get_json(address, "/status", caller)
        except OSError as error:
            why = f"{broker} has ended before it was drained: {problem_of(error)}"
            raise UserError(f"{why}\n       start it, then drain it once more") from error
        clients, mqtt = found["clients"], found["mqtt"]
        if not clients["is_draining"]:
            raise UserError(f"{broker} takes clients in again")
        if not mqtt["sessions"] and not clients.get("drains_soon"):
            return
        waited_s += _POLL_S
        words = f"sessions still at {broker}: {mqtt['sessions']:,}"
        words += f" ({clients['problem']})" if clients["problem"] else ""
        if waited_s > _SAY_AFTER_S and words != said:
            print(words, flush=True)
            said, waited_s = words, 0.0
        await asyncio.sleep(_POLL_S)
