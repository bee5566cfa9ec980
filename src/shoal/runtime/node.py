"""One broker on asyncio: brings its machine what happens, and carries its effects out.

The machine is the simulator's, to the byte.  What one read of a socket brought is handled in one
go, publications of a run as one batch; what is to be written is gathered until the loop is
through with the sockets that are ready, and then goes out as one write for each of them.

A neighbour that takes nothing more holds back what would be sent to it: publications of this
broker's clients and, on a tree, of its other neighbours wait where they are, and so does whoever
sends them.

An input may come with a `Custody`: the frames that it causes extend it, and so does a machine that
is not done with it; whoever brought it is told when all of that is settled.

Until the machine is ready, as it has just started and does not know its neighbours' tables yet,
publications of clients wait, and what those clients ask behind them.
"""

from __future__ import annotations

import asyncio
import enum
import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Protocol

import msgspec

from shoal.broker.custody import Custody, is_assured
from shoal.broker.effects import (
    CancelTimer,
    Deliver,
    Effect,
    EndLink,
    Hold,
    Input,
    Key,
    Left,
    LinkChanged,
    LinkReady,
    Notify,
    OpenLink,
    Received,
    Record,
    Release,
    Requested,
    ResetLink,
    Returned,
    Send,
    SetTimer,
    Settled,
    Started,
    Stays,
    TimerFired,
    TimerKey,
    Unsettled,
    Watch,
    WatchCosts,
)
from shoal.broker.machine import Broker
from shoal.broker.messages import Carrier, Message, Publish
from shoal.broker.records import ProposalRecord
from shoal.broker.wire import WireError
from shoal.model import BrokerId, ClientId
from shoal.runtime.admission import Admission
from shoal.runtime.batches import joined
from shoal.runtime.clock import Clock
from shoal.runtime.held_back import HeldBack
from shoal.runtime.monitor import Monitor
from shoal.runtime.pauses import Alarm

MONITOR_INTERVAL_S = 1.0

_MICROSECONDS = 1_000_000
_PROPOSALS_KEPT = 100
_log = logging.getLogger(__name__)


class Phase(enum.IntEnum):
    """The steps of a flush, in their order, so that nobody hears of what could still be lost.

    DELIVER   what came for local clients reaches their sessions
    RECORD    what must survive this process is written where it does
    LINKS     neighbours are written to, and told what is settled
    CLIENTS   clients are written to, and told what is acknowledged
    """

    DELIVER = 0
    RECORD = 1
    LINKS = 2
    CLIENTS = 3


class Client(Protocol):
    """Where a client's deliveries and notices go."""

    def deliver(self, delivery: Deliver) -> None: ...

    def notify(self, message: Message) -> None: ...


class Links(Protocol):
    """What carries a node's messages to its neighbours."""

    def send(self, neighbour: BrokerId, message: Message, custody: Custody | None = None) -> None:
        """Behind all sent before, in custody until it is settled there.

        WireError when it cannot be written.
        """

    def open(self, neighbour: BrokerId, address: str) -> None: ...

    def ready(self, neighbour: BrokerId) -> None:
        """Publications may go to a neighbour whose link came up."""

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
    clients' requests asks `is_holding` first, and is told by `at_hold` when that changes; `at_link`
    is told which links are ready to carry publications, and which are given up.
    """

    def __init__(
        self,
        machine: Broker,
        clock: Clock,
        trace: Trace | None = None,
        admits_bytes: int | None = None,
    ) -> None:
        """`admits_bytes` bounds what its own clients have under way (see `Admission`)."""
        self.id = machine.id
        self.machine = machine
        self.clock = clock
        self.links: Links | None = None
        self.counts: Counter[str] = Counter()
        # The last ones; what became of links that were proposed.
        self.proposals: deque[ProposalRecord] = deque(maxlen=_PROPOSALS_KEPT)
        self._at_flush: list[tuple[Phase, Callable[[], None]]] = []
        self.at_hold: list[Callable[[bool], None]] = []
        self.at_link: list[Callable[[BrokerId, bool], None]] = []
        self._held_by: set[str] = set()
        self._room = asyncio.Event()
        self._room.set()
        self._trace = trace
        self._clients: dict[ClientId, Client] = {}
        self._timers: dict[TimerKey, Alarm] = {}
        # What the machine is not done with, and somebody waits for.
        self._unsettled: dict[Key, Custody] = {}
        self._inputs: deque[tuple[Input, Custody | None]] = deque()
        self._is_ready = machine.is_ready
        self._held_back = HeldBack()
        self._admission: Admission | None = None
        if admits_bytes is not None:
            self._admission = Admission(admits_bytes, partial(self.hold, reason="under way"))
        self._is_handling = False
        self._flush_is_due = False
        self._deliveries = 0
        self._delivered_us = 0
        self._last_us = 0
        # For a machine that watches its delays.
        self._monitor: Monitor | None = None
        self._reports: asyncio.TimerHandle | None = None

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    def start(self, started: Started | None = None) -> None:
        """Begin: the machine starts."""
        self.bring(started or Started())

    def stop(self) -> None:
        """Fire no timers any more."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        if self._reports is not None:
            self._reports.cancel()

    # --- inputs -------------------------------------------------------------------------------

    def bring(
        self, input: Input, since_us: int | None = None, custody: Custody | None = None
    ) -> None:
        """Let the machine handle an input that has waited since then, and do what it says.

        Inputs that come up meanwhile (a link that must be given up) are handled after it.
        """
        self._inputs.append((input, custody))
        if self._is_handling:
            return
        self._is_handling = True
        try:
            while self._inputs:
                self._handle(*self._inputs.popleft(), since_us)
        finally:
            self._is_handling = False
        self.schedule_flush()

    def receive(
        self,
        neighbour: BrokerId,
        messages: Sequence[Message],
        since_us: int | None = None,
        owe: Callable[[int, int], Custody] | None = None,
    ) -> None:
        """What a neighbour sent, in its order.

        `owe` is asked for a custody of messages, from the first to the last of them, for whose
        settlement the neighbour waits.
        """
        at = 0
        for message, count in joined(messages):
            custody = owe(at, at + count - 1) if owe and self._is_kept(message) else None
            self.bring(Received(neighbour, message), since_us, custody)
            at += count

    def request(
        self,
        client: ClientId,
        request: Message,
        since_us: int | None = None,
        custody: Custody | None = None,
    ) -> None:
        """What a client asks."""
        if not self._is_ready and self._held_back.keep(client, request, custody):
            if self._held_back.is_full:
                self.hold(True, "not ready")
            return
        if isinstance(request, Publish):
            if self._trace is not None:
                self._trace.published(request)
            if self._admission is not None:
                custody = self._admission.admit(request, custody)
        self.bring(Requested(client, request), since_us, custody)

    def _handle(self, input: Input, custody: Custody | None, since_us: int | None) -> None:
        now_us = self._last_us = max(self.clock.now_us(), self._last_us)
        publications = _publications(input)
        effects = self.machine.handle(input, now_us)
        if publications:
            self.counts["publications_in"] += publications
            if self._monitor is not None:
                done_us = self.clock.now_us()
                waited_us = 0 if since_us is None else max(0, now_us - since_us)
                self._monitor.handled(publications, waited_us, done_us - now_us)
        self._carry_out(effects, now_us, custody)
        if custody is not None:
            custody.settle()
        if not self._is_ready and self.machine.is_ready:
            self._begin()

    def _begin(self) -> None:
        """The machine is ready."""
        self._is_ready = True
        for client, request, custody in self._held_back.take():
            self.request(client, request, custody=custody)
        self.hold(False, "not ready")

    def _watch(self) -> None:
        if self._monitor is None:
            self._monitor = Monitor()
            self._reports = self.loop.call_later(MONITOR_INTERVAL_S, self._report)

    def _report(self) -> None:
        assert self._monitor is not None
        delays_us = self.links.delays_us() if self.links is not None else {}
        self.bring(self._monitor.report(delays_us))
        self._reports = self.loop.call_later(MONITOR_INTERVAL_S, self._report)

    # --- effects ------------------------------------------------------------------------------

    def _carry_out(self, effects: Iterable[Effect], now_us: int, custody: Custody | None) -> None:
        for effect in effects:
            kind = type(effect)
            if kind is Send:
                self._send(effect, custody)  # type: ignore[arg-type]
            elif kind is Deliver:
                self._deliver(effect, now_us)  # type: ignore[arg-type]
            elif kind is Unsettled:
                if custody is not None:
                    custody.extend()
                    self._unsettled[effect.key] = custody  # type: ignore[union-attr]
            elif kind is Settled:
                settled = self._unsettled.pop(effect.key, None)  # type: ignore[union-attr]
                if settled is not None:
                    settled.settle()
            else:
                self._control(effect, now_us)

    def _send(self, effect: Send, custody: Custody | None) -> None:
        assert self.links is not None
        self.counts["messages_out"] += 1
        if custody is not None and not self._is_kept(effect.message):
            custody = None
        try:
            self.links.send(effect.neighbour, effect.message, custody)
        except WireError as error:
            # Doors check what they let in; a message that is lost here is better than a broker.
            self.counts["unwritable"] += 1
            _log.error("a message is lost", extra={"to": effect.neighbour, "problem": str(error)})

    def _is_kept(self, message: Message) -> bool:
        """Whether a neighbour says when it is settled there: both ends of a link must agree."""
        if self._admission is not None and isinstance(message, Carrier):
            return True
        return is_assured(message)

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
                self._set_timer(key, at_us)
            case CancelTimer(key):
                timer = self._timers.pop(key, None)
                if timer is not None:
                    timer.cancel()
            case Record(row):
                self.record(row)
            case Watch():
                self._watch()
            case LinkReady(neighbour) if self.links is not None:
                self.links.ready(neighbour)
                self._tell_of_link(neighbour, True)
            case OpenLink(neighbour, address) if self.links is not None:
                self.links.open(neighbour, address)
            case ResetLink(neighbour) if self.links is not None:
                self.links.close(neighbour)
            case EndLink() | Hold() | Release() | WatchCosts() | Left() | Stays():
                raise NotImplementedError(type(effect).__name__)

    def record(self, row: msgspec.Struct) -> None:
        """Count something that happened, and trace it."""
        self.counts[type(row).__name__] += 1
        if type(row) is ProposalRecord:
            self.proposals.append(row)
        if self._trace is not None:
            self._trace.record(row)

    def _set_timer(self, key: TimerKey, at_us: int) -> None:
        former = self._timers.get(key)
        if former is not None:
            former.cancel()
        fire = partial(self._fire, key, at_us)
        self._timers[key] = Alarm(self.loop, self.clock, at_us, fire)

    def _fire(self, key: TimerKey, at_us: int) -> None:
        del self._timers[key]
        # A loop's clock is coarser than ours: a timer never fires before its time.
        self._last_us = max(self._last_us, at_us)
        self.bring(TimerFired(key))

    # --- writing ------------------------------------------------------------------------------

    def at_flush(self, phase: Phase, call: Callable[[], None]) -> None:
        """Call this at each flush, in its phase."""
        self._at_flush.append((phase, call))
        self._at_flush.sort(key=lambda entry: entry[0])

    def schedule_flush(self) -> None:
        """Flush once the loop is through with what is ready now."""
        if not self._flush_is_due:
            self._flush_is_due = True
            self.loop.call_soon(self.flush)

    def flush(self) -> None:
        """Settle what has been gathered, then write it out, each socket once."""
        self._flush_is_due = False
        for _, call in self._at_flush:
            call()
        if self._deliveries:
            if self._monitor is not None:
                waited_us = max(0, self.clock.now_us() - self._delivered_us)
                self._monitor.delivered(self._deliveries, waited_us)
            self.counts["deliveries"] += self._deliveries
            self._deliveries = self._delivered_us = 0

    @property
    def is_ready(self) -> bool:
        """Whether clients' publications need not wait for neighbours' tables."""
        return self._is_ready

    @property
    def is_holding(self) -> bool:
        """Whether no requests should be brought."""
        return bool(self._held_by)

    def hold(self, full: bool, reason: str = "links") -> None:
        """Some link is full, or none is any more; or there is another reason."""
        was_holding = self.is_holding
        if full:
            self._held_by.add(reason)
        else:
            self._held_by.discard(reason)
        full = self.is_holding
        if full != was_holding:
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
        changes = list(changes)
        # One that goes down to come up at once is to a neighbour that has started again.
        back = {change.neighbour for change in changes if change.up}
        for change in changes:
            self.counts["links_up" if change.up else "links_down"] += 1
            event = "link up" if change.up else "link down"
            _log.info(event, extra={"broker": self.id, "neighbour": change.neighbour})
            self.bring(change)
            if not change.up and change.neighbour not in back:
                self._tell_of_link(change.neighbour, False)

    def returned(self, neighbour: BrokerId, carriers: Iterable[tuple[Carrier, Custody]]) -> None:
        """What was not settled at a neighbour whose link was given up."""
        for carrier, custody in carriers:
            self.counts["publications_returned"] += len(carrier.publications)
            self.bring(Returned(neighbour, carrier), custody=custody)

    def _tell_of_link(self, neighbour: BrokerId, is_ready: bool) -> None:
        for tell in self.at_link:
            tell(neighbour, is_ready)


def _publications(input: Input) -> int:
    kind = type(input)
    if kind is Received:
        message = input.message  # type: ignore[union-attr]
        return len(message.publications) if isinstance(message, Carrier) else 0
    if kind is Requested:
        request = input.request  # type: ignore[union-attr]
        return len(request.publications) if type(request) is Publish else 0
    return 0
