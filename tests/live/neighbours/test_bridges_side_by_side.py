"""Two of our bridges between the same networks: nothing circulates, and groups receive no copies.

The two bridges connect to different brokers on each side.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from shoal.client import Client
from shoal.client.bridges import identity
from shoal.client.bridges.bridge import run_bridge
from shoal.client.bridges.bridge_file import parse_bridge
from shoal.client.bridges.metrics import ENDS, BridgeTally
from tests.live.neighbours.listening import End, Listener, ends, settled
from tests.live.neighbours.mosquitto import Mosquitto, needs_mosquitto
from tests.runtime.live import PATIENCE_S, on_asyncio, until
from tests.runtime.processes import processes

EACH = 5
IN_SOAK = (needs_mosquitto, pytest.mark.soak)


@pytest.fixture(scope="module", params=["shoal", pytest.param("mosquitto", marks=IN_SOAK)])
def addresses(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[list[str], list[str]]]:
    """The brokers of our network, and of the other one, which has the same name."""
    with processes(tmp_path_factory.mktemp("here"), 2) as here:
        ours = [str(each.address("mqtt")) for each in here.network.brokers]
        if request.param == "mosquitto":
            other = Mosquitto(tmp_path_factory.mktemp("there") / "m")
            # The same broker by two names.
            port = other.address.rpartition(":")[2]
            yield ours, [other.address, f"localhost:{port}"]
            other.stop()
        else:
            with processes(tmp_path_factory.mktemp("there"), 2) as there:
                yield ours, [str(each.address("mqtt")) for each in there.network.brokers]


@asynccontextmanager
async def bridges(
    addresses: tuple[list[str], list[str]], topics: str, group: str
) -> AsyncIterator[list[BridgeTally]]:
    """Two bridges that carry these topics both ways."""
    tallies = [BridgeTally(), BridgeTally()]
    running = []
    for number, (here, there) in enumerate(zip(*addresses, strict=True)):
        rule = {"topic": f"{topics}/#"}
        data = {"name": f"{topics}-{number}", "group": group, "in": [rule], "out": [rule]}
        ends = {"here": {"address": here}, "there": {"address": there}}
        bridge = parse_bridge(data | ends, "bridge.toml")
        running.append(asyncio.create_task(run_bridge(bridge, tallies[number])))
    try:
        yield tallies
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def publish(found: list[End], topics: str) -> tuple[list[str], list[str]]:
    """Publish at every end; return the messages of each side."""
    await settled(*(end.listener for end in found))
    for number, end in enumerate(found):
        for n in range(EACH):
            await end.client.publish(f"{topics}/{number}/{n}", b"x", qos=1)
    await settled(*(end.listener for end in found))
    here, there = (
        sorted(row[0] for row in end.listener.heard if "/kept/" not in row[0]) for end in found
    )
    return here, there


async def kept(address: str, topics: str) -> list[str]:
    """The retained messages at a broker."""
    found = Listener()
    async with Client(address, f"{topics}-late") as late:
        listening = asyncio.create_task(found.listen(late, f"{topics}/kept"))
        await settled(found)
        listening.cancel()
    return sorted(topic for topic, _, is_retained in found.heard if is_retained)


@pytest.mark.parametrize("group", ["", "pair"])
@on_asyncio
async def test_two_bridges_circulate_nothing(
    addresses: tuple[list[str], list[str]], group: str
) -> None:
    topics = f"side{group}"
    ours, theirs = addresses
    async with bridges(addresses, topics, group), ends(topics, ours[1], theirs[0]) as found:
        here, there = await publish(found, topics)
        for number, end in enumerate(found):
            await end.client.publish(f"{topics}/kept/{number}", b"x", qos=1, retain=True)
        await settled(*(end.listener for end in found))
        for address in (ours[0], theirs[1]):
            assert await kept(address, topics) == [f"{topics}/kept/{number}" for number in (0, 1)]
    own, others = ([f"{topics}/{number}/{n}" for n in range(EACH)] for number in (0, 1))
    times = 1 if group else 2  # each bridge carries it
    assert here == sorted(own + times * others)
    assert there == sorted(times * own + others)


@on_asyncio
async def test_a_groups_members_receive_each_message_once(
    addresses: tuple[list[str], list[str]],
) -> None:
    ours, theirs = addresses
    async with (
        bridges(addresses, "share", "pair") as (first, second),
        ends("share", ours[0], theirs[0]) as (here, there),
    ):
        await until(lambda: all(each.is_up(end) for each in (first, second) for end in ENDS))
        await settled(here.listener, there.listener)

        async def carried(count: int) -> list[int]:
            flows = [each.flows["out"] for each in (first, second)]
            before = [flow.carried for flow in flows]
            there.listener.heard.clear()
            for n in range(count):
                await here.client.publish(f"share/{n}", b"x", qos=1)
            await until(lambda: len(there.listener.heard) == count)
            await until(lambda: sum(flow.carried for flow in flows) == sum(before) + count)
            return [flow.carried - was for flow, was in zip(flows, before, strict=True)]

        assert min(await carried(2 * EACH)) > 0


@on_asyncio
async def test_a_bridge_recognises_a_network_at_each_of_its_brokers(
    addresses: tuple[list[str], list[str]],
) -> None:
    found: list[set[str]] = []
    for network in addresses:
        values = set()
        for number, address in enumerate(network):
            client = Client(address, f"who-{number}")
            asked = identity.Identity(client)
            async with client, asyncio.timeout(PATIENCE_S):
                await asked.known()
            values.add(asked.value)
        found.append(values)
    assert [len(values) for values in found] == [1, 1]
    assert found[0] != found[1]
