"""What a live broker is asked to do, at its admin port."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.cli.support.errors import UserError
from shoal.cli.support.live.statuses import ask_status, check_known, problem_of

if TYPE_CHECKING:
    from shoal.runtime.addresses import Address
    from shoal.runtime.network_file import Network
    from shoal.runtime.operations.caller import Caller


async def give_order(
    network: Network, caller: Caller, broker: str, name: str, instead: str, **said: str
) -> Address:
    """Have a broker do something; its admin port.

    UserError says why it cannot, and, of one that does not answer, what to do `instead`.
    """
    from shoal.runtime.addresses import read_address
    from shoal.runtime.supervisor import order

    statuses = await ask_status(network, caller)
    check_known(network, statuses, broker)
    found = statuses[broker]
    if found is None:
        why = statuses.why_not(broker)
        hint = f"\n       {instead}" if why.startswith("does not answer") else ""
        raise UserError(f"{broker} {why}{hint}")
    address = read_address(found["listening"]["admin"])
    try:
        problem = await order(address, name, caller.to(broker), **said)
    except OSError as error:
        raise UserError(f"{broker} does not answer at {address}: {problem_of(error)}") from error
    if problem:
        raise UserError(f"{broker}: {problem}")
    return address
