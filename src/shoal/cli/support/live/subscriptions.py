"""Subscriptions of the clients of a live network, from its brokers' admin ports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shoal.cli.support.errors import UserError
from shoal.cli.support.live.statuses import admin_addresses, ask_status

if TYPE_CHECKING:
    from shoal.runtime.network_file import NetworkFile
    from shoal.runtime.operations.caller import Caller


async def ask_subscriptions(
    network: NetworkFile, caller: Caller
) -> tuple[list[dict[str, Any]], list[str]]:
    """All subscriptions, by broker, and the brokers' names; UserError if one does not answer."""
    from shoal.runtime.supervisor import get_json

    rows: list[dict[str, Any]] = []
    statuses = await ask_status(network, caller)
    for name, status in statuses.items():
        if status is None:
            raise UserError(
                f"{name} {statuses.why_not(name)}; so its clients' filters are not known"
            )
    for name, address in admin_addresses(network, statuses).items():
        query: str | None = ""
        while query is not None:
            try:
                answer = await get_json(address, f"/subscriptions?{query}", caller.to(name))
            except OSError as error:
                raise UserError(f"{name} does not say its subscriptions: {error}") from error
            rows += ({**row, "broker": name} for row in answer["subscriptions"])
            query = answer["next"]
    return rows, list(statuses)
