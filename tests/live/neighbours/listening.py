"""Clients at several brokers between which messages flow, and their messages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import NamedTuple

from shoal.client import Client
from tests.runtime.live import PATIENCE_S

# After this pause a client that has everything receives no more.
SILENCE_S = 0.3


class Listener:
    """The messages of one client, without the probes that test the connections."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, bytes, bool]] = []
        self.has_heard_hello = asyncio.Event()

    async def listen(self, client: Client, topics: str) -> None:
        async with client.subscribe(f"{topics}/#", qos=1, retain_as_published=True) as found:
            async for message in found:
                if message.topic.endswith("/hello"):
                    self.has_heard_hello.set()
                else:
                    self.heard.append((message.topic, message.payload, message.retain))


class End(NamedTuple):
    """A client on one side, and its messages."""

    client: Client
    listener: Listener


@asynccontextmanager
async def ends(topics: str, *addresses: str) -> AsyncIterator[list[End]]:
    """A client at each address; messages flow between all of them."""
    async with AsyncExitStack() as stack, asyncio.TaskGroup() as tasks:
        found: list[End] = []
        running: list[asyncio.Task[None]] = []
        for number, each in enumerate(addresses):
            client = await stack.enter_async_context(Client(each, f"{topics}-{number}"))
            found.append(End(client, Listener()))
            running.append(tasks.create_task(found[-1].listener.listen(client, topics)))
        for one in found:
            for each in found:
                each.listener.has_heard_hello.clear()
            async with asyncio.timeout(PATIENCE_S):
                while not all(each.listener.has_heard_hello.is_set() for each in found):
                    await one.client.publish(f"{topics}/hello", b"", qos=1)
                    await asyncio.sleep(0.1)
        yield found
        for task in running:
            task.cancel()


async def settled(*listeners: Listener) -> None:
    """Wait until no client has received anything for a while."""
    while True:
        before = [len(each.heard) for each in listeners]
        await asyncio.sleep(SILENCE_S)
        if [len(each.heard) for each in listeners] == before:
            return
