"""Links that are full all around: brokers never wait for each other in a cycle, on any shape."""

from __future__ import annotations

import asyncio

import pytest

from shoal.broker.links.outbox import LinkLimits
from shoal.model import BrokerId
from tests.examples import at_length
from tests.runtime.live import PATIENCE_S, live, until
from tests.systems import eager

# Full after some ten publications.
NARROW = LinkLimits(window_bytes=2_000, high_bytes=4_000, low_bytes=2_000, limit_bytes=1 << 30)
RING = (("B1", "B2"), ("B2", "B3"), ("B3", "B1"))
BROKERS: tuple[BrokerId, ...] = ("B1", "B2", "B3")
EACH = 1_500
TEXT = "x" * 300


@pytest.mark.parametrize(
    ("system", "links"),
    [("flooding", RING), ("bluedove", ()), *at_length([("octopia", RING), ("tid", RING)])],
)
def test_a_ring_of_full_links_drains(system: str, links: tuple[tuple[str, str], ...]) -> None:
    async def flood() -> None:
        parameters = eager(system, 3, BROKERS)
        options = {"system": system, "parameters": parameters, "limits": NARROW, "brokers": BROKERS}
        async with live(links, **options) as network:
            clients = [network.client(f"C{name}", name) for name in BROKERS]
            for client in clients:
                client.subscribe(f"s{client.name}", "x >= 0")
                client.advertise(f"a{client.name}", "x >= 0")
            await asyncio.sleep(0.5)

            async def publish(number: int) -> None:
                for place in range(EACH):
                    await clients[number].publish({"x": place % 100, "class": "k", "text": TEXT})

            await asyncio.gather(*(publish(number) for number in range(3)))
            await until(lambda: all(each.deliveries.qsize() == 3 * EACH for each in clients))

    asyncio.run(asyncio.wait_for(flood(), 3 * PATIENCE_S))
