"""What a live broker is asked to do, at its admin port."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from shoal.cli.support.errors import UserError
from shoal.cli.support.statuses import ask_status, check_known

if TYPE_CHECKING:
    from shoal.runtime.addresses import Address


async def give_order(network_file: Path, broker: str, name: str, **said: str) -> Address:
    """Have a broker do something; its admin port.  UserError says why it cannot."""
    from shoal.cli.support.networks import read_network
    from shoal.runtime.addresses import read_address
    from shoal.runtime.supervisor import order

    network = read_network(network_file)
    statuses = await ask_status(network)
    check_known(network, statuses, broker)
    found = statuses[broker]
    if found is None:
        raise UserError(f"{broker} does not answer, or has no admin address")
    address = read_address(found["listening"]["admin"])
    try:
        problem = await order(address, name, **said)
    except OSError as error:
        raise UserError(f"{broker} does not answer at {address}: {error}") from error
    if problem:
        raise UserError(f"{broker}: {problem}")
    return address
