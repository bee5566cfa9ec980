"""A BlueDove matcher's process is killed under load, on real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from shoal.client import Client, Subscription
from tests.examples import at_length
from tests.live.processes import Processes, up
from tests.runtime.live import PATIENCE_S

PUBLICATIONS = 1_200
# Publications under way at once.
WINDOW = 50
CLUSTER = (
    "--system",
    "bluedove",
    "--dispatchers",
    "2",
    "--matchers",
    "3",
    "--dimension",
    "x=0:1000",
)


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    with up(tmp_path_factory.mktemp("cluster"), *CLUSTER) as processes:
        yield processes


@pytest.mark.parametrize(("qos", "matcher"), [(2, "M2"), *at_length([(1, "M1")])])
def test_a_killed_matcher_loses_and_doubles_nothing(
    network: Processes, qos: int, matcher: str
) -> None:
    asyncio.run(_run(network, qos, matcher))


async def _run(network: Processes, qos: int, matcher: str) -> None:
    await network.whole()
    async with (
        Client(network.address("D1")) as writer,
        Client(network.address("D2")) as reader,
        reader.subscribe("quotes", "x >= 250", qos=qos) as subscription,
    ):
        wanted = {number for number in range(PUBLICATIONS) if number * 37 % 1_000 >= 250}
        reading = asyncio.create_task(_read(subscription, wanted))
        window = asyncio.Semaphore(WINDOW)

        async def publish(number: int) -> None:
            async with window:
                attributes = {"x": number * 37 % 1_000}
                await writer.publish("quotes", b"%d" % number, qos=qos, attributes=attributes)

        publishing = [asyncio.create_task(publish(number)) for number in range(PUBLICATIONS)]
        async with asyncio.timeout(3 * PATIENCE_S):
            await asyncio.wait(publishing[: PUBLICATIONS // 3])
            await network.kill(matcher)
            await asyncio.gather(*publishing)
            found = await reading
    assert set(found) == wanted
    if qos == 2:
        assert len(found) == len(wanted)


async def _read(subscription: Subscription, wanted: set[int]) -> list[int]:
    """Messages until all have arrived, and any that follow shortly after."""
    found: list[int] = []
    missing = set(wanted)
    while True:
        try:
            async with asyncio.timeout(None if missing else 1.0):
                payload = (await subscription.get()).payload
        except TimeoutError:
            return found
        if payload:
            found.append(int(payload))
            missing.discard(found[-1])
