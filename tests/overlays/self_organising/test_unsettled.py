"""Unsettled publications take the new way first when tables turn, whichever broker is killed then.

Live brokers in virtual time, with clients, on cables that can be cut.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from itertools import product
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

from shoal.broker.effects import Leave, TimerFired
from shoal.broker.messages import Goodbye
from shoal.overlays.registry import SYSTEMS
from shoal.overlays.tree.routing import TreeRouting
from shoal.runtime.links import dialling
from tests.forced_exchanges import BEGIN, SYSTEM
from tests.runtime import live as live_network
from tests.runtime.live import LiveNetwork
from tests.runtime.virtual_loop import Cable, VirtualLoop
from tests.seeds.restarts.restless_clients import RestlessClients

Links = list[tuple[str, str]]
PATIENCE_S = 90.0


class Exchanging:
    """A network whose links are exchanged on demand; `run` plays a test in virtual time."""

    def __init__(self, links: Links, system: str = SYSTEM.name) -> None:
        self._system = system
        self._cables: dict[frozenset[str], Cable] = {}
        self.loop = VirtualLoop(self.cable)
        self._links = links
        names = sorted({name for link in links for name in link})
        self.clients = RestlessClients(names, self.loop.now_us)

    def cable(self, left: str, right: str) -> Cable:
        ends = frozenset((left, right))
        if ends not in self._cables:
            self._cables[ends] = Cable(Random(0), (0.001, 0.001), 1e8)
        return self._cables[ends]

    def run(self, play: Coroutine[Any, Any, None]) -> None:
        with (
            patch.dict(SYSTEMS, {SYSTEM.name: SYSTEM}),
            patch.object(live_network, "Clock", lambda: self.loop),
            patch.object(dialling, "Random", lambda: Random(0)),
            asyncio.Runner(loop_factory=lambda: self.loop) as runner,
        ):
            runner.run(self._play(play))

    async def _play(self, play: Coroutine[Any, Any, None]) -> None:
        self.network = LiveNetwork(self._links, self._system, has_journals=True)
        for name in self.network.names:
            await self.start(name)
        await self.until(lambda: all(node.is_ready for node in self.network.nodes.values()))
        await play
        await self.until(lambda: not self.clients.unsettled)
        for name in list(self.network.nodes):
            await self.network.kill(name)

    async def start(self, name: str) -> None:
        await self.network.start(name)
        self.clients.start(self.network.nodes[name])

    async def kill(self, name: str) -> None:
        self.clients.killed(name)
        await self.network.kill(name)

    async def publish(self, name: str) -> None:
        node = self.network.nodes[name]
        await self.until(lambda: not node.is_holding)
        self.clients.publish(node)
        await asyncio.sleep(0.05)

    async def until(self, condition: Any) -> None:
        until_s = self.loop.time() + PATIENCE_S
        while not condition() and self.loop.time() < until_s:
            await asyncio.sleep(0.001)
        assert condition()

    async def leave(self, name: str, *, centre: str, other: str) -> None:
        """A broker between two others leaves; return when one of them has taken its place."""
        node = self.network.nodes[name]
        for client in (f"s/{name}", f"p/{name}"):
            node.request(client, Goodbye())
        node.bring(Leave())
        await self.until(lambda: self._neighbours(other) >= {centre})
        self.clients.subscribers.pop(name)

    async def exchange(self, *cycle: str, remove: int) -> None:
        """The last of a cycle decides that a link of it should go; return when it has gone."""
        node = self.network.nodes[cycle[-1]]
        node.bring(TimerFired((BEGIN, str(remove), *cycle)))
        await self.until(lambda: self._neighbours(cycle[-1]) >= {cycle[0]})

    def _neighbours(self, name: str) -> set[str]:
        machine: Any = self.network.nodes[name].machine.strategy
        tree = machine if isinstance(machine, TreeRouting) else machine.tree
        return {*tree.propagation.neighbours}


# The publisher, and the cycle whose second link goes: the publisher is an end of the removed link,
# of the new one, both, or outside the cycle.
CASES = [
    *product(["B1", "L1", "B2", "L2"], [("B1", "B2", "B3")]),
    *product(["B1", "L1", "B2", "L2"], [("B3", "B2", "B1")]),
]


@pytest.mark.parametrize(("publisher", "cycle"), CASES)
def test_a_kill_after_an_exchange_loses_nothing(publisher: str, cycle: tuple[str, ...]) -> None:
    # Publications under way beyond the killed broker must not arrive behind later ones.
    test = Exchanging([("B1", "B2"), ("B2", "B3"), ("B1", "L1"), ("B2", "L2"), ("B3", "L3")])

    async def play() -> None:
        cable = test.cable("B3", "L3")
        cable.is_cut = True
        await test.publish(publisher)
        await test.exchange(*cycle, remove=1 if cycle[-1] == "B3" else 0)
        await test.publish(publisher)
        cable.reset()
        await test.kill("B3")
        cable.mend()
        await test.publish(publisher)
        await test.start("B3")

    test.run(play())
    assert test.clients.judge() == []
    assert test.clients.settled == 3


@pytest.mark.parametrize("system", ["tree", "grape", "self_organising"])
@pytest.mark.parametrize("publisher", ["B1", "L1"])
def test_a_kill_after_a_leave_loses_nothing(publisher: str, system: str) -> None:
    # The broker that left is told of a failed link, and must not settle publications on it.
    test = Exchanging([("B1", "B2"), ("B2", "B3"), ("B1", "L1"), ("B3", "L3")], system)

    async def play() -> None:
        cable = test.cable("B3", "L3")
        cable.is_cut = True
        await test.publish(publisher)
        await test.leave("B2", centre="B1", other="B3")
        await test.publish(publisher)
        cable.reset()
        await test.kill("B3")
        cable.mend()
        await test.publish(publisher)
        await test.start("B3")

    test.run(play())
    assert test.clients.judge() == []
    assert test.clients.settled == 3
