"""Live clients move to brokers where others want the same; other clients are served remotely."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import AsyncExitStack
from itertools import count
from pathlib import Path

import aiomqtt
import pytest

from shoal.client import Client, Subscription
from shoal.overlays.dynatops.planning.placement import HashRing
from shoal.runtime.supervisor import get_json
from tests.runtime.live import PATIENCE_S, until
from tests.runtime.processes import Processes, processes

DYNATOPS = {"cluster": 3, "update_us": 300_000, "load_weight": 0.5}


async def at(network: Processes) -> dict[str, int]:
    """The number of clients of each broker."""
    found = {}
    for broker in network.network.brokers:
        address = broker.address("admin")
        assert address is not None
        found[broker.name] = (await get_json(address, "/status"))["mqtt"]["connected"]
    return found


async def live(network: Processes) -> None:
    where = {each.name: each.mqtt for each in network.network.brokers}
    topics = ("sport", "news", "weather")
    sent: dict[str, list[bytes]] = {topic: [] for topic in topics}
    is_over = asyncio.Event()

    async def publish(publisher: Client) -> None:
        for number in count():
            for topic in topics:
                await publisher.publish(topic, b"%d" % number, qos=1 + number % 2)
                sent[topic].append(b"%d" % number)
            if is_over.is_set():
                return
            await asyncio.sleep(0.01)

    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context

        async def reader(
            broker: str, name: str, topic: str, qos: int
        ) -> tuple[Client, Subscription]:
            client = await enter(Client(where[broker], name))
            return client, await enter(client.subscribe(topic, qos=qos))

        publisher = await enter(Client(where["B2"], "publisher"))
        for broker, topic in (("B1", "sport"), ("B1", "weather"), ("B2", "news")):
            for number in range(2):
                await reader(broker, f"{topic} {number}", topic, 1)
        port = int(where["B3"].rpartition(":")[2])
        stays = await enter(aiomqtt.Client("127.0.0.1", port, identifier="stays"))
        await stays.subscribe("weather", qos=2)
        followers = {
            topic: await reader("B3", f"follower of {topic}", topic, qos)
            for qos, topic in enumerate(("sport", "news"), 1)
        }
        publishing = asyncio.create_task(publish(publisher))
        await until(lambda: all(client.redirections for client, _ in followers.values()))
        first = len(sent["news"])
        await until(lambda: len(sent["news"]) >= first + 50)
        is_over.set()
        await publishing
        for topic, (client, subscription) in followers.items():
            assert [(await subscription.get()).payload for _ in sent[topic]] == sent[topic]
            assert not subscription.messages
            assert 1 <= client.redirections <= 2  # no client oscillates
        messages = aiter(stays.messages)
        assert [(await anext(messages)).payload for _ in sent["weather"]] == sent["weather"]
        # A reader of the weather at B1 may have gone to B3, where `stays` is: both are equally
        # near, and the order of messages decides. A client may be on its way during the question.
        async with asyncio.timeout(PATIENCE_S):
            while (found := await at(network))["B3"] == 0 or sum(found.values()) != 10:
                await asyncio.sleep(0.1)


async def hashed(network: Processes) -> None:
    where = {each.name: each.mqtt for each in network.network.brokers}
    sent = [b"%d" % number for number in range(200)]
    ring = HashRing(sorted(where))
    names = [f"user {number}" for number in range(8)]
    homes = {name: ring.broker_of(name) for name in names}
    assert set(homes.values()) - {"B1"}
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        publisher = await enter(Client(where[ring.broker_of("publisher")], "publisher"))
        users = {}
        for name in names:
            client = await enter(Client(where["B1"], name))
            users[name] = client, await enter(client.subscribe(f"about/{name}/#", qos=1))
        for payload in sent:
            for name in names:
                await publisher.publish(f"about/{name}", payload, qos=1)
        for _, subscription in users.values():
            assert [(await subscription.get()).payload for _ in sent] == sent
            assert not subscription.messages
        await until(
            lambda: all(
                client.redirections == (homes[name] != "B1") for name, (client, _) in users.items()
            )
        )
        expected = Counter([*homes.values(), ring.broker_of("publisher")])
        async with asyncio.timeout(PATIENCE_S):
            while await at(network) != {name: expected[name] for name in where}:
                await asyncio.sleep(0.1)


@pytest.mark.soak
def test_users_move_to_the_brokers_of_their_hashes(tmp_path: Path) -> None:
    """Clients go to the brokers of their names' hashes, whatever they want, and lose nothing on the
    way.
    """
    ring = {"placement": "hash"}
    with processes(tmp_path, brokers=3, system="dynatops", links=[], dynatops=ring) as network:
        asyncio.run(hashed(network))


def test_users_move_to_similar_users_without_loss(tmp_path: Path) -> None:
    with processes(tmp_path, brokers=3, system="dynatops", links=[], dynatops=DYNATOPS) as network:
        asyncio.run(live(network))
