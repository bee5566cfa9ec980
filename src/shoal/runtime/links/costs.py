"""Costs of messages at a live broker, for a system that chooses its links by them (`Costs`).

The network file may give costs; else they are measured, in µs: the time to handle a publication,
and the delay to each broker that answers, over its link or by a probe at intervals. A cost is
reported again after a change by a quarter: single measurements differ.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import msgspec

from shoal.broker.effects import Costs
from shoal.runtime.links.directory import Directory
from shoal.runtime.links.peer_links import PeerLinks
from shoal.runtime.links.probing import Probes
from shoal.runtime.network_sections import CostsSection
from shoal.runtime.node import Node

MEASURE_S = 10.0
# Weight of a new measurement in the moving average.
_SHARE = 0.3
_CHANGED = 0.25


class LinkCosts:
    """Measures for one node, once its machine has asked."""

    def __init__(
        self,
        node: Node,
        section: CostsSection,
        links: PeerLinks,
        directory: Directory,
        probes: Probes,
    ) -> None:
        self._node = node
        self._section = section
        self._links = links
        self._directory = directory
        self._probes = probes
        self._measured: dict[str, float] = {}
        self._said: Costs | None = None
        self._task: asyncio.Task[None] | None = None
        node.watching.at_costs = self.start

    def start(self) -> None:
        """The machine asks."""
        if self._task is None:
            self._task = asyncio.create_task(self._measure())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _measure(self) -> None:
        while True:
            others = self._others()
            if self._section.links:
                ways = self._section.costs_from(self._node.id, others)
            else:
                ways = await self._measure_ways(others)
            self._say(Costs(self._here(), ways))
            await asyncio.sleep(MEASURE_S)

    def _here(self) -> float:
        if self._section.here is not msgspec.UNSET:
            return self._section.here
        return self._node.watching.handled_in_us

    async def round_trips(self, _query: Mapping[str, str]) -> dict[str, dict[str, int]]:
        """Return µs to each other broker that answers, and back.

        A link's heartbeat waits behind messages, a probe for a turn: the shorter one counts.
        """
        near = self._links.delays_us()
        found = await self._probes.delays_us(self._others())
        ways = {name: min(us, near.get(name, us)) for name, us in {**near, **found}.items()}
        return {"round_trips_us": {name: 2 * delay_us for name, delay_us in ways.items()}}

    def _others(self) -> list[str]:
        return [each.name for each in self._directory.places if each.name != self._node.id]

    async def _measure_ways(self, others: list[str]) -> dict[str, float]:
        near = self._links.delays_us()
        far = [name for name in others if name not in near]
        found = {**await self._probes.delays_us(far), **near}
        for name, delay_us in found.items():
            before = self._measured.get(name, float(delay_us))
            self._measured[name] = before + _SHARE * (delay_us - before)
        return {name: self._measured[name] for name in others if name in found}

    def _say(self, costs: Costs) -> None:
        if self._said is None or _differ(self._said, costs):
            self._said = costs
            self._node.watching.report_costs(costs)


def _differ(old: Costs, new: Costs) -> bool:
    if old.links.keys() != new.links.keys():
        return True
    pairs = [(old.here, new.here), *((old.links[name], new.links[name]) for name in old.links)]
    return any(abs(after - before) > _CHANGED * max(before, 1.0) for before, after in pairs)
