"""A workload's events through a live network: its publishers and subscriptions as MQTT clients.

Every publisher is a client that advertises and follows where it is moved; every subscription is
a client that asks for its filter's text.  Events are published at the replay's times, at QoS 1,
and what arrives is told to a judge.  Nothing is measured here but at the clients.

Clients and topic carry a name made for this replay, so that nothing else in the network, another
replay for instance, is taken for it.
"""

from __future__ import annotations

import asyncio
import secrets
import statistics
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import msgspec

from shoal.client import Client, ClientError, Message, Subscription
from shoal.experiments.live.judge import Judge
from shoal.experiments.run_files import Event, PublisherRow, SubscriptionRow, Workload
from shoal.model import BrokerId, ClientId, SubscriptionId
from shoal.runtime.network_file import Network

# Clients that are let in at once, so that no door has more knocking than it answers in time.
CONNECTING = 16
# Publications of one publisher that wait for their acknowledgement.
UNDER_WAY = 64
# Events that wait for a publisher that is held up, before the replay waits, too.
MAX_LATE = 1_000
# When nothing has come for so long, it may be time to stop waiting.
PATIENCE_S = 2.0

_PAYLOAD = msgspec.json.Decoder(tuple[str, int])


class ReplayError(Exception):
    """A workload that this network cannot take; says why."""


class Credentials(msgspec.Struct, frozen=True):
    """With which clients connect."""

    username: str | None = None
    password: str | None = None


ANONYMOUS = Credentials()


class Players:
    """The clients of a replay: `connect` them, `play`, `all_arrived`."""

    def __init__(
        self,
        workload: Workload,
        network: Network,
        judge: Judge,
        credentials: Credentials = ANONYMOUS,
    ) -> None:
        self.prefix = f"replay-{secrets.token_hex(4)}/"
        self.published: dict[ClientId, list[int]] = {
            row.publisher: [] for row in workload.publishers
        }
        self.seconds = 0.0
        self._workload = workload
        self._doors = doors(workload, network)
        self._judge = judge
        self._credentials = credentials
        self._publishers: dict[ClientId, Client] = {}
        self._reading: list[asyncio.Task[None]] = []
        self._sent_s: dict[tuple[ClientId, int], float] = {}
        self._delays_s: list[float] = []
        self._change = asyncio.Event()

    @property
    def topic(self) -> str:
        return f"{self.prefix}events"

    @property
    def redirections(self) -> int:
        """How often a client was sent to another broker, and went."""
        return sum(client.redirections for client in self._publishers.values())

    @property
    def median_delay_us(self) -> float | None:
        """From publishing to having it, over what has arrived."""
        return 1e6 * statistics.median(self._delays_s) if self._delays_s else None

    # --- clients ------------------------------------------------------------------------------

    @asynccontextmanager
    async def publishers(self) -> AsyncIterator[None]:
        """Connected, each at its broker, with its advertisements."""
        promises: dict[ClientId, list[PublisherRow]] = {}
        for row in self._workload.publishers:
            promises.setdefault(row.publisher, []).append(row)

        async def connect(name: ClientId, rows: Sequence[PublisherRow]) -> None:
            advertised = [row.advertisement for row in rows]
            self._publishers[name] = await self._connect(stack, name, rows[0].broker, advertised)

        async with AsyncExitStack() as stack:
            await _each(connect(name, rows) for name, rows in promises.items())
            yield

    @asynccontextmanager
    async def subscribers(self) -> AsyncIterator[None]:
        """Connected and subscribed; what arrives is told to the judge."""

        async def connect(row: SubscriptionRow) -> None:
            client = await self._connect(stack, row.subscription, row.broker, ())
            subscription = client.subscribe(self.topic, row.filter)
            await subscription.granted()
            self._reading.append(asyncio.create_task(self._read(row.subscription, subscription)))

        async with AsyncExitStack() as stack:
            try:
                await _each(connect(row) for row in self._workload.subscriptions)
                yield
            finally:
                for task in self._reading:
                    task.cancel()
                await asyncio.gather(*self._reading, return_exceptions=True)

    async def _connect(
        self, stack: AsyncExitStack, name: str, broker: BrokerId, advertised: Sequence[str]
    ) -> Client:
        credentials = self._credentials
        client = Client(
            self._doors[broker],
            self.prefix + name,
            advertise=advertised,
            username=credentials.username,
            password=credentials.password,
        )
        return await stack.enter_async_context(client)

    async def _read(self, name: SubscriptionId, subscription: Subscription) -> None:
        while True:
            self._arrived(name, await subscription.get())

    def _arrived(self, name: SubscriptionId, message: Message) -> None:
        publisher, sequence = _PAYLOAD.decode(message.payload)
        self._judge.arrived(name, publisher, sequence)
        self._delays_s.append(time.perf_counter() - self._sent_s[publisher, sequence])
        self._change.set()

    # --- events -------------------------------------------------------------------------------

    async def play(self, progress: Callable[[float], None] = lambda share: None) -> None:
        """Publish every event at its time, or as soon after it as the network takes it."""
        loop = asyncio.get_running_loop()
        events = self._workload.events
        end_us = max(events.last_replay_us, 1)
        queues = {name: asyncio.Queue[Event | None](MAX_LATE) for name in self._publishers}
        started_s = loop.time()
        async with _group() as group:
            for name, queue in queues.items():
                group.create_task(self._publish_all(self._publishers[name], queue))
            for event in events:
                due_s = started_s + event.replay_us / 1e6
                if due_s > loop.time():
                    progress(event.replay_us / end_us)
                    await asyncio.sleep(due_s - loop.time())
                await queues[event.publisher].put(event)
            for queue in queues.values():
                await queue.put(None)
        self.seconds = loop.time() - started_s
        progress(1.0)

    async def _publish_all(self, client: Client, queue: asyncio.Queue[Event | None]) -> None:
        room = asyncio.Semaphore(UNDER_WAY)
        async with _group() as group:
            while (event := await queue.get()) is not None:
                await room.acquire()
                task = group.create_task(self._publish(client, event))
                task.add_done_callback(lambda _: room.release())

    async def _publish(self, client: Client, event: Event) -> None:
        key = event.publisher, event.sequence
        self._sent_s[key] = time.perf_counter()
        self.published[event.publisher].append(event.sequence)
        try:
            payload = msgspec.json.encode(key)
            await client.publish(self.topic, payload, attributes=event.attributes)
        except (ClientError, ValueError) as error:
            name = f"event {event.sequence} of {event.publisher}"
            raise ReplayError(f"{name} cannot be published: {error}") from None

    async def all_arrived(self, at_rest: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Wait until the judge misses nothing, or nothing comes from brokers that rest."""
        while self._judge.missing:
            self._change.clear()
            try:
                async with asyncio.timeout(PATIENCE_S):
                    await self._change.wait()
            except TimeoutError:
                await at_rest()
                if not self._change.is_set():
                    return


def doors(workload: Workload, network: Network) -> Mapping[BrokerId, str]:
    """Where each broker of the workload takes clients; ReplayError when one does not."""
    found = {
        broker.name: str(address)
        for broker in network.brokers
        if (address := broker.address("mqtt")) is not None
    }
    used = {row.broker for row in workload.publishers}
    used |= {row.broker for row in workload.subscriptions}
    for broker in sorted(used - found.keys()):
        raise ReplayError(
            f"the network has no broker {broker!r} with an MQTT address; it has "
            f"{', '.join(sorted(found)) or 'none'}"
        )
    return found


async def _each(connecting: Iterable[Coroutine[None, None, None]]) -> None:
    """All of these, some at a time."""
    room = asyncio.Semaphore(CONNECTING)

    async def one(coroutine: Coroutine[None, None, None]) -> None:
        async with room:
            await coroutine

    async with _group() as group:
        for coroutine in connecting:
            group.create_task(one(coroutine))


@asynccontextmanager
async def _group() -> AsyncIterator[asyncio.TaskGroup]:
    """A group of tasks whose first error is that of the whole."""
    try:
        async with asyncio.TaskGroup() as group:
            yield group
    except BaseExceptionGroup as errors:
        first: BaseException = errors
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        raise first from None
