"""Real MQTT clients in several processes, as paho accepts no file descriptor above 1,023."""

from __future__ import annotations

import asyncio
import multiprocessing
import resource
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from multiprocessing.connection import Connection
from typing import NamedTuple

from shoal.client import client
from tests.live.crowds.moved_clients import LIBRARIES

# Each client needs three files; a third of them have threads.
MOST_IN_ONE = 100
# Connections opened at once.
AT_ONCE = 20
_PROCESSES = multiprocessing.get_context("spawn")


class Member(NamedTuple):
    """A client to be started; `kind` is an index into `LIBRARIES`."""

    name: str
    kind: int
    servers: list[str]
    topic: str
    follows: bool


class ClientReport(NamedTuple):
    """A client's report; `taken` is the number of messages received."""

    is_subscribed: bool
    moved: int
    taken: int


class Crowds:
    """All clients in their processes; each request goes to every process."""

    def __init__(self, members: Sequence[Member]) -> None:
        self._ends: list[Connection] = []
        self._processes = []
        for start in range(0, len(members), MOST_IN_ONE):
            near, far = _PROCESSES.Pipe()
            part = list(members[start : start + MOST_IN_ONE])
            process = _PROCESSES.Process(target=_run, args=(far, part), daemon=True)
            process.start()
            far.close()
            self._ends.append(near)
            self._processes.append(process)

    def states(self) -> Mapping[str, ClientReport]:
        return {
            name: ClientReport(*each) for part in self._ask("states") for name, each in part.items()
        }

    def taken(self) -> Mapping[str, list[bytes]]:
        """The payloads that each client received."""
        return {name: each for part in self._ask("taken") for name, each in part.items()}

    def _ask(self, question: str) -> list[dict]:  # type: ignore[type-arg]
        for end in self._ends:
            end.send(question)
        return [end.recv() for end in self._ends]

    def stop(self) -> None:
        for end in self._ends:
            end.close()
        for process in self._processes:
            process.join(60)
            process.kill()


@contextmanager
def crowds(members: Sequence[Member]) -> Iterator[Crowds]:
    found = Crowds(members)
    try:
        yield found
    finally:
        found.stop()


def _run(end: Connection, members: list[Member]) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    # A client redirected repeatedly within seconds stops following; this test needs it to follow.
    client.SETTLED_S = 0.0
    asyncio.run(_serve(end, members))


async def _serve(end: Connection, members: list[Member]) -> None:
    clients = [
        LIBRARIES[each.kind](each.name, each.servers, each.topic, follows=each.follows)
        for each in members
    ]
    answers: dict[str, Callable[[], object]] = {
        "states": lambda: {
            each.name: (each.is_subscribed, each.moved, len(each.taken)) for each in clients
        },
        "taken": lambda: {each.name: each.taken for each in clients},
    }
    async with AsyncExitStack() as stack:
        limit = asyncio.Semaphore(AT_ONCE)

        async def enter(place: int) -> None:
            async with limit:
                await stack.enter_async_context(clients[place])

        entering = [asyncio.create_task(enter(place)) for place in range(len(clients))]
        try:
            while True:
                question = await asyncio.to_thread(end.recv)
                end.send(answers[question]())
        except EOFError:
            for task in entering:
                task.cancel()
            await asyncio.gather(*entering, return_exceptions=True)
