"""One broker on asyncio: brings input to its machine, and carries its effects out.

The machine is the simulator's, to the byte. Input of one socket read is handled in one go,
publications of a run as one batch; output is gathered until the loop is through with the sockets
that are ready, and then goes out as one write for each of them. Work that exceeds a time slice
continues in a later slice, and all later input waits behind it.

A full neighbour holds back publications for it: those of this broker's clients and, on a tree, of
its other neighbours wait at their sources.

An input may come with an `AckTracker`: the frames that it causes extend the tracker, and so does a
machine that is not done with it; the source of the input is notified when all of that is settled.

Until the machine is ready, as it has just started and does not know its neighbours' tables yet,
publications of clients wait, and later requests of these clients behind them.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

import msgspec

from shoal.broker.ack_tracker import AckTracker, is_assured
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
from shoal.runtime.driving.batches import brings_traced, joined, publications_in
from shoal.runtime.driving.cost_estimator import CostEstimator
from shoal.runtime.driving.delivering import Delivering
from shoal.runtime.driving.flushing import Flushing, Phase
from shoal.runtime.driving.recording import Recording
from shoal.runtime.driving.rows import RecordRows
from shoal.runtime.driving.settling import Settling
from shoal.runtime.driving.surroundings import NodeClient, NodeLinks, TraceSink
from shoal.runtime.driving.timing.clock import Clock
from shoal.runtime.driving.timing.timers import NodeTimers
from shoal.runtime.driving.turns import MachineTurns
from shoal.runtime.driving.waiting.admission import RequestAdmission
from shoal.runtime.driving.waiting.gate import RequestGate
from shoal.runtime.driving.waiting.held_back import HeldBack
from shoal.runtime.driving.watching import Watching

_log = logging.getLogger(__name__)


class Node:
    """A broker machine and its surroundings.

    `counts` has totals since the start: publications in, deliveries, messages to neighbours,
    refusals. `trace`, if there is one, records events. Sources of clients' requests check
    `is_holding` first, and `at_hold` notifies them of changes; `at_link` reports links that are
    ready to carry publications, and links that are given up.
    """

    def __init__(
        self,
        machine: Broker,
        clock: Clock,
        trace: TraceSink | None = None,
        admits_bytes: int | None = None,
        shown: Mapping[str, type[msgspec.Struct]] = {},
    ) -> None:
        """`admits_bytes` bounds publications of its own clients that are under way (see
        `RequestAdmission`); `shown` is the number of the machine's last records per table.
        """
        self.id = machine.id
        self.machine = machine
        self.clock = clock
        self._links: NodeLinks | None = None
        self.counts: Counter[str] = Counter()
        self.rows = RecordRows(self.counts, shown, trace)
        self._gate = RequestGate()
        self.at_hold = self._gate.at_change
        self.at_link: list[Callable[[BrokerId, bool], None]] = []
        # Gets inputs with a traced publication: their effects, and since when and how long they
        # waited.
        self.at_traced: Callable[[Input, Sequence[Effect], int, int], None] | None = None
        self._trace = trace
        self._timers = NodeTimers(self.clock, self._fire)
        # trackers of input that the machine is not done with
        self._unsettled: dict[Key, AckTracker] = {}
        self._is_ready = machine.is_ready
        self._held_back = HeldBack()
        self._admission: RequestAdmission | None = None
        if admits_bytes is not None:
            self._admission = RequestAdmission(admits_bytes, partial(self.hold, reason="under way"))
        self._last_us = 0
        self._holding: Holding[AckTracker | None] = Holding()
        self.cost_estimator = CostEstimator(machine, clock)
        self._turns = MachineTurns(
            self._handle_input,
            self._holding,
            self.cost_estimator,
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
    def links(self) -> NodeLinks | None:
        return self._links

    @links.setter
    def links(self, links: NodeLinks) -> None:
        self._links = self.watching.links = links

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    def start(self, started: Started | None = None) -> None:
        """Begin: the machine starts."""
        self.bring(started or Started())
        # It may have restored neighbours from which it must hear first.
        self._is_ready = self.machine.is_ready

    def stop(self) -> None:
        """Fire no timers any more."""
        self._timers.stop()
        self.watching.stop()

    # --- inputs -------------------------------------------------------------------------------

    async def order(self, order: Order | Stay | Dead) -> str:
        """Give the machine an operator's order; the reason if it does not follow the order."""
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        def answered(problem: str) -> None:
            if not answer.done():
                answer.set_result(problem)

        self.asides.expect(answered)
        self.bring(order)
        return await answer

    def bring(
        self, input: Input, since_us: int | None = None, ack_tracker: AckTracker | None = None
    ) -> None:
        """Let the machine handle an input that has waited since then, and carry out its effects.

        Inputs that come up meanwhile (a link that must be given up) are handled after it.
        """
        self._turns.bring([(input, ack_tracker)], since_us)

    @property
    def is_behind(self) -> bool:
        """Return whether input waits for the next time slice."""
        return self._turns.is_behind

    def _falls_behind(self, is_behind: bool) -> None:
        self.hold(is_behind, "behind")
        if not is_behind and self.links is not None:
            self.links.go_on()

    def deliver(self) -> None:
        """Pass the machine's deliveries on, so that they count for this slice."""
        self._flushing.flush_only(Phase.DELIVER)

    def receive(
        self,
        neighbour: BrokerId,
        messages: Sequence[Message],
        since_us: int | None = None,
        owe: Callable[[int, int], AckTracker] | None = None,
    ) -> None:
        """Take messages of a neighbour, in order.

        `owe` makes a tracker for the messages from the first to the last, whose acknowledgement the
        neighbour awaits.
        """
        at, inputs = 0, list[tuple[Input, AckTracker | None]]()
        for message, count in joined(messages):
            ack_tracker = owe(at, at + count - 1) if owe and self._is_kept(message) else None
            inputs.append((Received(neighbour, message), ack_tracker))
            at += count
        self._turns.bring(inputs, since_us)

    def request(
        self,
        client: ClientId,
        request: Message,
        since_us: int | None = None,
        ack_tracker: AckTracker | None = None,
    ) -> None:
        """Take a client's request."""
        if not self._is_ready and self._held_back.keep(client, request, ack_tracker):
            if self._held_back.is_full:
                self.hold(True, "not ready")
            return
        if isinstance(request, Publish):
            if self._trace is not None:
                self._trace.published(request)
            if self._admission is not None:
                ack_tracker = self._admission.admit(request, ack_tracker)
        self.bring(Requested(client, request), since_us, ack_tracker)

    def _handle_input(
        self, input: Input, ack_tracker: AckTracker | None, since_us: int | None
    ) -> None:
        now_us = self._last_us = max(self.clock.now_us(), self._last_us)
        publications = publications_in(input)
        effects = self.machine.handle(input, now_us)
        if publications:
            self.counts["publications_in"] += publications
            done_us = self.clock.now_us()
            waited_us = 0 if since_us is None else max(0, now_us - since_us)
            self.watching.handled(publications, waited_us, done_us - now_us)
            if self.at_traced is not None and brings_traced(input):
                self.at_traced(input, effects, now_us, waited_us)
        is_delivered = self._carry_out(effects, now_us, ack_tracker)
        if not publications:
            self.cost_estimator.handled(input, now_us)
        if ack_tracker is not None:
            self._settling.settle(ack_tracker, is_delivered=is_delivered)
        if not self._is_ready and self.machine.is_ready:
            self._become_ready()

    def _become_ready(self) -> None:
        """The machine is ready."""
        self._is_ready = True
        for client, request, ack_tracker in self._held_back.take():
            self.request(client, request, ack_tracker=ack_tracker)
        self.hold(False, "not ready")

    def holds_back(self, neighbour: BrokerId) -> bool:
        """Return whether the machine wants nothing of this neighbour for now."""
        return self._holding.holds_back(neighbour)

    # --- effects ------------------------------------------------------------------------------

    def _carry_out(
        self, effects: Iterable[Effect], now_us: int, ack_tracker: AckTracker | None
    ) -> bool:
        """Return whether something was delivered to a client of this broker."""
        own, is_delivered = ack_tracker, False
        for effect in effects:
            kind = type(effect)
            if kind is Send:
                self._send_confirmed(effect, ack_tracker)  # type: ignore[arg-type]
            elif kind is Deliver:
                self._settling.has_delivered = is_delivered = True
                self._delivering.deliver(effect, now_us)  # type: ignore[arg-type]
            elif kind is Unsettled:
                if ack_tracker is not None:
                    ack_tracker.extend()
                    self._unsettled[effect.key] = ack_tracker  # type: ignore[union-attr,index]
            elif kind is Settled:
                settled = self._unsettled.pop(effect.key, None)  # type: ignore[union-attr,arg-type]
                if settled is not None:
                    self._settling.settle(settled, is_delivered=is_delivered)
            elif kind is Continue:
                input = effect.key  # type: ignore[union-attr]
                ack_tracker = own if input is None else self._unsettled.get(input)
            else:
                self._control(effect, now_us)
        return is_delivered

    def suspend_input(self, is_suspended: bool) -> None:
        """Suspend or resume the machine while deliveries to many clients take several slices.

        All other input of the machine waits meanwhile.
        """
        self._settling.is_delivering = is_suspended
        self._turns.pause(is_suspended)

    def _send_confirmed(self, effect: Send, ack_tracker: AckTracker | None) -> None:
        if effect.message.confirms:
            self.recording.confirm(partial(self._send_now, effect, ack_tracker))
        else:
            self._send_now(effect, ack_tracker)

    def _send_now(self, effect: Send, ack_tracker: AckTracker | None) -> None:
        assert self.links is not None
        self.counts["messages_out"] += 1
        if ack_tracker is not None and not self._is_kept(effect.message):
            ack_tracker = None
        try:
            self.links.send(effect.neighbour, effect.message, ack_tracker)
        except WireError as error:
            # Front ends check clients' input; a lost message here is better than a lost broker.
            self.counts["unwritable"] += 1
            _log.error("a message is lost", extra={"to": effect.neighbour, "problem": str(error)})

    def _is_kept(self, message: Message) -> bool:
        """Return whether a neighbour says when it is settled there: both ends of a link must
        agree.
        """
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

    def _control_link(self, effect: Effect, links: NodeLinks) -> None:
        match effect:
            case LinkReady(neighbour):
                links.ready(neighbour)
                self._report_link(neighbour, True)
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
        """Flush once the loop has served all ready sockets."""
        self._flushing.schedule()

    def flush(self) -> None:
        """Settle gathered deliveries, then write them out, each socket once."""
        self._turns.finish()
        self._flushing.flush()

    @property
    def is_ready(self) -> bool:
        """Return whether clients' publications need not wait for neighbours' tables."""
        return self._is_ready

    @property
    def is_holding(self) -> bool:
        """Return whether no requests should be brought."""
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

    def attach(self, name: ClientId, client: NodeClient) -> None:
        """Deliver to this client from now on; one of that name before is replaced."""
        self._delivering.attach(name, client)

    def detach(self, name: ClientId) -> None:
        self._delivering.detach(name)

    def client(self, name: ClientId) -> NodeClient | None:
        """Return the destination of this client's deliveries."""
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
                self._report_link(change.neighbour, False)

    def returned(self, neighbour: BrokerId, carriers: Iterable[tuple[Carrier, AckTracker]]) -> None:
        """Take back messages that a neighbour had not acknowledged when its link was given up."""
        for carrier, ack_tracker in carriers:
            self.counts["publications_returned"] += len(carrier.publications)
            self.bring(Returned(neighbour, carrier), ack_tracker=ack_tracker)

    def _report_link(self, neighbour: BrokerId, is_ready: bool) -> None:
        for tell in self.at_link:
            tell(neighbour, is_ready)
