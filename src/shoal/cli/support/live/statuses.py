"""What the brokers of a live network say of themselves, asked at their admin ports."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from shoal.cli.support.errors import UserError

if TYPE_CHECKING:
    from shoal.runtime.addresses import Address
    from shoal.runtime.network_file import Network
    from shoal.runtime.operations.caller import Caller


class Statuses(dict[str, "dict[str, Any] | None"]):
    """What every broker of a network answers, None when it does not; why not, where that is known.

    `refusals` are of brokers that are there, and do not talk to this caller.
    """

    def __init__(
        self, found: Mapping[str, dict[str, Any] | None], refusals: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(found)
        self.refusals = dict(refusals or {})


async def ask_status(network: Network, caller: Caller) -> Statuses:
    """What brokers say: those of the file and those that have joined, without those that left.

    UserError when none talks to this caller.
    """
    listed = {broker.name: broker.reached_at("admin") for broker in network.brokers}
    found = await _ask_all(listed, caller)
    if found.refusals and not any(found.values()):
        raise UserError("\n       ".join(f"{name}: {why}" for name, why in found.refusals.items()))
    known = {
        row["broker"]: row["admin"]
        for answer in found.values()
        if answer is not None
        for row in answer["brokers"]
    }
    if known:
        joined = {name: admin for name, admin in known.items() if name not in listed}
        further = await _ask_all(joined, caller)
        there = {name: answer for name, answer in found.items() if answer or name in known}
        found = Statuses(there | further, found.refusals | further.refusals)
    return found


def check_known(network: Network, statuses: Statuses, broker: str) -> None:
    """UserError unless a broker of that name is in the network."""
    if broker not in statuses:
        names = ", ".join(statuses)
        raise UserError(f"{network.name} has no broker {broker}; its brokers are {names}")


def admin_addresses(network: Network, statuses: Statuses) -> dict[str, Address]:
    """Where those listen that have answered; UserError when none has."""
    from shoal.runtime.addresses import read_address

    found = {
        name: read_address(answer["listening"]["admin"])
        for name, answer in statuses.items()
        if answer is not None
    }
    if not found:
        raise UserError(f"no broker of {network.name} answers")
    return found


async def _ask_all(admins: Mapping[str, str], caller: Caller) -> Statuses:
    from shoal.runtime.addresses import read_address
    from shoal.runtime.operations.caller import RefusedError
    from shoal.runtime.supervisor import get_json

    refusals = {}

    async def ask(name: str, admin: str) -> dict[str, Any] | None:
        if not admin:
            return None
        try:
            return await get_json(read_address(admin), "/status", caller.to(name))
        except RefusedError as error:
            refusals[name] = str(error)
        except (OSError, ValueError):
            pass
        return None

    answers = await asyncio.gather(*(ask(*each) for each in admins.items()))
    return Statuses(dict(zip(admins, answers, strict=True)), refusals)
