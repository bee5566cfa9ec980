"""Clients of three libraries move between brokers under load while one broker is killed.

`test_crowds_that_move.py` does the same with hundreds of clients.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from random import Random

import pytest

from shoal.client import Client
from shoal.runtime.supervisor import get_json, order
from tests.examples import at_length
from tests.live.crowds.moved_clients import LIBRARIES, TOPIC, Mover, Own, Paho
from tests.runtime.live import PATIENCE_S, until
from tests.runtime.processes import Processes, processes

NAMES = ("B1", "B2", "B3")
# Moves that are under way at once.
AT_ONCE = 10
LIMITS = {"maximum_moves_per_hour": 1_000}


def servers(network: Processes, first: int) -> list[str]:
    found = [network.network.broker(name).mqtt for name in NAMES]
    return found[first:] + found[:first]


async def ask(network: Processes, asked: str, what: str, **said: str) -> str | None:
    """Send an order; return the reason of refusal, an empty string, or None without answer."""
    address = network.network.broker(asked).address("admin")
    assert address is not None
    with suppress(OSError):
        return await order(address, what, **said)
    return None


async def send_away(network: Processes, client: Mover, target: str) -> bool:
    """Redirect a client; whether it has arrived, as its new broker says."""
    answers = await asyncio.gather(
        *(ask(network, name, "move", client=client.name, broker=target) for name in NAMES)
    )
    return "" in answers


async def send_all(network: Processes, clients: list[Mover], chance: Random) -> int:
    """Redirect each client to a random broker, a few at a time; return how many moved."""
    limit = asyncio.Semaphore(AT_ONCE)

    async def send(client: Mover) -> bool:
        async with limit:
            return await send_away(network, client, chance.choice(NAMES))

    return sum(await asyncio.gather(*map(send, clients)))


async def publish(publisher: Client, sent: list[bytes], is_over: asyncio.Event) -> None:
    while not is_over.is_set():
        payload = b"%d" % len(sent)
        await publisher.publish(TOPIC, payload, qos=2)
        sent.append(payload)
        await asyncio.sleep(0.02)


def judge(clients: list[Mover], sent: list[bytes]) -> None:
    """Each client received everything in order, and once if it subscribes at QoS 2."""
    for client in clients:
        # At QoS 1 paho (also within aiomqtt) drops messages without a callback when it is
        # redirected.
        is_exact = isinstance(client, Paho | Own)
        taken = client.taken if is_exact else list(dict.fromkeys(client.taken))
        assert taken == sent, f"{client.name}: {Counter(taken).most_common(3)}"


async def transfers(network: Processes, count: int, rounds: int) -> None:
    chance = Random(count)
    clients: list[Mover] = [
        LIBRARIES[number % 3](f"c{number}", servers(network, number % 2)) for number in range(count)
    ]
    sent: list[bytes] = []
    is_over = asyncio.Event()
    async with AsyncExitStack() as stack:
        publisher = Client(network.network.broker("B1").mqtt, "publisher", follow=False)
        await stack.enter_async_context(publisher)
        for client in clients:
            await stack.enter_async_context(client)
        await until(lambda: all(each.is_subscribed for each in clients))
        publishing = asyncio.create_task(publish(publisher, sent, is_over))
        moved = 0
        for number in range(rounds):
            sending = asyncio.create_task(send_all(network, clients, chance))
            if number == 1:
                await asyncio.sleep(0.2)
                await asyncio.to_thread(network.kill, "B3")
                await asyncio.to_thread(network.start, "B3")
            moved += await sending
        is_over.set()
        await publishing
        wanted = len(sent)
        with suppress(TimeoutError):
            await until(lambda: all(len(set(each.taken)) == wanted for each in clients))
        missing = {each.name: wanted - len(set(each.taken)) for each in clients}
        assert not any(missing.values()), missing
        assert moved >= count, f"only {moved} clients moved"
    judge(clients, sent)
    assert sum(client.moved for client in clients) >= moved


@pytest.mark.parametrize("count", [15, *at_length([30])])
def test_moved_clients_of_three_libraries_lose_nothing_while_a_broker_is_killed(
    tmp_path: Path, count: int
) -> None:
    with processes(tmp_path, brokers=3, limits=LIMITS) as network:
        asyncio.run(transfers(network, count, 3))


@pytest.mark.parametrize("count", [15, pytest.param(150, marks=pytest.mark.soak)])
def test_clients_of_three_libraries_follow_a_drain(tmp_path: Path, count: int) -> None:
    async def drain(network: Processes) -> None:
        clients: list[Mover] = [
            LIBRARIES[number % 3](f"c{number}", servers(network, 0)) for number in range(count)
        ]
        sent: list[bytes] = []
        is_over = asyncio.Event()
        admin = network.network.broker("B1").address("admin")
        assert admin is not None
        async with AsyncExitStack() as stack:
            publisher = Client(network.network.broker("B3").mqtt, "publisher")
            await stack.enter_async_context(publisher)
            for client in clients:
                await stack.enter_async_context(client)
            await until(lambda: all(each.is_subscribed for each in clients))
            publishing = asyncio.create_task(publish(publisher, sent, is_over))
            assert await ask(network, "B1", "drain") == ""
            async with asyncio.timeout(2 * PATIENCE_S + count / 5):
                while (await get_json(admin, "/status"))["mqtt"]["sessions"]:
                    await asyncio.sleep(0.1)
            is_over.set()
            await publishing
            await until(lambda: all(len(each.taken) >= len(sent) for each in clients))
        judge(clients, sent)
        assert [each.name for each in clients if each.moved != 1] == []

    with processes(tmp_path, brokers=3) as network:
        asyncio.run(drain(network))
