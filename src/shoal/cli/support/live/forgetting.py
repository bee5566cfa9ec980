"""How a dead broker is declared dead at those that were linked to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.cli.support.errors import UserError
from shoal.cli.support.live.statuses import Statuses, admin_addresses, ask_status

if TYPE_CHECKING:
    from shoal.runtime.network_file import Network
    from shoal.runtime.operations.caller import Caller


async def forget_broker(network: Network, broker: str, caller: Caller, at: str = "") -> str:
    """Have all neighbours do without the broker; the first of them, which has its place.

    `at` is the neighbour that is to have it, if that matters.
    """
    from shoal.runtime.supervisor import order

    statuses = await ask_status(network, caller)
    if statuses.get(broker) is not None:
        raise UserError(f"{broker} answers, and is not dead; have it leave (shoal leave)")
    here, successor = admin_addresses(network, statuses), ""
    # A system that takes the place of the dead broker is done with the first order.
    for name in [at] if at else list(here):
        others = [each for each in _neighbours(statuses, broker) if each != name]
        if at or name in _neighbours(statuses, broker):
            problem = await order(
                here[name], "forget", caller.to(name), broker=broker, others=",".join(others)
            )
            if problem:
                raise UserError(f"{name}: {problem}")
            successor = successor or name
            statuses = await ask_status(network, caller)
    if not successor:
        name = next(iter(here))
        problem = await order(here[name], "forget", caller.to(name), broker=broker)
        if problem:
            raise UserError(f"{name}: {problem}")
    return successor


def _neighbours(statuses: Statuses, broker: str) -> list[str]:
    """The brokers that answer, and are linked to it."""
    return [
        name
        for name, found in statuses.items()
        if found is not None and any(row["neighbour"] == broker for row in found["links"])
    ]
