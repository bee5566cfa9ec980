"""Clients of a live network, from its brokers' admin ports."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from shoal.cli.support.errors import UserError
from shoal.cli.support.live.statuses import Statuses, admin_addresses, ask_status, problem_of

if TYPE_CHECKING:
    from shoal.runtime.network_file import NetworkFile
    from shoal.runtime.operations.caller import Caller

Row = dict[str, Any]


async def ask_clients(
    network: NetworkFile, caller: Caller, client: str = ""
) -> tuple[Statuses, list[Row]]:
    """Return the brokers' statuses, and the clients of all, or only one."""
    from shoal.runtime.supervisor import get_json

    statuses = await ask_status(network, caller)
    here = admin_addresses(network, statuses)

    async def ask(name: str) -> list[Row]:
        rows: list[Row] = []
        query: str | None = urlencode({"client": client}) if client else ""
        while query is not None:
            try:
                found = await get_json(here[name], f"/clients?{query}", caller.to(name))
            except OSError as error:
                raise UserError(f"{name} does not answer: {problem_of(error)}") from error
            rows += ({"broker": name, **row} for row in found["clients"])
            query = found["next"]
        return rows

    found = await asyncio.gather(*map(ask, here))
    return statuses, [row for rows in found for row in rows]


def present_rows(rows: list[Row]) -> list[Row]:
    """Drop rows of brokers that gave a session to one that has it, as they do for a while.

    >>> given = {"client": "c", "broker": "B1", "going": "B2"}
    >>> there = {"client": "c", "broker": "B2", "going": None}
    >>> present_rows([given, there]) == [there], present_rows([given]) == [given]
    (True, True)
    """
    there = {(row["client"], row["broker"]) for row in rows}
    return [row for row in rows if (row["client"], row["going"]) not in there]
