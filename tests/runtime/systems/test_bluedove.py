"""BlueDove on live links: discovery, broken connections, a dying matcher, and publishers' order."""

from __future__ import annotations

import asyncio
from random import Random

import msgspec
import pytest

from shoal.matching.segments import Dimension
from shoal.overlays.bluedove.messages import SubscriptionStored
from shoal.overlays.bluedove.parameters import BlueDoveParameters
from tests.runtime.live import PATIENCE_S, LiveNetwork, live, on_asyncio, until

MATCHERS = ("M1", "M2", "M3")
PARAMETERS = BlueDoveParameters(
    dispatchers=("D1", "D2"),
    matchers=MATCHERS,
    dimensions=(Dimension(attribute="x", low=0, high=90), Dimension(attribute="y", low=0, high=9)),
    answer_timeout_us=300_000,
    failure_us=1_500_000,
    gossip_interval_us=100_000,
    pull_interval_us=200_000,
    tick_us=50_000,
)
# Every broker does both.
ALL = ("B1", "B2", "B3")
ALIKE = msgspec.structs.replace(PARAMETERS, dispatchers=ALL, matchers=ALL)


def is_linked(network: LiveNetwork, broker: str) -> bool:
    """Whether a dispatcher has links to all matchers."""
    rows = network.links[broker].status()
    return {row["neighbour"] for row in rows if row["state"] == "up"} >= set(MATCHERS)


@on_asyncio
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
        assert found == sorted(wanted)
        assert not publisher.rejections


@pytest.mark.parametrize("seed", range(3))
@on_asyncio
async def test_links_that_break_all_the_time_come_up_and_stay_up(seed: int) -> None:
    """Both ends open them; connections break, links are given up, brokers die, at any moment."""
    random, brokers = Random(seed), ALL
    async with live((), brokers=brokers, system="bluedove", parameters=ALIKE) as network:

        def is_whole() -> bool:
            return all(
                sum(row["state"] == "up" for row in network.links[name].status()) == 2
                for name in brokers
            )

        await until(is_whole)
        for _ in range(60):
            name = random.choice(brokers)
            links = network.links[name]
            match random.randrange(8):
                case 0:
                    await network.kill(name)
                    await network.start(name)
                case 1:
                    links.reset(random.choice([other for other in brokers if other != name]))
                case _:
                    connected = links._connected
                    for connection in filter(connected.link_of, connected.all):
                        if random.random() < 0.7:
                            connection.abort()
            await asyncio.sleep(random.choice((0, 0.001, 0.01, 0.05)))
        await until(is_whole)
        await asyncio.sleep(0.3)
        before = [row["connections"] for name in brokers for row in network.links[name].status()]
        await asyncio.sleep(0.5)
        after = [row["connections"] for name in brokers for row in network.links[name].status()]
        assert (before, is_whole()) == (after, True)
