"""The time at which subscriptions and advertisements count as known: hosts have the bits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from unittest.mock import patch

import pytest

from shoal.broker.ack_tracker import AckTracker
from shoal.broker.messages import Advertise, Subscribe
from shoal.overlays.octopia.parameters import OctopiaParameters
from tests.broker.transcript import advertisement, subscription
from tests.runtime import live as live_network
from tests.runtime.live import LiveNetwork
from tests.runtime.virtual_loop import Cable, VirtualLoop

# The publisher's broker is B5, of cluster 0; the subscriber's B2, of cluster 1.
ROWS = (("B1", "B2"), ("B3", "B4"), ("B5", "B6"))
HOST, HOME = "B5", "B2"
SLOW = frozenset((HOST, "B6"))


async def _until(condition: Callable[[], bool]) -> float:
    """The seconds until the condition holds."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    while not condition():
        await asyncio.sleep(0.01)
        assert loop.time() < began + 60
    return loop.time() - began


Found = tuple[float, list[bool]]


async def _subscribe(network: LiveNetwork) -> Found:
    known: list[bool] = []
    took = 0.0
    nodes = network.nodes
    nodes[HOST].request("P", Advertise(advertisement("p")))
    hosted = nodes[HOST].machine.strategy.hosted
    await asyncio.sleep(2)
    for number, text in enumerate(("x = 5", "x = 7", "x BETWEEN 1 AND 6")):
        settled: list[bool] = []

        def is_settled(x: int = 5 + 2 * (number % 2), settled: list[bool] = settled) -> None:
            settled.append(hosted.owed("P", {"x": x}) == 0b10)

        request = Subscribe(subscription(f"s{number}", text, "S"))
        nodes[HOME].request("S", request, ack_tracker=AckTracker(is_settled))
        took = max(took, await _until(lambda settled=settled: bool(settled)))
        known.extend(settled)
    return took, known


async def _advertise(network: LiveNetwork) -> Found:
    known: list[bool] = []
    nodes = network.nodes
    hosted = nodes[HOST].machine.strategy.hosted
    nodes[HOME].request("S", Subscribe(subscription("s", "x = 5", "S")))
    await asyncio.sleep(2)
    is_heard = AckTracker(lambda: known.append(hosted.owed("P", {"x": 5}) == 0b10))
    nodes[HOST].request("P", Advertise(advertisement("p")), ack_tracker=is_heard)
    return await _until(lambda: bool(known)), known


def _play(
    does: Callable[[LiveNetwork], Awaitable[Found]] = _subscribe,
    sharp_bits: int = 0,
) -> Found:
    """The seconds until a request is settled, and whether the host knows of it then."""
    found: Found = 0.0, []

    def cable(left: str, right: str) -> Cable:
        latency_s = (0.5, 0.5) if frozenset((left, right)) == SLOW else (0.001, 0.001)
        return Cable(Random(1), latency_s, 1e9)

    async def play() -> None:
        nonlocal found
        parameters = OctopiaParameters(rows=ROWS, parents=(0, 1), sharp_bits=sharp_bits)
        links = parameters.product().links
        names = [name for row in ROWS for name in row]
        network = LiveNetwork(links, "octopia", parameters, brokers=names)
        for name in names:
            await network.start(name)
        nodes = network.nodes
        await _until(lambda: not any(each.away for each in network.links.values()))
        await _until(lambda: all(each.is_ready for each in nodes.values()))
        found = await does(network)
        for name in names:
            await network.kill(name)

    loop = VirtualLoop(cable)
    with (
        patch.object(live_network, "Clock", lambda: loop),
        asyncio.Runner(loop_factory=lambda: loop) as runner,
    ):
        runner.run(play())
    return found


@pytest.mark.parametrize("sharp_bits", [0, 4])
def test_a_granted_subscription_is_known_at_every_host(sharp_bits: int) -> None:
    """Otherwise publications after its SUBACK would go nowhere."""
    took, known = _play(sharp_bits=sharp_bits)
    assert known == [True, True, True]
    assert took > 0.5


def test_a_granted_advertisement_has_every_clusters_bits() -> None:
    """Otherwise publications before the answer would be settled and go nowhere."""
    took, known = _play(does=_advertise)
    assert known == [True]
    assert took > 1
