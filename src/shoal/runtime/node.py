"""One broker on asyncio: brings its machine what happens, and carries its effects out.

The machine is the simulator's, to the byte.  What one read of a socket brought is handled in one
go, publications of a run as one batch; what is to be written is gathered until the loop is
through with the sockets that are ready, and then goes out as one write for each of them.  What
takes longer than a turn is gone on with when others have had theirs, and all that comes meanwhile
waits behind it.

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
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

import msgspec

from shoal.broker.custody import Custody, is_assured
from shoal.broker.effects import (
    CancelTimer,
    Continue,
    Dead,
    Deliver,
    DropLink,
    Effect,
    EndLink,
    Hold,
    Input,
    Key,
    LinkChanged,
    LinkReady,
    LinkState,
    Notify,
    OpenLink,
    Order,
    Recall,
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
    Stay,
    TimerFired,
    TimerKey,
    Unsettled,
    WatchCosts,
    WatchDelays,
    WatchLoads,
)
from shoal.broker.holding import Holding
from shoal.broker.machine import Broker
from shoal.broker.messages import Carrier, Message, Publish
from shoal.broker.wire import WireError
from shoal.model import BrokerId, ClientId
from shoal.runtime.driving.asides import Asides
from shoal.runtime.driving.batches import joined, publications_in
from shoal.runtime.driving.delivering import Delivering
from shoal.runtime.driving.flushing import Flushing, Phase
from shoal.runtime.driving.recording import Recording
from shoal.runtime.driving.rows import Rows
from shoal.runtime.driving.settling import Settling
from shoal.runtime.driving.surroundings import Client, Links, Trace
from shoal.runtime.driving.timing.clock import Clock
from shoal.runtime.driving.timing.timers import Timers
from shoal.runtime.driving.turns import Turns
from shoal.runtime.driving.waiting.admission import Admission
from shoal.runtime.driving.waiting.gate import Gate
from shoal.runtime.driving.waiting.held_back import HeldBack
from shoal.runtime.driving.watching import Watching
from shoal.runtime.driving.weighing import Weighing

_log = logging.getLogger(__name__)


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
        shown: Mapping[str, type[msgspec.Struct]] = {},
    ) -> None:
        """`admits_bytes` bounds what its own clients have under way (see `Admission`); of these
        rows that the machine records, by table, the last are `shown`.
        """
        self.id = machine.id
        self.machine = machine
        self.clock = clock
        self._links: Links | None = None
        self.counts: Counter[str] = Counter()
        self.rows = Rows(self.counts, shown, trace)
        self._gate = Gate()
        self.at_hold = self._gate.at_change
        self.at_link: list[Callable[[BrokerId, bool], None]] = []
        self._trace = trace
        self._timers = Timers(self.clock, self._fire)
        # What the machine is not done with, and somebody waits for.
        self._unsettled: dict[Key, Custody] = {}
        self._is_ready = machine.is_ready
        self._held_back = HeldBack()
        self._admission: Admission | None = None
        if admits_bytes is not None:
            self._admission = Admission(admits_bytes, partial(self.hold, reason="under way"))
        self._last_us = 0
        self._holding: Holding[Custody | None] = Holding()
        self.weighing = Weighing(machine, clock)
        self._turns = Turns(
            self._handle,
            self._holding,
            self.weighing,
            clock,
            deliver=self.deliver,
            at_end=self.schedule_flush,
            at_change=self._falls_behind,
        )
        self.watching = Watching(self.bring)
        self._delivering = Delivering(self.clock, self.counts, self.watching, trace)
        self._flushing = Flushing(self._delivering.flushed, clock)
        self.recording = Recording()
        self._settling = Settling(self.recording)
        self.at_flush(Phase.SETTLE, self._settling.look)
        self.asides = Asides()

    @property
    def links(self) -> Links | None:
        return self._links

    @links.setter
    def links(self, links: Links) -> None:
        self._links = self.watching.links = links

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    def start(self, started: Started | None = None) -> None:
        """Begin: the machine starts."""
        self.bring(started or Started())
        # It may remember whom it must hear first.
        self._is_ready = self.machine.is_ready

    def stop(self) -> None:
        """Fire no timers any more."""
        self._timers.stop()
        self.watching.stop()

    # --- inputs -------------------------------------------------------------------------------

    def order(self, order: Order | Stay | Dead, answered: Callable[[str], None]) -> None:
        """Bring an operator's order; why it is not followed comes as the answer."""
        self.asides.expect(answered)
        self.bring(order)

    def bring(
        self, input: Input, since_us: int | None = None, custody: Custody | None = None
    ) -> None:
        """Let the machine handle an input that has waited since then, and do what it says.

        Inputs that come up meanwhile (a link that must be given up) are handled after it.
        """
        self._turns.bring([(input, custody)], since_us)

    @property
    def is_behind(self) -> bool:
        """Whether what has come waits for the next turn."""
        return self._turns.is_behind

    def _falls_behind(self, is_behind: bool) -> None:
        self.hold(is_behind, "behind")
        if not is_behind and self.links is not None:
            self.links.go_on()

    def deliver(self) -> None:
        """Hand on what the machine has delivered, so that it counts for this turn."""
        self._flushing.flush_only(Phase.DELIVER)

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
        at, inputs = 0, list[tuple[Input, Custody | None]]()
        for message, count in joined(messages):
            custody = owe(at, at + count - 1) if owe and self._is_kept(message) else None
            inputs.append((Received(neighbour, message), custody))
            at += count
        self._turns.bring(inputs, since_us)

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
        publications = publications_in(input)
        effects = self.machine.handle(input, now_us)
        if publications:
            self.counts["publications_in"] += publications
            if self.watching.is_on:
                done_us = self.clock.now_us()
                waited_us = 0 if since_us is None else max(0, now_us - since_us)
                self.watching.handled(publications, waited_us, done_us - now_us)
        is_delivered = self._carry_out(effects, now_us, custody)
        if not publications:
            self.weighing.handled(input, now_us)
        if custody is not None:
            self._settling.settle(custody, is_delivered=is_delivered)
        if not self._is_ready and self.machine.is_ready:
            self._begin()

    def _begin(self) -> None:
        """The machine is ready."""
        self._is_ready = True
        for client, request, custody in self._held_back.take():
            self.request(client, request, custody=custody)
        self.hold(False, "not ready")

    def holds_back(self, neighbour: BrokerId) -> bool:
        """Whether the machine wants nothing of this neighbour for now."""
        return self._holding.holds_back(neighbour)

    # --- effects ------------------------------------------------------------------------------

    def _carry_out(self, effects: Iterable[Effect], now_us: int, custody: Custody | None) -> bool:
        """Whether something was delivered to a client of this broker."""
        own, is_delivered = custody, False
        for effect in effects:
            kind = type(effect)
            if kind is Send:
                self._send(effect, custody)  # type: ignore[arg-type]
            elif kind is Deliver:
                self._settling.has_delivered = is_delivered = True
                self._delivering.deliver(effect, now_us)  # type: ignore[arg-type]
            elif kind is Unsettled:
                if custody is not None:
                    custody.extend()
                    self._unsettled[effect.key] = custody  # type: ignore[union-attr,index]
            elif kind is Settled:
                settled = self._unsettled.pop(effect.key, None)  # type: ignore[union-attr,arg-type]
                if settled is not None:
                    self._settling.settle(settled, is_delivered=is_delivered)
            elif kind is Continue:
                input = effect.key  # type: ignore[union-attr]
                custody = own if input is None else self._unsettled.get(input)
            else:
                self._control(effect, now_us)
        return is_delivered

    def hand_on(self, is_handing_on: bool) -> None:
        """What was delivered goes to so many clients that others have their turns, or all have it.

        Whatever else comes for the machine waits meanwhile.
        """
        self._settling.is_handing_on = is_handing_on
        self._turns.pause(is_handing_on)

    def _send(self, effect: Send, custody: Custody | None) -> None:
        if effect.message.confirms:
            self.recording.confirm(partial(self._send_now, effect, custody))
        else:
            self._send_now(effect, custody)

    def _send_now(self, effect: Send, custody: Custody | None) -> None:
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

    def _control(self, effect: Effect, now_us: int) -> None:
        match effect:
            case Notify():
                self._delivering.notify(effect)
            case SetTimer(key, at_us):
                self._timers.set(key, at_us)
            case CancelTimer(key):
                self._timers.cancel(key)
            case Record(row):
                self.rows.record(row)
            case WatchDelays():
                self.watching.watch_delays()
            case WatchLoads(window_us):
                self.watching.watch_loads(window_us)
            case WatchCosts():
                self.watching.watch_costs()
            case Hold(but):
                self._holding.hold(but)
                self._hold_for_machine(True)
            case Release():
                self._holding.release()
                self._hold_for_machine(False)
            case _:
                if not self.asides.take(effect) and self.links is not None:
                    self._control_link(effect, self.links)

    def _control_link(self, effect: Effect, links: Links) -> None:
        match effect:
            case LinkReady(neighbour):
                links.ready(neighbour)
                self._tell_of_link(neighbour, True)
            case OpenLink(neighbour, address, is_lasting):
                links.open(neighbour, address, is_lasting=is_lasting)
            case EndLink(neighbour):
                links.end(neighbour)
            case DropLink(neighbour):
                links.drop(neighbour)
            case Recall(neighbour, over, moves):
                links.recall(neighbour, over, moves=moves)
            case ResetLink(neighbour):
                links.reset(neighbour)

    def _fire(self, key: TimerKey, at_us: int) -> None:
        # A loop's clock is coarser than ours: a timer never fires before its time.
        self._last_us = max(self._last_us, at_us)
        self.bring(TimerFired(key))

    # --- writing ------------------------------------------------------------------------------

    def at_flush(self, phase: Phase, call: Callable[[], None]) -> None:
        """Call this at each flush, in its phase."""
        self._flushing.at(phase, call)

    def schedule_flush(self) -> None:
        """Flush once the loop is through with what is ready now."""
        self._flushing.schedule()

    def flush(self) -> None:
        """Settle what has been gathered, then write it out, each socket once."""
        self._turns.finish()
        self._flushing.flush()

    @property
    def is_ready(self) -> bool:
        """Whether clients' publications need not wait for neighbours' tables."""
        return self._is_ready

    @property
    def is_holding(self) -> bool:
        """Whether no requests should be brought."""
        return self._gate.is_shut

    def hold(self, full: bool, reason: str = "links") -> None:
        """Some link is full, or none is any more; or there is another reason."""
        self._gate.hold(full, reason)

    def _hold_for_machine(self, hold: bool) -> None:
        self.hold(hold, "machine")
        if self.links is not None:
            self.links.go_on()  # of some neighbours it may want to hear more

    async def room(self) -> None:
        """Return when requests may be brought."""
        await self._gate.room()

    # --- clients ------------------------------------------------------------------------------

    @property
    def client_count(self) -> int:
        return len(self._delivering)

    def attach(self, name: ClientId, client: Client) -> None:
        """Deliver to this client from now on; one of that name before is replaced."""
        self._delivering.attach(name, client)

    def detach(self, name: ClientId) -> None:
        self._delivering.detach(name)

    def client(self, name: ClientId) -> Client | None:
        """Where this client's deliveries go now."""
        return self._delivering.client(name)

    def changed(self, changes: Iterable[LinkChanged]) -> None:
        """Links went down or came up."""
        changes = list(changes)
        # One that goes down to come up at once is to a neighbour that has started again.
        back = {change.neighbour for change in changes if change.up}
        for change in changes:
            state = change.state
            self.counts["links_up" if change.up else "links_down"] += 1
            if not change.up:  # else its connection is in the log
                _log.info(
                    f"link {state.value}", extra={"broker": self.id, "neighbour": change.neighbour}
                )
            self._holding.drop(change.neighbour)
            self.bring(change)
            if state is LinkState.FAILED and change.neighbour not in back:
                self._tell_of_link(change.neighbour, False)

    def returned(self, neighbour: BrokerId, carriers: Iterable[tuple[Carrier, Custody]]) -> None:
        """What was not settled at a neighbour whose link was given up."""
        for carrier, custody in carriers:
            self.counts["publications_returned"] += len(carrier.publications)
            self.bring(Returned(neighbour, carrier), custody=custody)

    def _tell_of_link(self, neighbour: BrokerId, is_ready: bool) -> None:
        for tell in self.at_link:
            tell(neighbour, is_ready)
