"""One broker on asyncio: brings its machine what happens, and carries its effects out.

The machine is the simulator's, to the byte.  What one read of a socket brought is handled in one
go, publications of a run as one batch; what is to be written is gathered until the loop is
through with the sockets that are ready, and then goes out as one write for each of them.

A neighbour that takes nothing more holds back what would be sent to it: publications of this
broker's clients and of its other neighbours wait where they are, and so does whoever sends them.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import msgspec

from shoal.broker.effects import (
    CancelTimer,
    CloseLink,
    Deliver,
    Effect,
    Input,
    LinkChanged,
    Notify,
    OpenLink,
    Received,
    Record,
    Requested,
    Send,
    SetTimer,
    Started,
    TimerFired,
    TimerKey,
)
from shoal.broker.machine import Broker
from shoal.broker.messages import Message, PublicationBatch, Publish
from shoal.broker.wire import WireError
from shoal.model import BrokerId, ClientId
from shoal.runtime.clock import Clock
from shoal.runtime.monitor import Monitor

MONITOR_INTERVAL_S = 1.0
# Publications handled in one go; the loop must come back to its sockets meanwhile.
MAX_BATCH = 1_024

_MICROSECONDS = 1_000_000
_log = logging.getLogger(__name__)


class Client(Protocol):
    """Where a client's deliveries and notices go."""

    def deliver(self, delivery: Deliver) -> None: ...

    def notify(self, message: Message) -> None: ...


class Links(Protocol):
    """What carries a node's messages to its neighbours."""

    def send(self, neighbour: BrokerId, message: Message) -> None:
        """Behind all sent before; WireError when it cannot be written."""

    def open(self, neighbour: BrokerId, address: str) -> None: ...

    def close(self, neighbour: BrokerId) -> None: ...

    def delays_us(self) -> dict[BrokerId, int]:
        """How long a message takes to each neighbour, where that is known."""


class Trace(Protocol):
    """What keeps a record of what happens at a node."""

    def published(self, request: Publish) -> None: ...

    def delivered(self, delivery: Deliver, now_us: int) -> None: ...

    def record(self, record: msgspec.Struct) -> None: ...


class Node:
    """A broker machine and its surroundings.

    `counts` has what happened since the start: publications in, deliveries, messages to
    neighbours, refusals.  `trace`, if there is one, is told what happens.  Whoever brings
    clients' requests asks `is_holding` first, and is told by `at_hold` when that changes.
    """

    def __init__(
        self,
        machine: Broker,
        clock: Clock,
        trace: Trace | None = None,
    ) -> None:
        self.id = machine.id
        self.machine = machine
        self.clock = clock
        self.links: Links | None = None
        self.counts: Counter[str] = Counter()
        # What is done before anything is written, and then the writing.
        self.before_flush: list[Callable[[], None]] = []
        self.at_flush: list[Callable[[], None]] = []
        self.at_hold: list[Callable[[bool], None]] = []
        self.is_holding = False
        self._room = asyncio.Event()
        self._room.set()
        self._trace = trace
        self._clients: dict[ClientId, Client] = {}
        self._timers: dict[TimerKey, asyncio.TimerHandle] = {}
        self._inputs: deque[Input] = deque()
        self._is_handling = False
        self._flush_is_due = False
        self._deliveries = 0
        self._delivered_us = 0
        self._last_us = 0
        self._monitor = Monitor()
        self._reports: asyncio.TimerHandle | None = None

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    def start(self) -> None:
        """Begin: the machine starts, the monitor reports."""
        self.bring(Started())
        self._reports = self.loop.call_later(MONITOR_INTERVAL_S, self._report)

    def stop(self) -> None:
        """Fire no timers any more."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        if self._reports is not None:
            self._reports.cancel()

    # --- inputs -------------------------------------------------------------------------------

    def bring(self, input: Input, since_us: int | None = None) -> None:
        """Let the machine handle an input that has waited since then, and do what it says.

        Inputs that come up meanwhile (a link that must be given up) are handled after it.
        """
        self._inputs.append(input)
        if self._is_handling:
            return
        self._is_handling = True
        try:
            while self._inputs:
                self._handle(self._inputs.popleft(), since_us)
        finally:
            self._is_handling = False
        self.schedule_flush()

    def receive(
        self, neighbour: BrokerId, messages: Sequence[Message], since_us: int | None = None
    ) -> None:
        """What a neighbour sent, in its order."""
        for message in joined(messages):
            self.bring(Received(neighbour, message), since_us)

    def request(self, client: ClientId, request: Message, since_us: int | None = None) -> None:
        """What a client asks."""
        if self._trace is not None and isinstance(request, Publish):
            self._trace.published(request)
        self.bring(Requested(client, request), since_us)

    def _handle(self, input: Input, since_us: int | None) -> None:
        now_us = self._last_us = max(self.clock.now_us(), self._last_us)
        publications = _publications(input)
        effects = self.machine.handle(input, now_us)
        if publications:
            self.counts["publications_in"] += publications
            done_us = self.clock.now_us()
            waited_us = 0 if since_us is None else max(0, now_us - since_us)
            self._monitor.handled(publications, waited_us, done_us - now_us)
        self._carry_out(effects, now_us)

    def _report(self) -> None:
        delays_us = self.links.delays_us() if self.links is not None else {}
        self.bring(self._monitor.report(delays_us))
        self._reports = self.loop.call_later(MONITOR_INTERVAL_S, self._report)

    # --- effects ------------------------------------------------------------------------------

    def _carry_out(self, effects: Iterable[Effect], now_us: int) -> None:
        for effect in effects:
            kind = type(effect)
            if kind is Send:
                self._send(effect)  # type: ignore[arg-type]
            elif kind is Deliver:
                self._deliver(effect, now_us)  # type: ignore[arg-type]
            else:
                self._control(effect, now_us)

    def _send(self, effect: Send) -> None:
        assert self.links is not None
        self.counts["messages_out"] += 1
        try:
            self.links.send(effect.neighbour, effect.message)
        except WireError as error:
            # Doors check what they let in; a message that is lost here is better than a broker.
            self.counts["unwritable"] += 1
            _log.error("a message is lost", extra={"to": effect.neighbour, "problem": str(error)})

    def _deliver(self, effect: Deliver, now_us: int) -> None:
        client = self._clients.get(effect.client)
        if client is None:
            self.counts["deliveries_to_nobody"] += 1
            return
        self._deliveries += 1
        self._delivered_us = self._delivered_us or now_us
        if self._trace is not None:
            self._trace.delivered(effect, now_us)
        client.deliver(effect)

    def _control(self, effect: Effect, now_us: int) -> None:
        match effect:
            case Notify(name, message):
                client = self._clients.get(name)
                if client is not None:
                    client.notify(message)
            case SetTimer(key, at_us):
                self._set_timer(key, at_us, now_us)
            case CancelTimer(key):
                timer = self._timers.pop(key, None)
                if timer is not None:
                    timer.cancel()
            case Record(row):
                self.record(row)
            case OpenLink(neighbour, address) if self.links is not None:
                self.links.open(neighbour, address)
            case CloseLink(neighbour) if self.links is not None:
                self.links.close(neighbour)

    def record(self, row: msgspec.Struct) -> None:
        """Count something that happened, and trace it."""
        self.counts[type(row).__name__] += 1
        if self._trace is not None:
            self._trace.record(row)

    def _set_timer(self, key: TimerKey, at_us: int, now_us: int) -> None:
        former = self._timers.get(key)
        if former is not None:
            former.cancel()
        delay_s = max(0, at_us - now_us) / _MICROSECONDS
        self._timers[key] = self.loop.call_later(delay_s, self._fire, key, at_us)

    def _fire(self, key: TimerKey, at_us: int) -> None:
        del self._timers[key]
        # A loop's clock is coarser than ours: a timer never fires before its time.
        self._last_us = max(self._last_us, at_us)
        self.bring(TimerFired(key))

    # --- writing ------------------------------------------------------------------------------

    def schedule_flush(self) -> None:
        """Flush once the loop is through with what is ready now."""
        if not self._flush_is_due:
            self._flush_is_due = True
            self.loop.call_soon(self.flush)

    def flush(self) -> None:
        """Settle what has been gathered, then write it out, each socket once."""
        self._flush_is_due = False
        for settle in self.before_flush:
            settle()
        for write in self.at_flush:
            write()
        if self._deliveries:
            waited_us = max(0, self.clock.now_us() - self._delivered_us)
            self._monitor.delivered(self._deliveries, waited_us)
            self.counts["deliveries"] += self._deliveries
            self._deliveries = self._delivered_us = 0

    def hold(self, full: bool) -> None:
        """Some link is full, or none is any more."""
        if full != self.is_holding:
            self.is_holding = full
            if full:
                self._room.clear()
            else:
                self._room.set()
            for tell in self.at_hold:
                tell(full)

    async def room(self) -> None:
        """Return when requests may be brought."""
        await self._room.wait()

    # --- clients ------------------------------------------------------------------------------

    @property
    def client_count(self) -> int:
        return len(self._clients)

    def attach(self, name: ClientId, client: Client) -> None:
        """Deliver to this client from now on; one of that name before is replaced."""
        self._clients[name] = client

    def detach(self, name: ClientId) -> None:
        self._clients.pop(name, None)

    def client(self, name: ClientId) -> Client | None:
        """Where this client's deliveries go now."""
        return self._clients.get(name)

    def changed(self, changes: Iterable[LinkChanged]) -> None:
        """Links went down or came up."""
        for change in changes:
            self.counts["links_up" if change.up else "links_down"] += 1
            event = "link up" if change.up else "link down"
            _log.info(event, extra={"broker": self.id, "neighbour": change.neighbour})
            self.bring(change)


def joined(messages: Sequence[Message]) -> list[Message]:
    """The messages, with runs of publications that came the same way as one batch each."""
    found: list[Message] = []
    run: list[PublicationBatch] = []
    length = 0
    for message in messages:
        if type(message) is PublicationBatch:
            if run and (message.hops != run[0].hops or length >= MAX_BATCH):
                found.append(_batch(run))
                run, length = [], 0
            run.append(message)
            length += len(message.publications)
        else:
            if run:
                found.append(_batch(run))
                run, length = [], 0
            found.append(message)
    if run:
        found.append(_batch(run))
    return found


def _batch(run: list[PublicationBatch]) -> PublicationBatch:
    if len(run) == 1:
        return run[0]
    return PublicationBatch(tuple(one for each in run for one in each.publications), run[0].hops)


def _publications(input: Input) -> int:
    kind = type(input)
    if kind is Received:
        message = input.message  # type: ignore[union-attr]
        return len(message.publications) if type(message) is PublicationBatch else 0
    if kind is Requested:
        request = input.request  # type: ignore[union-attr]
        return len(request.publications) if type(request) is Publish else 0
    return 0
