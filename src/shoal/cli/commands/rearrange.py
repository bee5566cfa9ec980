"""`shoal rearrange`: brokers of a live ring change places, go back, or stay where they are.

Without an order it prints the places of all brokers.
"""

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
from shoal.cli.support.live.statuses import admin_addresses, ask_status, problem_of
from shoal.cli.systems.registry import PLACES

if TYPE_CHECKING:
    from shoal.runtime.network_file import NetworkFile
    from shoal.runtime.operations.caller import Caller

# End of a broker's refusal if another broker decides.
_NOT_MINE = " decides that"


def rearrange(
    network_file: Annotated[Path, typer.Argument(metavar="NETWORK.toml", help="The network.")],
    *,
    swap: Annotated[
        list[str] | None,
        typer.Option(metavar="B1,B2", help="These two change places; repeatable, in this order."),
    ] = None,
    undo: Annotated[
        bool, typer.Option("--undo", help="Undo the last swap; then all stay.")
    ] = False,
    stop: Annotated[
        bool, typer.Option("--stop", help="All keep their places until another order.")
    ] = False,
    go: Annotated[
        bool, typer.Option("--go", help="Brokers change places by themselves again.")
    ] = False,
    operator: Operator = "",
    operator_password: OperatorPassword = "",
    operator_certificate: OperatorCertificate = "",
) -> None:
    from shoal.cli.support.live.networks import read_network

    if undo + go + bool(stop or swap) > 1:
        raise UserError("say one of --undo, --go, or --stop and --swap")
    orders = [("stop", "")] if stop else []
    orders += [("swap", each) for each in swap or ()]
    orders += [("undo", "")] if undo else []
    orders += [("go", "")] if go else []
    network = read_network(network_file, has_files=False)
    caller = read_caller(network, operator, operator_password, operator_certificate)
    if orders:
        asyncio.run(_follow(network, caller, orders))
    elif network.system in PLACES:
        print("\n".join(PLACES[network.system](network, caller)))
    else:
        able = ", ".join(PLACES)
        raise UserError(f"{network.name}: brokers of {network.system} have no places; {able} do")


rearrange.__doc__ = "\n\n".join([
    "Have brokers of a running ring change places, or stay.",
    "`shoal plan` says which swaps pay.  Clients notice nothing; publications wait for some round "
    "trips.  With several options, `--stop` comes first, then swaps.  Without one it prints all "
    "places, and changes nothing.",
    f"Rings are {', '.join(f'`{name}`' for name in PLACES)}.",
])  # fmt: skip


async def _follow(network: NetworkFile, caller: Caller, orders: list[tuple[str, str]]) -> None:
    for name, brokers in orders:
        who = await _ask(network, caller, name, brokers)
        print(f"{who}: {' '.join(filter(None, (name, brokers)))} is done")


async def _ask(network: NetworkFile, caller: Caller, name: str, brokers: str) -> str:
    """Return the broker that has executed the order; each is asked, and the manager does it."""
    from shoal.runtime.supervisor import order

    here = admin_addresses(network, await ask_status(network, caller))
    problems: dict[str, str] = {}
    for broker, address in here.items():
        try:
            problem = await order(address, "rearrange", caller.to(broker), do=name, brokers=brokers)
        except OSError as error:
            problem = f"does not answer: {problem_of(error)}"
        if not problem:
            return broker
        problems[broker] = problem
    own = {broker: each for broker, each in problems.items() if not each.endswith(_NOT_MINE)}
    said = "; ".join(f"{broker}: {each}" for broker, each in (own or problems).items())
    raise UserError(said or "no broker answers")
