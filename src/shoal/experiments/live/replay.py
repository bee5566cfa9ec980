"""A workload's events through a live network: its publishers and subscriptions as MQTT clients.

Every publisher is a client that advertises and follows where it is moved; every subscription is a
client that asks for its filter's text. Events are published at the replay's times, at QoS 1, and
arrivals go to a judge. Nothing is measured here but at the clients.

Clients and topic carry a name made for this replay, so that nothing else in the network, another
replay for instance, is taken for it.
"""

from __future__ import annotations

import asyncio
import secrets
import statistics
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

import msgspec

from shoal.client import Client, ClientError, Message, Subscription, Tls
from shoal.experiments.live.admission import LiveAdmission
from shoal.experiments.live.judge import LiveJudge
from shoal.experiments.run_files import PublisherRow, RunEvent, SubscriptionRow, WorkloadFiles
from shoal.model import BrokerId, ClientId, SubscriptionId
from shoal.runtime.network_file import NetworkFile

# Publications of one publisher that wait for their acknowledgement.
UNDER_WAY = 64
# Events that wait for a publisher that is held up, before the replay waits, too.
MAX_LATE = 1_000
# While the next event is not due, how far the replay is, is told so often.
TOLD_S = 0.5
# When nothing has come for so long, it may be time to stop waiting.
PATIENCE_S = 2.0
# When nothing has been acknowledged for so long, nothing will be.
STALLED_S = 60.0
# A subscription that comes during the replay is made so long before its time, and one that goes is
# withdrawn so long after it; its deliveries beyond its time do not count.
AHEAD_S = 3.0

# Gets the current step, and the finished share of it.
Progress = Callable[[str, float], None]

_PAYLOAD = msgspec.json.Decoder(tuple[str, int])


def _silent(what: str, share: float) -> None:
    """Ignore progress."""


class ReplayError(Exception):
    """A workload that this network cannot take; says why."""


class StalledError(ReplayError):
    """The network takes nothing more."""


class ReplayCredentials(msgspec.Struct, frozen=True):
    """With which clients connect; with `tls` to listeners over TLS."""

    username: str | None = None
    password: str | None = None
    tls: Tls | None = None


ANONYMOUS = ReplayCredentials()


class Players:
    """The clients of a replay: `connect` them, `play`, `all_arrived`."""

    def __init__(
        self,
        workload: WorkloadFiles,
        network: NetworkFile,
        judge: LiveJudge,
        credentials: ReplayCredentials = ANONYMOUS,
    ) -> None:
        self.prefix = f"replay-{secrets.token_hex(4)}/"
        self.published: dict[ClientId, list[int]] = {
            row.publisher: [] for row in workload.publishers
        }
        self.seconds = 0.0
        # reasons why parts of the workload were not replayed, as text
        self.unfinished: list[str] = []
        self._workload = workload
        self._front_ends = front_ends(workload, network, is_over_tls=credentials.tls is not None)
        self._judge = judge
        self._credentials = credentials
        self._publishers: dict[ClientId, Client] = {}
        self._reading: list[asyncio.Task[None]] = []
        self._sent_s: dict[tuple[ClientId, int], float] = {}
        # publications that brokers have acknowledged, and the time of the last
        self.acknowledged: set[tuple[ClientId, int]] = set()
        self._newest_s = 0.0
        # number of events that are due
        self._due = 0
        self._replay_us: dict[tuple[ClientId, int], int] = {}
        # Subscriptions that come or go during the replay, with their clients.
        self._guests: list[tuple[SubscriptionRow, Client]] = []
        self._subscribed: dict[SubscriptionId, Subscription] = {}
        self._delays_s: list[float] = []
        self._change = asyncio.Event()

    @property
    def topic(self) -> str:
        return f"{self.prefix}events"

    @property
    def redirections(self) -> int:
        """Return how often a client was sent to another broker, and went."""
        return sum(client.redirections for client in self._publishers.values())

    @property
    def median_delay_us(self) -> float | None:
        """Return the median time from publishing to arrival."""
        return 1e6 * statistics.median(self._delays_s) if self._delays_s else None

    # --- clients ------------------------------------------------------------------------------

    @asynccontextmanager
    async def publishers(self, progress: Progress = _silent) -> AsyncIterator[None]:
        """Connected, each at its broker, with its advertisements; but for those left out."""
        promises: dict[ClientId, list[PublisherRow]] = {}
        for row in self._workload.publishers:
            promises.setdefault(row.publisher, []).append(row)

        admission = LiveAdmission(_counted(progress, "publishers", len(promises)))

        async def connect(name: ClientId, rows: Sequence[PublisherRow]) -> None:
            advertised = [row.advertisement for row in rows]
            client = await admission.connect(
                name, lambda: self._connect(stack, name, rows[0].broker, advertised)
            )
            if client is not None:
                self._publishers[name] = client
                admission.done()

        async with AsyncExitStack() as stack:
            await _all(connect(name, rows) for name, rows in promises.items())
            self._leave_out("publishers", admission.left_out, len(promises))
            self._judge.leave_out(publishers=admission.left_out.keys())
            yield

    @asynccontextmanager
    async def subscribers(self, progress: Progress = _silent) -> AsyncIterator[None]:
        """Connect and subscribe clients, except those left out; arrivals go to the judge."""
        rows = self._workload.subscriptions
        admission = LiveAdmission(_counted(progress, "subscribers", len(rows)))

        async def connect(row: SubscriptionRow) -> None:
            name = row.subscription
            client = await admission.connect(
                name, lambda: self._connect(stack, name, row.broker, ())
            )
            if client is None:
                return
            if row.from_us is not None or row.to_us is not None:
                self._guests.append((row, client))
            if row.from_us is not None and row.from_us > AHEAD_S * 1e6:
                admission.done()
                return
            subscription = await admission.subscribe(
                name, lambda: client.subscribe(self.topic, row.filter)
            )
            if subscription is not None:
                self._begin_to_read(row, subscription)
                admission.done()

        async with AsyncExitStack() as stack:
            try:
                await _all(connect(row) for row in rows)
                self._leave_out("subscribers", admission.left_out, len(rows))
                self._judge.leave_out(subscriptions=admission.left_out.keys())
                yield
            finally:
                for task in self._reading:
                    task.cancel()
                await asyncio.gather(*self._reading, return_exceptions=True)

    def _leave_out(self, who: str, names: Mapping[str, str], of: int) -> None:
        if names:
            first, reason = next(iter(names.items()))
            count = f"{len(names):,} of {of:,} {who} did not get in"
            self.unfinished.append(f"{count}, {first} for one: {reason}")

    async def _connect(
        self, stack: AsyncExitStack, name: str, broker: BrokerId, advertised: Sequence[str]
    ) -> Client:
        credentials = self._credentials
        client = Client(
            self._front_ends[broker],
            self.prefix + name,
            advertise=advertised,
            username=credentials.username,
            password=credentials.password,
            tls=credentials.tls,
        )
        return await stack.enter_async_context(client)

    def _begin_to_read(self, row: SubscriptionRow, subscription: Subscription) -> None:
        self._subscribed[row.subscription] = subscription
        self._reading.append(asyncio.create_task(self._read_deliveries(row, subscription)))

    async def _read_deliveries(self, row: SubscriptionRow, subscription: Subscription) -> None:
        try:
            while True:
                self._arrived(row, await subscription.get())
        except ClientError as error:
            if not subscription.is_closed:
                self.unfinished.append(f"subscriber {row.subscription} heard no more: {error}")

    def _arrived(self, row: SubscriptionRow, message: Message) -> None:
        publisher, sequence = _PAYLOAD.decode(message.payload)
        if not row.waits_for(self._replay_us[publisher, sequence]):
            return
        self._judge.arrived(row.subscription, publisher, sequence)
        self._delays_s.append(time.perf_counter() - self._sent_s[publisher, sequence])
        self._change.set()

    # --- events -------------------------------------------------------------------------------

    async def play(self, progress: Callable[[float], None] = lambda share: None) -> None:
        """Publish every event at its time, or as soon after it as the network takes it.

        ClientError and StalledError when it takes no more.
        """
        loop = asyncio.get_running_loop()
        events = self._workload.events
        end_us = max(events.last_replay_us, 1)
        queues = {name: asyncio.Queue[RunEvent | None](MAX_LATE) for name in self._publishers}
        started_s = self._newest_s = loop.time()
        async with (
            _ended_by(self._stall()),
            _ended_by(self._report_progress(progress, started_s, end_us)),
            _group() as group,
        ):
            for name, queue in queues.items():
                group.create_task(self._publish_all(self._publishers[name], queue))
            for row, client in self._guests:
                group.create_task(self._come_and_go(row, client, started_s, end_us))
            for event in events:
                due_s = started_s + event.replay_us / 1e6
                while (wait_s := due_s - loop.time()) > 0:
                    await asyncio.sleep(wait_s)
                if event.publisher in queues:
                    self._due += 1
                    await queues[event.publisher].put(event)
            for queue in queues.values():
                await queue.put(None)
        self.seconds = loop.time() - started_s
        progress(1.0)

    async def end(self, reason: str) -> None:
        """Mark the replay as not whole: wait a moment for acknowledged publications, and no
        longer.
        """
        self.unfinished.append(reason)
        self._judge.expect_only(self.acknowledged)
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_S):
                while self._judge.missing:
                    self._change.clear()
                    await self._change.wait()

    async def _report_progress(
        self, progress: Callable[[float], None], started_s: float, end_us: int
    ) -> None:
        """Return how far it is, now and then: of its time, as much as the network has taken."""
        while True:
            passed = min(1.0, (asyncio.get_running_loop().time() - started_s) * 1e6 / end_us)
            progress(passed * len(self.acknowledged) / self._due if self._due else passed)
            await asyncio.sleep(TOLD_S)

    async def _stall(self) -> None:
        """StalledError when brokers have long had publications, and have taken none."""
        loop = asyncio.get_running_loop()
        while True:
            if len(self.acknowledged) == len(self._sent_s):
                self._newest_s = loop.time()
            elif loop.time() - self._newest_s >= STALLED_S:
                raise StalledError(
                    f"for {STALLED_S:g} s no broker has acknowledged anything, while "
                    f"{len(self._sent_s) - len(self.acknowledged):,} publications wait for it"
                )
            await asyncio.sleep(STALLED_S / 60)

    async def _come_and_go(
        self, row: SubscriptionRow, client: Client, started_s: float, end_us: int
    ) -> None:
        """Subscribe, and take it back, at its time."""
        loop = asyncio.get_running_loop()
        if row.subscription not in self._subscribed:
            assert row.from_us is not None
            await asyncio.sleep(started_s + row.from_us / 1e6 - AHEAD_S - loop.time())
            subscription = client.subscribe(self.topic, row.filter)
            await subscription.granted()
            self._begin_to_read(row, subscription)
        if row.to_us is not None and row.to_us < end_us:
            await asyncio.sleep(started_s + row.to_us / 1e6 + AHEAD_S - loop.time())
            await self._subscribed[row.subscription].close()

    async def _publish_all(self, client: Client, queue: asyncio.Queue[RunEvent | None]) -> None:
        room = asyncio.Semaphore(UNDER_WAY)
        async with _group() as group:
            while (event := await queue.get()) is not None:
                await room.acquire()
                task = group.create_task(self._publish(client, event))
                task.add_done_callback(lambda _: room.release())

    async def _publish(self, client: Client, event: RunEvent) -> None:
        key = event.publisher, event.sequence
        self._sent_s[key] = time.perf_counter()
        self._replay_us[key] = event.replay_us
        self.published[event.publisher].append(event.sequence)
        try:
            payload = msgspec.json.encode(key)
            await client.publish(self.topic, payload, attributes=event.attributes)
            self.acknowledged.add(key)
            self._newest_s = asyncio.get_running_loop().time()
        except (ClientError, ValueError) as error:
            kind = ClientError if isinstance(error, ClientError) else ReplayError
            name = f"event {event.sequence} of {event.publisher}"
            raise kind(f"{name} cannot be published: {error}") from None

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


# Schemes of listeners' addresses, by their keys in a network file.
_PLAIN = {"mqtt": "", "websocket": "ws://"}
_OVER_TLS = {"mqtts": "mqtts://", "wss": "wss://"}


def front_ends(
    workload: WorkloadFiles, network: NetworkFile, *, is_over_tls: bool = False
) -> Mapping[BrokerId, str]:
    """Return the address of each broker of the workload for clients; ReplayError if one has
    none.
    """
    ways = _OVER_TLS if is_over_tls else _PLAIN
    found = {
        broker.name: f"{scheme}{where}"
        for broker in network.brokers
        for key, scheme in reversed(ways.items())
        if (where := broker.reached_at(key))
    }
    for row in workload.subscriptions:
        if row.every or row.changed:
            raise ReplayError(
                f"subscription {row.subscription!r} has a rate or change; "
                "only `shoal simulate` replays these"
            )
    used = {row.broker for row in workload.publishers}
    used |= {row.broker for row in workload.subscriptions}
    there = {broker.name: broker for broker in network.brokers}
    for broker in sorted(used - found.keys()):
        others = _PLAIN if is_over_tls else _OVER_TLS
        if broker in there and any(map(there[broker].reached_at, others)):
            but = "without --tls" if is_over_tls else "with --tls"
            raise ReplayError(f"broker {broker} has no {' or '.join(ways)}; replay {but}")
        raise ReplayError(
            f"the network has no broker {broker!r} with an MQTT address ({' or '.join(ways)}); "
            f"it has {', '.join(sorted(found)) or 'none'}"
        )
    return found


def _counted(progress: Progress, who: str, total: int) -> Callable[[int], None]:
    """Return how many of these clients are in, as progress."""
    return lambda inside: progress(
        f"connecting {who}: {inside:,} of {total:,}", inside / max(total, 1)
    )


async def _all(connecting: Iterable[Coroutine[None, None, None]]) -> None:
    async with _group() as group:
        for coroutine in connecting:
            group.create_task(coroutine)


@asynccontextmanager
async def _ended_by(watching: Coroutine[None, None, None]) -> AsyncIterator[None]:
    """Ends with the block inside; an error of `watching` ends both."""
    async with _group() as group:
        task = group.create_task(watching)
        yield
        task.cancel()


@asynccontextmanager
async def _group() -> AsyncIterator[asyncio.TaskGroup]:
    """A group of tasks that raises its first error."""
    try:
        async with asyncio.TaskGroup() as group:
            yield group
    except BaseExceptionGroup as errors:
        first: BaseException = errors
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        raise first from None
