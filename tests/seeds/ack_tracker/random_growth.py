"""Products that grow and shrink under all other events of `random_ack_tracker.py`.

Brokers join one by one, also as the first of a new cluster, and leave, founders too. Meanwhile
brokers die and return, links break, and clients publish, subscribe and leave. A broker that dies
during its join or leave begins again. Settled publications have arrived all the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from shoal.broker.effects import Leave
from shoal.broker.messages import Goodbye, Unsubscribe
from shoal.model import Publication
from shoal.overlays.octopia.parameters import OctopiaParameters
from shoal.runtime.node import Node
from shoal.runtime.storage.overlay_file import OverlayFile
from tests.seeds.ack_tracker.random_ack_tracker import (
    LONGEST_CUT_S,
    PATIENCE_S,
    SECOND_US,
    RandomAckTracker,
)

# The number of brokers that stay.
FEWEST = 3


class RandomGrowth(RandomAckTracker):
    """One seed's product; `run` gives the violations."""

    has_journals = True

    def __init__(self, seed: int, *, faults: int = 8) -> None:
        """One in four spreads publications, one in two has sharp bits."""
        spreads, sharp_bits = seed % 4 == 3, 2 * (seed % 2)
        super().__init__(seed, "octopia", faults=faults, spreads=spreads, sharp_bits=sharp_bits)
        assert isinstance(self.parameters, OctopiaParameters)
        self.rows = self.parameters.rows
        self.leaving: set[str] = set()
        self.joined = self.left = self.new_clusters = 0

    def _kinds(self) -> list[tuple[Callable[[], object], float]]:
        grows = [(self._join, 3.0), (self._begin_cluster, 1.0), (self._leave, 4.0)]
        return [*super()._kinds(), *grows]

    @property
    def _homes(self) -> list[str]:
        return [each for each in super()._homes if each not in self.leaving]

    async def _cut(self) -> None:
        """Any link that exists."""
        there = {frozenset((one, other)) for one in self.names for other in self.names}
        ends = sorted(sorted(each) for each in self.cables if each in there)
        await self._away([frozenset(self.random.choice(ends))])

    def _may_come_late(self, publication: Publication) -> bool:
        """Whether its way may have been cut by a broker's death: order is not kept then."""
        late_us = int(LONGEST_CUT_S * SECOND_US)
        return any(
            since_us - late_us < publication.published_us < (until_us or self.loop.now_us())
            for since_us, until_us in self.deaths
        )

    # --- joins ---------------------------------------------------------------------------------

    async def _join(self) -> None:
        await self._come({})

    async def _begin_cluster(self) -> None:
        """The broker's own network file has one more column, with its place in some row."""
        self.new_clusters += 1
        region = self.random.randrange(len(self.rows))
        rows = tuple(
            (*row, *[""] * (self.new_clusters - 1), "" if place != region else "{}")
            for place, row in enumerate(self.rows)
        )
        await self._come({"rows": rows})

    async def _come(self, others: dict[str, tuple[tuple[str, ...], ...]]) -> None:
        random, network = self.random, self.network
        self.joined += 1
        name, beside = f"N{self.joined}", random.choice(self._homes)
        if others:
            rows = tuple(tuple(each.format(name) for each in row) for row in others["rows"])
            assert self.parameters is not None
            network.own_parameters[name] = msgspec.structs.replace(self.parameters, rows=rows)
        network.overlays[name] = OverlayFile()
        network.overlays[name].opened(beside, self.loop.now_us())
        self.names.append(name)
        self._note(f"{name} comes, to {beside}{' with a new cluster' if others else ''}")
        await network.start(name)
        if await self._until(lambda: self._is_ready(name), f"{name} has come"):
            self._note(f"{name} is there")
            if name in self._homes:
                self._settle_in(name)

    # --- leaves --------------------------------------------------------------------------------

    async def _leave(self) -> None:
        ready = [each for each in self._homes if self._is_ready(each)]
        if len(self.names) - len(self.leaving) <= FEWEST or not ready:
            return
        name = self.random.choice(ready)
        self.leaving.add(name)
        self._note(f"{name} wants to go")
        end = self.loop.time() + PATIENCE_S
        while self.loop.time() < end:
            node = self.network.nodes.get(name)
            if node is not None and node.is_ready and await self._has_left(name, node):
                self._note(f"{name} has left")
                self.names.remove(name)
                self.left += 1
                await self.network.kill(name)
                return
            await asyncio.sleep(0.1)
        self.problems.append(f"never: {name} has left")

    async def _has_left(self, name: str, node: Node) -> bool:
        """Order a broker's leave, as its process does; False if it dies meanwhile, or stays."""

        async def until(condition: Callable[[], bool]) -> bool:
            end = self.loop.time() + PATIENCE_S
            while not condition() and self.network.nodes.get(name) is node:
                if self.loop.time() > end:
                    return False
                await asyncio.sleep(0.05)
            return self.network.nodes.get(name) is node

        for each in self._present:
            if each.home == name:
                each.until_us = self.loop.now_us()
                node.request(each.id, Unsubscribe(each.id))
        gone = [client for client, home in self.publishers.items() if home == name]
        for client in gone:
            del self.publishers[client]
        if not await until(lambda: all(key[0] not in gone for key in self.unsettled)):
            self.unsettled = {key: one for key, one in self.unsettled.items() if key[0] not in gone}
            return False
        for client in gone:
            node.request(client, Goodbye())
        answers: list[str] = []
        node.asides.at_leave = answers.append
        node.bring(Leave())
        if not await until(lambda: bool(answers)) or answers[0]:
            return False
        links = self.network.links[name]
        for neighbour in links.neighbours:
            links.end(neighbour)
        node.schedule_flush()
        return await until(lambda: not links.neighbours)
