"""A live network of each system grows and shrinks while clients publish.

After SUBACK the client of a new broker receives every later publication of any broker, and the
retained messages. When the broker leaves, the client moves with its session; nothing is lost,
doubled or out of order. `test_all_systems` checks the same on machines.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from shoal.client import Client
from shoal.overlays.registry import MODULES, SYSTEMS
from shoal.runtime.addresses import read_address
from shoal.runtime.broker_service import BrokerService
from shoal.runtime.links.joining import JoinAttempt
from shoal.runtime.network_file import NetworkFile
from shoal.runtime.network_sections import StorageSection
from shoal.runtime.supervisor import ask_to_leave, local_network
from tests.examples import at_length
from tests.runtime.live import PATIENCE_S, on_asyncio, until
from tests.runtime.one_service import running
from tests.runtime.systems.test_leaving import with_new

COUNT = 60


def network_of(system: str, folder: Path) -> NetworkFile:
    layout = SYSTEMS[system].size().layout()
    network = local_network(system, layout, port=0)
    storage = StorageSection(folder=str(folder), sync="never")
    return msgspec.structs.replace(network, storage=storage)


async def publish(client: Client, first: int, count: int) -> None:
    for number in range(first, first + count):
        await client.publish("a", b"%d" % number, qos=1)


# One system of each shape. Of systems whose brokers discover each other, one without roles;
# `test_leaving` has those with roles.
GROWING = {
    system.shape.name: name
    for name, system in reversed([*SYSTEMS.items()])
    if system.grows and not system.shape.opens_links
}
BASELINES = ("tid", "tco")
# Systems of modules named in the environment.
GUESTS = [name for name, system in SYSTEMS.items() if name not in MODULES and system.grows]


@pytest.mark.parametrize(
    "system",
    [
        *(name for name in (*GROWING.values(), "dynatops") if name not in BASELINES),
        *GUESTS,
        *at_length(BASELINES),
    ],
)
@on_asyncio
async def test_a_broker_joins_and_leaves_with_its_sessions(system: str, tmp_path: Path) -> None:
    network = network_of(system, tmp_path)
    names = [broker.name for broker in network.brokers if broker.mqtt]
    first, last = names[0], names[-1]
    there = read_address(network.broker(last).peers)
    async with (
        asyncio.timeout(4 * PATIENCE_S),
        running(network, *(broker.name for broker in network.brokers)) as services,
    ):
        await until(lambda: not any(service.missing() for service in services))
        at = {service.node.id: service for service in services}
        front_end = str(at[first].listening["mqtt"])
        async with Client(front_end) as publisher:
            await publisher.publish("kept", b"kept", qos=1, retain=True)
            new = BrokerService(with_new(network, "B99"), "B99", [JoinAttempt(last, there)])
            left = asyncio.Event()
            new.at_left = left.set
            await new.start()
            async with Client(str(new.listening["mqtt"])) as client:
                kept, subscription = client.subscribe("kept"), client.subscribe("a", qos=1)
                async with kept, subscription:
                    assert (await kept.get()).payload == b"kept"
                    await subscription.granted()
                    await publish(publisher, 0, COUNT)
                    assert await ask_to_leave(new.listening["admin"]) == ""
                    await publish(publisher, COUNT, COUNT)
                    await left.wait()
                    await publish(publisher, 2 * COUNT, COUNT)
                    got = [(await subscription.get()).payload for _ in range(3 * COUNT)]
                    assert got == [b"%d" % number for number in range(3 * COUNT)]
            await new.stop()
            await until(lambda: all("B99" not in each.links.neighbours for each in services))
