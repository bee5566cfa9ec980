"""Declares a dead broker dead at its former neighbours."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from shoal.cli.support.errors import UserError
from shoal.cli.support.live.statuses import (
    Statuses,
    admin_addresses,
    ask_status,
    check_known,
)
from shoal.runtime.supervisor import get_json, order

if TYPE_CHECKING:
    from shoal.runtime.addresses import Address
    from shoal.runtime.network_file import NetworkFile
    from shoal.runtime.operations.caller import Caller

_POLL_S = 0.1


async def forget_broker(network: NetworkFile, broker: str, caller: Caller, at: str = "") -> str:
    """Have all neighbours do without the broker; the first of them, which has its place.

    `at` is the neighbour that is to have it, if that matters.
    """
    statuses = await ask_status(network, caller)
    # A broker with an old folder may answer that it has left, while others take it for a member.
    found = statuses.get(broker)
    if found is not None and found["joining"]["stage"] != "left":
        raise UserError(f"{broker} answers, and is not dead; have it leave (shoal leave)")
    here = admin_addresses(network, statuses)
    here.pop(broker, None)
    if not here:
        raise UserError(f"no other broker of {network.name} answers")
    # The others do not know every broker that the file lists: it may have been forgotten already.
    if not _neighbours(statuses, broker) and all(row.name != broker for row in network.brokers):
        check_known(network, statuses, broker)
    if near := _neighbours(statuses, broker, "up"):
        raise UserError(f"{broker} is connected to {', '.join(near)}, and is not dead")
    near = _neighbours(statuses, broker)
    if at and at not in near:
        raise UserError(f"{at} is not linked to {broker}")
    first = at or next(iter(near), "")
    # A system that takes the place of the dead broker has done so for all with the first.
    await _order(broker, first or next(iter(here)), near, here, caller)
    for name in _neighbours(await ask_status(network, caller), broker):
        await _order(broker, name, (), here, caller)
    return first


async def _order(
    broker: str, at: str, near: Collection[str], here: Mapping[str, Address], caller: Caller
) -> None:
    """Have one of them forget the broker; UserError says why it does not."""
    others = ",".join(each for each in near if each != at)
    problem = await order(here[at], "forget", caller.to(at), broker=broker, others=others)
    while not problem:
        found = (await get_json(here[at], "/status", caller.to(at)))["forgetting"]
        if not found["is_under_way"]:
            problem = found["problem"]
            break
        await asyncio.sleep(_POLL_S)
    if problem:
        raise UserError(f"{at}: {broker} cannot be forgotten: {problem}")


def _neighbours(statuses: Statuses, broker: str, state: str = "") -> list[str]:
    """The brokers that answer, and have a link to it, perhaps only one in this state."""
    return [
        name
        for name, found in statuses.items()
        if found is not None
        and any(
            row["neighbour"] == broker and state in ("", row["state"]) for row in found["links"]
        )
    ]
