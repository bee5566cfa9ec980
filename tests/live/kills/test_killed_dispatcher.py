"""A BlueDove dispatcher is killed under load: acknowledged publications arrive, at QoS 2 once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from shoal.runtime.addresses import Address
from tests.live.processes import Processes, up
from tests.runtime.live import PATIENCE_S
from tests.runtime.processes import Client
from tests.runtime.storage.test_ack_tracker import COUNT, Publisher, arrived, numbers

CLUSTER = ("--system", "bluedove", "--dispatchers", "2", "--matchers", "2", "--dimension", "x=0:9")


@pytest.fixture
def network(tmp_path: Path) -> Iterator[Processes]:
    with up(tmp_path, *CLUSTER, "--data", str(tmp_path / "data")) as processes:
        yield processes


def place(network: Processes, broker: str) -> tuple[str, int]:
    address = network.network.broker(broker).address("mqtt")
    assert isinstance(address, Address)
    return address.host, address.port


@pytest.mark.parametrize("comes_back", [pytest.param(False, marks=pytest.mark.soak), True])
def test_a_killed_dispatcher_loses_nothing_acknowledged(
    network: Processes, comes_back: bool
) -> None:
    """Publishers at QoS 1 and 2 at the killed dispatcher, a subscriber at the other."""

    async def run() -> None:
        await network.whole()
        with Client(*place(network, "D2"), "reader", 600) as reader:
            await asyncio.to_thread(reader.subscribe, "a/#", 2)
            publishers = {
                qos: Publisher(place(network, "D1"), qos, comes_back=comes_back) for qos in (1, 2)
            }
            publishing = asyncio.gather(*(each.run() for each in publishers.values()))
            async with asyncio.timeout(PATIENCE_S):
                while any(len(each.received) < COUNT // 10 for each in publishers.values()):
                    await asyncio.sleep(0.001)
            async with network.stopped("M1", "M2"):
                await asyncio.sleep(
                    0.3
                )  # no other broker has the publications that it acknowledges from here on
                await network.kill("D1")
            async with asyncio.timeout(3 * PATIENCE_S):
                await publishing
            for qos, publisher in publishers.items():
                owed = publisher.received
                assert (len(owed) == COUNT) is comes_back
                await asyncio.to_thread(arrived, reader, qos, owed)
            found = numbers(reader, 2)
            assert len(found) == len(set(found))

    asyncio.run(run())
