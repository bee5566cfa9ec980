"""Hundreds of real clients move ten times each under load, while brokers are killed.

Each client receives every acknowledged publication, once at QoS 2, in each publisher's order on its
topic. No move fires a will. Clients that do not follow stay connected and receive everything, too.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random

import pytest

from shoal.client import Client
from tests.live.crowds.crowds import ClientReport, Crowds, Member, crowds
from tests.live.crowds.moved_clients import LIBRARIES, WILL_DELAY_S, WILLS, Aiomqtt
from tests.live.crowds.test_moved_clients import LIMITS, NAMES, ask, servers
from tests.runtime.live import PATIENCE_S
from tests.runtime.processes import Processes, processes

MOVES = 10
TOPICS = 20
# Messages a second, of all clients together.
DELIVERIES_PER_SECOND = 500
# Orders under way at once, and the pause between two kills.
ORDERS = 24
KILL_EACH_S = 15.0
# One client in so many does not follow.
STAYS = 10


def members(network: Processes, count: int) -> list[Member]:
    return [
        Member(
            f"c{number}",
            number % len(LIBRARIES),
            servers(network, number % len(NAMES)),
            f"load/{number % TOPICS}",
            number % STAYS != 0,
        )
        for number in range(count)
    ]


class Publisher:
    """Publishes to all topics in turn at QoS 2; `acknowledged` by topic."""

    def __init__(self, network: Processes, broker: str, pause_s: float) -> None:
        self.name = f"p{broker}"
        self.acknowledged: dict[str, list[bytes]] = {}
        self._client = Client(network.network.broker(broker).mqtt, self.name, follow=False)
        self._pause_s = pause_s

    async def run(self, is_over: asyncio.Event) -> None:
        async with self._client as client:
            number = 0
            while not is_over.is_set():
                topic, payload = f"load/{number % TOPICS}", f"{self.name} {number}".encode()
                await client.publish(topic, payload, qos=2)
                self.acknowledged.setdefault(topic, []).append(payload)
                number += 1
                await asyncio.sleep(self._pause_s)


async def states(crowd: Crowds) -> Mapping[str, ClientReport]:
    return await asyncio.to_thread(crowd.states)


async def wait_for(
    crowd: Crowds, is_so: Callable[[Mapping[str, ClientReport]], list[str]], patience_s: float
) -> None:
    """Wait until a condition names no client."""
    loop = asyncio.get_running_loop()
    until_s = loop.time() + patience_s
    while left := is_so(await states(crowd)):
        assert loop.time() < until_s, f"{len(left)} clients: {left[:5]}"
        await asyncio.sleep(0.5)


class Orders:
    """Redirects clients from broker to broker until each has moved `MOVES` times."""

    def __init__(self, network: Processes, names: list[str], chance: Random) -> None:
        self._network = network
        self._chance = chance
        self.left = dict.fromkeys(names, MOVES)
        self._at = {name: NAMES[int(name[1:]) % len(NAMES)] for name in names}

    async def run(self) -> None:
        limit = asyncio.Semaphore(ORDERS)
        while self.left:
            await asyncio.gather(*(self._send(name, limit) for name in tuple(self.left)))
            print(f"{sum(self.left.values())} moves to go", flush=True)
            await asyncio.sleep(0.1)

    async def _send(self, name: str, limit: asyncio.Semaphore) -> None:
        async with limit:
            at = self._at[name]
            target = self._chance.choice([each for each in NAMES if each != at])
            if await ask(self._network, at, "move", client=name, broker=target) != "":
                # The client is on its way, or has lost its broker and is at the next.
                self._at[name] = NAMES[(NAMES.index(at) + 1) % len(NAMES)]
                return
            self._at[name] = target
            self.left[name] -= 1
            if not self.left[name]:
                del self.left[name]


async def kill(network: Processes, chance: Random, is_over: asyncio.Event) -> Counter[str]:
    killed: Counter[str] = Counter()
    while not is_over.is_set():
        await asyncio.sleep(KILL_EACH_S)
        name = chance.choice(NAMES)
        await asyncio.to_thread(network.kill, name)
        await asyncio.to_thread(network.start, name)
        killed[name] += 1
    return killed


def problems(
    found: Mapping[str, list[bytes]], crowd: list[Member], publishers: list[Publisher]
) -> list[str]:
    """Each client's losses, duplicates and disorder."""
    said = []
    for member in crowd:
        for publisher in publishers:
            wanted = publisher.acknowledged.get(member.topic, [])
            own = f"{publisher.name} ".encode()
            taken = [each for each in found[member.name] if each.startswith(own)]
            # At QoS 1 paho (also within aiomqtt) drops messages without a callback when it is
            # redirected.
            if LIBRARIES[member.kind] is Aiomqtt:
                taken = list(dict.fromkeys(taken))
            if taken != wanted:
                lost = [each for each in wanted if each not in taken]
                twice = [each for each, count in Counter(taken).items() if count > 1]
                said.append(
                    f"{member.name} ({LIBRARIES[member.kind].__name__}) of {publisher.name}: "
                    f"lost {lost}, twice {twice}, of {len(wanted)}"
                )
    return said


async def transfers(network: Processes, crowd: list[Member]) -> None:
    chance = Random(len(crowd))
    pause_s = len(NAMES) * len(crowd) / TOPICS / DELIVERIES_PER_SECOND
    publishers = [Publisher(network, name, pause_s) for name in NAMES]
    wills: set[str] = set()
    is_calm, is_over = asyncio.Event(), asyncio.Event()

    async def watch(client: Client) -> None:
        async with client.subscribe(f"{WILLS}#", qos=1) as messages:
            async for message in messages:
                wills.add(message.topic)

    with crowds(crowd) as running:
        async with AsyncExitStack() as stack:
            watcher = Client(network.network.broker("B1").mqtt, "watcher", follow=False)
            watching = asyncio.create_task(watch(await stack.enter_async_context(watcher)))
            await wait_for(
                running,
                lambda found: [name for name, each in found.items() if not each.is_subscribed],
                PATIENCE_S + len(crowd) / 5,
            )
            publishing = [asyncio.create_task(each.run(is_over)) for each in publishers]
            killing = asyncio.create_task(kill(network, chance, is_calm))
            orders = Orders(network, [each.name for each in crowd if each.follows], chance)
            try:
                async with asyncio.timeout(PATIENCE_S + len(crowd) * MOVES / 5):
                    await orders.run()
            finally:
                print(f"{len(orders.left)} were sent fewer than {MOVES} times", flush=True)
            is_calm.set()
            killed = await killing
            await asyncio.sleep(WILL_DELAY_S + 5)
            is_over.set()
            await asyncio.gather(*publishing)
            published = {
                each.name: sum(map(len, each.acknowledged.values())) for each in publishers
            }
            print(f"killed {dict(killed)}, published {published}", flush=True)

            def lacking(found: Mapping[str, ClientReport]) -> list[str]:
                return [
                    each.name
                    for each in crowd
                    if found[each.name].taken
                    < sum(len(publisher.acknowledged[each.topic]) for publisher in publishers)
                ]

            try:
                await wait_for(running, lacking, 2 * PATIENCE_S)
            except AssertionError as error:
                print(f"lacking: {error}", flush=True)
            assert not watching.done()
            watching.cancel()
            found, last = running.taken(), running.states()
    said = problems(found, crowd, publishers)
    assert not said, f"{len(said)}: " + "\n".join(said[:20])
    assert wills == set()
    moved = sum(each.moved for each in last.values())
    print(f"{moved} moves of {len(crowd)} clients", flush=True)
    assert [each.name for each in crowd if not each.follows and last[each.name].moved] == []
    assert len(killed) > 1, "no kill"


@pytest.mark.soak
@pytest.mark.parametrize("count", [200, 1_000])
def test_clients_that_move_ten_times_each_lose_nothing_while_brokers_are_killed(
    tmp_path: Path, count: int
) -> None:
    with processes(tmp_path, brokers=len(NAMES), limits=LIMITS) as network:
        asyncio.run(transfers(network, members(network, count)))
