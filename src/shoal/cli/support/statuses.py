"""What the brokers of a live network say of themselves, asked at their admin ports."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from shoal.cli.support.errors import UserError

if TYPE_CHECKING:
    from shoal.runtime.addresses import Address
    from shoal.runtime.network_file import Network

# Every broker of a network answers with one of these; None when it does not answer.
Statuses = dict[str, dict[str, Any] | None]


async def ask_status(network: Network) -> Statuses:
    """What brokers say: those of the file and those that have joined, without those that left."""
    listed = {broker.name: broker.admin for broker in network.brokers}
    found = await _ask_all(listed)
    known = {
        row["broker"]: row["admin"]
        for answer in found.values()
        if answer is not None
        for row in answer["brokers"]
    }
    if known:
        joined = {name: admin for name, admin in known.items() if name not in listed}
        found = {name: answer for name, answer in found.items() if answer or name in known}
        found |= await _ask_all(joined)
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


async def _ask_all(admins: Mapping[str, str]) -> Statuses:
    from shoal.runtime.addresses import read_address
    from shoal.runtime.supervisor import get_json

    async def ask(admin: str) -> dict[str, Any] | None:
        try:
            return await get_json(read_address(admin), "/status") if admin else None
        except (OSError, ValueError):
            return None

    answers = await asyncio.gather(*map(ask, admins.values()))
    return dict(zip(admins, answers, strict=True))
