"""Three live brokers in virtual time that exchange links all the time, and are killed meanwhile.

A live network (nodes, links, stored overlay: all but sockets and the clock) on a `VirtualLoop`. One
broker after the other dies, at any step of an exchange, and restarts. Exchanges must continue soon,
over a tree of all brokers; a broker that is cut off can exchange none.
"""

from __future__ import annotations

import asyncio
from random import Random
from unittest.mock import patch

from shoal.overlays.registry import SYSTEMS
from shoal.runtime.links import dialling, forwarding_channels
from tests.restless import NAMES, SYSTEM, Restless
from tests.runtime import live as live_network
from tests.runtime.live import LiveNetwork
from tests.runtime.virtual_loop import Cable, VirtualLoop
from tests.seeds.restarts.restless_clients import RestlessClients

# Longer than any timeout of a broker, disconnected links included.
PATIENCE_S = 90.0


class RandomRestless:
    """One seed's network; `run` gives the violations."""

    def __init__(
        self, seed: int, *, kills: int = 12, most_at_once: int = 1, leaves: bool = False
    ) -> None:
        """So many brokers are killed at once, at most. With `leaves` each of them has one more."""
        self.random = Random(f"restless/{seed}")
        self.kills = kills
        self.most_at_once = most_at_once
        self.loop = VirtualLoop(self._cable)
        self.cables: dict[frozenset[str], Cable] = {}
        self.problems: list[str] = []
        self.longest_s = 0.0
        self.links = [("B1", "B2"), ("B2", "B3")]
        if leaves:
            self.links += [(name, f"L{name}") for name in sorted(NAMES)]
        self.names = sorted({name for link in self.links for name in link})
        self.clients = RestlessClients(self.names, self.loop.now_us)
        self.happened: list[str] = []

    def _cable(self, left: str, right: str) -> Cable:
        ends = frozenset((left, right))
        if ends not in self.cables:
            latency_s = (0.0005, self.random.choice([0.002, 0.03]))
            self.cables[ends] = Cable(Random(f"{self.random.random()}"), latency_s, 1e8)
        return self.cables[ends]

    def run(self) -> list[str]:
        random = Random(self.random.random())
        with (
            patch.dict(SYSTEMS, {SYSTEM.name: SYSTEM}),
            patch.object(live_network, "Clock", lambda: self.loop),
            patch.object(dialling, "Random", lambda: random),
            patch.object(forwarding_channels, "Random", lambda: random),
            asyncio.Runner(loop_factory=lambda: self.loop) as runner,
        ):
            runner.run(self._play())
        return self.problems

    async def _play(self) -> None:
        self.network = LiveNetwork(self.links, SYSTEM.name, has_journals=True)
        for name in self.network.names:
            await self._start(name)
        publishing = asyncio.create_task(self._publish())
        for _ in range(self.kills):
            if not await self._goes_on():
                break
            await asyncio.sleep(self.random.uniform(0, 1.5))
            count = self.random.randint(1, self.most_at_once)
            names = self.random.sample(self.names, count)
            await asyncio.gather(*map(self._kill, names))
        else:
            await self._goes_on()
        publishing.cancel()
        await self._is_settled()
        self.problems += self.clients.judge()
        for name in list(self.network.nodes):
            await self.network.kill(name)

    async def _start(self, name: str) -> None:
        await self.network.start(name)
        self.clients.start(self.network.nodes[name])

    async def _publish(self) -> None:
        pause_s = self.random.choice([0.005, 0.05, 0.5])
        while True:
            await asyncio.sleep(self.random.uniform(0, 2 * pause_s))
            for node in list(self.network.nodes.values()):
                self.clients.publish(node)

    async def _is_settled(self) -> None:
        until_s = self.loop.time() + PATIENCE_S
        while self.clients.unsettled and self.loop.time() < until_s:
            await asyncio.sleep(0.1)

    async def _kill(self, name: str) -> None:
        self.happened.append(f"{self.loop.time():.2f}: killed {name}")
        self.clients.killed(name)
        if self.random.random() < 0.6:
            for ends, cable in list(self.cables.items()):
                if name in ends:
                    cable.reset()
        await self.network.kill(name)
        pause_s = self.random.choice([0.05, 0.5, 1, 3])
        await asyncio.sleep(pause_s * self.random.uniform(0.5, 1.5))
        await self._start(name)
        self.happened.append(f"{self.loop.time():.2f}: started {name}")

    async def _goes_on(self) -> bool:
        """Wait for another exchange."""
        since_s, before = self.loop.time(), self._exchanged
        while self._exchanged <= before:
            await asyncio.sleep(0.02)
            if self.loop.time() - since_s > PATIENCE_S:
                self.problems.append(f"{self.loop.time():.2f}: no exchange; {self._picture}")
                return False
        self.longest_s = max(self.longest_s, self.loop.time() - since_s)
        return True

    @property
    def _machines(self) -> dict[str, Restless]:
        return {
            name: node.machine.strategy  # type: ignore[misc]
            for name, node in self.network.nodes.items()
        }

    @property
    def _exchanged(self) -> int:
        """The numbers of exchanges begun and committed by running brokers."""
        return sum(machine.description["exchanged"] for machine in self._machines.values())

    @property
    def _picture(self) -> dict[str, list[str]]:
        return {
            name: sorted(machine.overlay.tree.propagation.neighbours)
            for name, machine in self._machines.items()
        }
