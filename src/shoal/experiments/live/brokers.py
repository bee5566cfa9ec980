"""Statuses of the brokers of a live network: rest, and incoming messages.

All of it comes from their admin ports.  A network is at rest when no broker keeps anything that
another has not handled, and nothing was counted meanwhile anywhere, twice in a row.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from shoal.clients.records import MigrationRecord
from shoal.model import BrokerId, ClientId
from shoal.runtime.addresses import Address, read_address
from shoal.runtime.network_file import NetworkFile
from shoal.runtime.operations.caller import ANYBODY, Caller
from shoal.runtime.supervisor import get_json

REST_TIMEOUT_S = 60.0
# Longer than any message takes between brokers, so that two polls see messages under way.
PAUSE_S = 0.3

Status = Mapping[str, Any]


class UnrestError(Exception):
    """Brokers that cannot be measured; says why."""


class Counts(NamedTuple):
    """Brokers' counters since their start, and the current places of publishers.

    publications   that brokers took in, each counted at every broker
    moves          of publishers, finished
    """

    publications: int
    moves: int
    places: dict[ClientId, BrokerId]


class LiveBrokers:
    """The admin ports of a network; UnrestError when a broker has none."""

    def __init__(self, network: NetworkFile, caller: Caller = ANYBODY) -> None:
        self._caller = caller
        self._addresses: dict[BrokerId, Address] = {}
        for broker in network.brokers:
            where = broker.reached_at("admin")
            if not where:
                raise UnrestError(
                    f"broker {broker.name} has no admin address, so nothing can be measured"
                )
            self._addresses[broker.name] = read_address(where)

    async def answer(self) -> None:
        """UnrestError unless all do."""
        await self._statuses()

    async def at_rest(self) -> Counts:
        """Wait until the network rests; return the counters of that moment.

        UnrestError when it does not, long after subscriptions have ceased to spread.
        """
        former: object = None
        tables: object = None
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(REST_TIMEOUT_S) as limit:
                while True:
                    statuses = await self._statuses()
                    if tables != (tables := [each["tables"] for each in statuses]):
                        limit.reschedule(loop.time() + REST_TIMEOUT_S)
                    seen = list(map(_happened, statuses))
                    if seen == former and all(map(_rests, statuses)):
                        return _counts(statuses)
                    former = seen
                    await asyncio.sleep(PAUSE_S)
        except TimeoutError:
            raise UnrestError(
                f"the brokers did not come to rest within {REST_TIMEOUT_S:.0f} s; "
                "does anybody else publish there?"
            ) from None

    async def _statuses(self) -> list[Status]:
        return await asyncio.gather(
            *(self._status(name, address) for name, address in self._addresses.items())
        )

    async def _status(self, name: BrokerId, address: Address) -> Status:
        try:
            return await get_json(address, "/status", self._caller.to(name))
        except OSError as error:
            problem = os.strerror(error.errno) if error.errno else str(error)
            raise UnrestError(f"{name} does not answer at {address}: {problem}") from None


def _happened(status: Status) -> object:
    """Return a broker's progress; news of clusters are left out, since they come without any
    cause.
    """
    counts = {name: n for name, n in status["counts"].items() if name != "messages_out"}
    return counts, status["mqtt"], status["tables"], status["publishers"]


def _rests(status: Status) -> bool:
    """Return whether a broker is whole, and all it sent has been handled."""
    kept = [*status["links"], *status["forwarding_channels"]]
    moving = any(row["is_moving"] for row in status["publishers"])
    return not status["missing"] and not moving and not any(each["buffered_bytes"] for each in kept)


def _counts(statuses: list[Status]) -> Counts:
    return Counts(
        publications=sum(each["counts"].get("publications_in", 0) for each in statuses),
        moves=sum(each["counts"].get(MigrationRecord.__name__, 0) for each in statuses),
        places={row["publisher"]: row["broker"] for each in statuses for row in each["publishers"]},
    )
