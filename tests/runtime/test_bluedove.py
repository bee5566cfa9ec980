"""BlueDove on live links: brokers that nobody linked find each other; a matcher dies under load."""

from __future__ import annotations

import asyncio

from shoal.overlays.bluedove.messages import SubscriptionStored
from shoal.overlays.bluedove.parameters import Parameters
from shoal.overlays.bluedove.segments import Dimension
from tests.runtime.live import PATIENCE_S, LiveNetwork, live, on_loop, until

MATCHERS = ("M1", "M2", "M3")
PARAMETERS = Parameters(
    dispatchers=("D1", "D2"),
    matchers=MATCHERS,
    dimensions=(Dimension(attribute="x", low=0, high=90), Dimension(attribute="y", low=0, high=9)),
    answer_timeout_us=300_000,
    failure_us=1_500_000,
    gossip_interval_us=100_000,
    pull_interval_us=200_000,
    tick_us=50_000,
)


def is_linked(network: LiveNetwork, broker: str) -> bool:
    """Whether a dispatcher has links to all matchers."""
    rows = network.links[broker].status()
    return {row["neighbour"] for row in rows if row["state"] == "up"} >= set(MATCHERS)


@on_loop
async def test_a_matcher_that_dies_under_load_loses_nothing() -> None:
    brokers = ("D1", "D2", *MATCHERS)
    async with live((), brokers=brokers, system="bluedove", parameters=PARAMETERS) as network:
        publisher, subscriber = network.client("P", "D1"), network.client("C", "D2")
        await until(lambda: all(is_linked(network, name) for name in ("D1", "D2")))
        subscriber.subscribe("s", "x >= 30")
        publisher.advertise("a", "x >= 0")
        await until(lambda: any(isinstance(each, SubscriptionStored) for each in network.notices))
        wanted = set()
        for number in range(600):
            x = number % 90
            await publisher.publish({"x": x, "y": number % 10})
            if x >= 30:
                wanted.add(number)
            if number == 300:
                await network.kill("M2")
            if number % 10 == 0:
                await asyncio.sleep(0.002)
        found = []
        async with asyncio.timeout(PATIENCE_S):
            while set(found) != wanted:
                delivery = await subscriber.deliveries.get()
                found.append(delivery.routed.publication.sequence)
        assert len(found) == len(wanted)
        assert not publisher.rejections
