"""Three live brokers of any system that all end and restart, in any order, in virtual time.

A live network as in `random_restless.py`. Clients publish at every broker that accepts
publications. All brokers end at once. They start in one order, with pauses in which the connections
of a running one may hang. Then all end again, and start in another order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from itertools import pairwise, permutations
from random import Random
from unittest.mock import patch

import msgspec

from shoal.broker.links.outbox import LinkLimits
from shoal.language import parse
from shoal.matching.segments import Dimension
from shoal.overlays.bluedove.parameters import BlueDoveParameters
from shoal.overlays.registry import SYSTEMS
from shoal.runtime.links import dialling, forwarding_channels
from tests.runtime import live as live_network
from tests.runtime.live import LiveNetwork
from tests.runtime.virtual_loop import Cable, VirtualLoop
from tests.seeds.restarts.restless_clients import X_LIMIT, RestlessClients
from tests.systems import eager

NAMES = ("B1", "B2", "B3")
ORDERS = tuple(permutations(NAMES))
# A broker that returns within this does not count as dead.
PATIENCE_US = 60_000_000
# Links with detours are given up sooner: their content takes another way.
GIVE_UP_US = {"octopia": 3_000_000}
# Longer than any timeout of a broker.
PATIENCE_S = 2 * PATIENCE_US / 1e6
# Between one start and the next; all together are well below the timeout.
PAUSES_S = (0.0, 0.3, 2.0, 8.0, 12.0)


class StartOrders:
    """One seed's network, which starts in these orders one after the other."""

    def __init__(
        self, seed: int, system: str, orders: Sequence[Sequence[str]], kills: int = 0
    ) -> None:
        """During an order so many brokers are killed or cut off, and return by themselves."""
        self.kills = kills
        self.random = Random(f"starts/{seed}")
        self.system = system
        self.orders = orders
        self.loop = VirtualLoop(self._cable)
        self.cables: dict[frozenset[str], Cable] = {}
        wanted = {"B2": parse("class IN ('t1', 't2')"), "B3": parse("x >= 30")}
        self.clients = RestlessClients(NAMES, self.loop.now_us, wanted)
        self.problems: list[str] = []
        self.happened: list[str] = []

    def _cable(self, left: str, right: str) -> Cable:
        ends = frozenset((left, right))
        if ends not in self.cables:
            self.cables[ends] = Cable(Random(f"{self.random.random()}"), (0.0005, 0.02), 1e8)
        return self.cables[ends]

    def run(self) -> list[str]:
        """The violations."""
        random = Random(self.random.random())
        with (
            patch.object(live_network, "Clock", lambda: self.loop),
            patch.object(dialling, "Random", lambda: random),
            patch.object(forwarding_channels, "Random", lambda: random),
            asyncio.Runner(loop_factory=lambda: self.loop) as runner,
        ):
            runner.run(self._play())
        return self.problems

    async def _play(self) -> None:
        opens = SYSTEMS[self.system].shape.opens_links
        self.network = LiveNetwork(
            () if opens else pairwise(NAMES),
            self.system,
            _parameters(self.system),
            LinkLimits(give_up_us=GIVE_UP_US.get(self.system, PATIENCE_US)),
            brokers=NAMES,
            has_journals=True,
        )
        for name in NAMES:
            await self._start(name)
        await self._until_all_take_something()
        await asyncio.sleep(1)  # subscriptions are granted
        publishing = asyncio.create_task(self._publish())
        for order in self.orders:
            await asyncio.sleep(self.random.uniform(0, 3))
            await self._end_all()
            await asyncio.gather(self._start_all(order), *map(self._spoil, range(self.kills)))
            await self._until_all_take_something()
        await asyncio.sleep(1)
        publishing.cancel()
        await self._wait(lambda: not self.clients.unsettled)
        self.problems += self.clients.judge()
        for name in list(self.network.nodes):
            await self.network.kill(name)

    async def _start_all(self, order: Sequence[str]) -> None:
        for name in order:
            await self._pause()
            await self._start(name)

    async def _start(self, name: str) -> None:
        self._note(f"{name} starts")
        await self.network.start(name)
        self.clients.start(self.network.nodes[name])

    async def _spoil(self, number: int) -> None:
        """Kill a running broker, or cut it off, at some time for a while."""
        await asyncio.sleep(self.random.uniform(2, 6) * (number + 1))
        name = self.random.choice(NAMES)
        pause_s = self.random.choice(PAUSES_S[:-1]) * self.random.uniform(0.5, 1.5)
        if name in self.network.nodes:
            await (self._kill if self.random.random() < 0.7 else self._cut_off)(name, pause_s)

    async def _kill(self, name: str, pause_s: float) -> None:
        self._note(f"{name} is killed")
        for cable in self._cables_of(name) if self.random.random() < 0.6 else ():
            cable.reset()
        self.clients.killed(name)
        await self.network.kill(name)
        await asyncio.sleep(pause_s)
        await self._start(name)

    async def _cut_off(self, name: str, pause_s: float) -> None:
        """Nothing passes, and no connection breaks."""
        self._note(f"{name} is cut off for {pause_s:.2f} s")
        cables = self._cables_of(name)
        for cable in cables:
            cable.is_cut = True
        await asyncio.sleep(pause_s)
        for cable in cables:
            cable.mend()

    def _cables_of(self, name: str) -> list[Cable]:
        return [cable for ends, cable in self.cables.items() if name in ends]

    async def _end_all(self) -> None:
        self._note("all end")
        for name in NAMES:
            self.clients.killed(name)
        for cable in self.cables.values() if self.random.random() < 0.5 else ():
            cable.reset()
        for name in NAMES:
            await self.network.kill(name)

    async def _pause(self) -> None:
        """Nothing starts for a while; meanwhile the connections of one broker may hang."""
        pause_s = self.random.choice(PAUSES_S) * self.random.uniform(0.5, 1.5)
        if len(self.network.nodes) == 2 and self.random.random() < 0.5:
            still = list(self.cables.values())
            for cable in still:
                cable.is_cut = True
            await asyncio.sleep(pause_s)
            for cable in still:
                cable.mend()
        else:
            await asyncio.sleep(pause_s)

    async def _publish(self) -> None:
        pause_s = self.random.choice((0.02, 0.1, 0.5))
        while True:
            await asyncio.sleep(self.random.uniform(0, 2 * pause_s))
            for node in list(self.network.nodes.values()):
                self.clients.publish(node)

    async def _until_all_take_something(self) -> None:
        def do_all() -> bool:
            nodes = self.network.nodes.values()
            return len(nodes) == len(NAMES) and all(node.is_ready for node in nodes)

        if not await self._wait(do_all):
            unready = [name for name, node in self.network.nodes.items() if not node.is_ready]
            self.problems.append(f"{self.loop.time():.2f}: {unready} take nothing")

    async def _wait(self, condition: Callable[[], bool]) -> bool:
        until_s = self.loop.time() + PATIENCE_S
        while not condition() and self.loop.time() < until_s:
            await asyncio.sleep(0.1)
        return condition()

    def _note(self, what: str) -> None:
        self.happened.append(f"{self.loop.time():.2f}: {what}")


def _parameters(system: str) -> msgspec.Struct | None:
    """Eager parameters with which no broker counts as dead before its links do."""
    if system == "bluedove":
        dimensions = (Dimension(attribute="x", low=0, high=X_LIMIT),)
        return BlueDoveParameters(dimensions=dimensions, dispatchers=NAMES, matchers=NAMES)
    found = eager(system, 25, NAMES)
    if found is not None and "patience_us" in found.__struct_fields__:
        return msgspec.structs.replace(found, patience_us=PATIENCE_US)
    return found
