"""Orders to a live broker, at its admin port."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from shoal.cli.support.errors import UserError
from shoal.cli.support.live.statuses import (
    Statuses,
    admin_addresses,
    ask_status,
    check_known,
    problem_of,
)

if TYPE_CHECKING:
    from shoal.runtime.addresses import Address
    from shoal.runtime.network_file import NetworkFile
    from shoal.runtime.operations.caller import Caller


async def give_order(
    network: NetworkFile, caller: Caller, broker: str, name: str, instead: str, **said: str
) -> Address:
    """Have a broker do something; its admin port.

    UserError has the broker's reason, and, for a broker that does not answer, the alternative
    `instead`.
    """
    from shoal.runtime.supervisor import order

    statuses = await ask_status(network, caller)
    check_known(network, statuses, broker)
    if statuses[broker] is None:
        why = statuses.why_not(broker)
        hint = f"\n       {instead}" if why.startswith("does not answer") else ""
        raise UserError(f"{broker} {why}{hint}")
    address = admin_addresses(network, statuses)[broker]
    try:
        problem = await order(address, name, caller.to(broker), **said)
    except OSError as error:
        raise UserError(f"{broker} does not answer at {address}: {problem_of(error)}") from error
    if problem:
        raise UserError(f"{broker}: {problem}")
    return address


async def order_everywhere(
    network: NetworkFile, statuses: Statuses, caller: Caller, name: str, absent: str, **said: str
) -> dict[str, str]:
    """Send all answering brokers an order that only one can execute; return the informed answers.

    Empty where it was done, else why not.  A broker that answers `absent`, with its name in the
    place of `{broker}`, does not know of it.
    """
    from shoal.runtime.supervisor import order

    here = admin_addresses(network, statuses)

    async def ask(broker: str) -> str:
        try:
            return await order(here[broker], name, caller.to(broker), **said)
        except OSError as error:
            return f"{broker} does not answer: {problem_of(error)}"

    answers = zip(here, await asyncio.gather(*map(ask, here)), strict=True)
    return {
        broker: answer for broker, answer in answers if answer != absent.replace("{broker}", broker)
    }


def that_answers(network: NetworkFile, statuses: Statuses) -> str:
    """Return a note about brokers that were not asked, behind the word for one; empty if all
    were.
    """
    here = admin_addresses(network, statuses)
    silent = ", ".join(name for name in statuses if name not in here)
    return f" that answers ({silent} does not)" if silent else ""
