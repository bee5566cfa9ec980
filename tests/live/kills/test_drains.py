"""Drains and moves of processes: of all brokers at once, undone, or ended by a kill."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from shoal.client import Client
from shoal.runtime.supervisor import order
from tests.runtime.live import PATIENCE_S, on_asyncio, until
from tests.runtime.processes import Processes, processes

NAMES = ("B1", "B2", "B3")
READERS = 12


class Crowd:
    """Readers of one topic that follow redirects, and a publisher."""

    def __init__(self, network: Processes) -> None:
        self.heard: dict[str, list[int]] = {}
        self.sent = 0
        self.is_over = False
        self._network = network

    def client(self, name: str, broker: str) -> Client:
        return Client(str(self._network.network.broker(broker).address("mqtt")), name)

    async def read(self, name: str) -> None:
        async with self.client(name, "B1") as client, client.subscribe("a", qos=1) as messages:
            self.heard[name] = []
            async for message in messages:
                self.heard[name].append(int(message.payload))

    async def publish(self) -> None:
        async with self.client("writer", "B2") as writer:
            while not self.is_over:
                await writer.publish("a", b"%d" % self.sent, qos=1)
                self.sent += 1
                await asyncio.sleep(0.01)

    @property
    def has_received_all(self) -> bool:
        return all(heard and heard[-1] == self.sent - 1 for heard in self.heard.values())


class Orders:
    """An operator's orders and questions."""

    def __init__(self, network: Processes) -> None:
        self._network = network

    async def __call__(self, to: str, name: str, **said: str) -> str:
        address = self._network.network.broker(to).address("admin")
        assert address is not None
        return await order(address, name, **said)

    async def status(self, broker: str) -> dict[str, Any]:
        return await asyncio.to_thread(self._network.status, broker)

    async def sessions(self, *brokers: str) -> int:
        return sum([(await self.status(broker))["mqtt"]["sessions"] for broker in brokers])

    async def have(self, sessions: int, *brokers: str) -> None:
        """Wait until these brokers have exactly so many sessions."""
        async with asyncio.timeout(2 * PATIENCE_S):
            while await self.sessions(*brokers) > sessions:
                await asyncio.sleep(0.05)


@on_asyncio
async def test_concurrent_drains_and_moves_lose_nothing(tmp_path: Path) -> None:
    with processes(tmp_path, len(NAMES)) as network:
        crowd, orders = Crowd(network), Orders(network)
        tasks = [asyncio.create_task(crowd.read(f"c{number}")) for number in range(READERS)]
        await until(lambda: len(crowd.heard) == READERS)
        writing = asyncio.create_task(crowd.publish())
        await until(lambda: crowd.sent > 10)
        # Two operators move one client, and two drain one broker.
        answers = await asyncio.gather(
            *(orders("B1", "move", client="c0", broker=b) for b in ("B2", "B3"))
        )
        # The second order is too late if the first was carried out quickly.
        late = {"c0 is on its way already", "c0 is not connected to B1"}
        assert "" in answers
        assert late & set(answers)
        assert await asyncio.gather(orders("B1", "drain"), orders("B1", "drain")) == ["", ""]
        await orders.have(0, "B1")
        # All brokers are drained: there is no target, so clients stay.
        await asyncio.gather(orders("B2", "drain"), orders("B3", "drain"))
        await asyncio.sleep(2)
        await orders.have(READERS + 1, *NAMES)
        problems = {(await orders.status(name))["clients"]["problem"] for name in NAMES}
        assert any("takes no clients: the broker is being drained" in each for each in problems)
        # One drain is undone: all clients go there.
        assert await orders("B3", "undrain") == ""
        await orders.have(0, "B1", "B2")
        for name in ("B1", "B2"):
            assert await orders(name, "undrain") == ""
        # Kill it before all have left; started again, it admits clients.
        await orders("B3", "drain")
        await orders.have(READERS - 2, "B3")
        network.kill("B3")
        network.start("B3")
        assert not (await orders.status("B3"))["clients"]["is_draining"]
        before = crowd.sent
        await until(lambda: crowd.sent > before + 100)
        crowd.is_over = True
        await writing
        await until(lambda: crowd.has_received_all)
        for heard in crowd.heard.values():
            assert heard == list(range(heard[0], crowd.sent))
        for task in tasks:
            task.cancel()
