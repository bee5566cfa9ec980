"""GRAPE at one broker: trace, ask, choose, move (relocation paper, section 4 and 3.3).

Routing is the tree's. At a publisher's edge broker a session runs through the states below, again
and again; at the brokers downstream there is only tracing, and on a migration's path the migration.
The edge broker makes all decisions: if it is lost, the publisher's next broker starts afresh.

    state       event                   next state
    tracing     session full            retrieving   trace information requests go downstream
    retrieving  all answered            pinging      the publisher is asked for ping times
    retrieving  all answered            moving | tracing    when no ping times are needed
    pinging     ping times came         moving | tracing
    retrieving  timeout                 tracing      the session is given up
    pinging     timeout                 tracing      the session is given up
    moving      marker came             (gone: the publisher is the target's now)

Between sessions nothing is traced, so every publication costs at most one session's tracing.

If subscribers move (`moves`), the traces of a session go down to the brokers that it has passed,
before its publisher is sent away; these decide on their clients (`subscribers/`). If publishers do
not move, a session ends when all have answered.
"""

from __future__ import annotations

import enum
from collections.abc import Container

from shoal.broker.effects import (
    CancelTimer,
    Effect,
    MeasuredDelays,
    Notify,
    Record,
    SetTimer,
    TimerKey,
    WatchDelays,
)
from shoal.broker.messages import Message, RoutedPublication
from shoal.broker.strategy import BrokerContext, ProtocolError, unexpected
from shoal.clients.front_ends import DeliveriesReported, StandsFor
from shoal.clients.messages import PingRequest, PingTimes
from shoal.model import BrokerId, ClientId, MessageId
from shoal.overlays.publisher_relocation.grape.messages import (
    SessionTraces,
    TraceInformationAnswer,
    TraceInformationRequest,
)
from shoal.overlays.publisher_relocation.grape.parameters import GrapeParameters
from shoal.overlays.publisher_relocation.grape.planner import (
    GrapeDecision,
    Shortlist,
    Snapshot,
    choose,
    shortlist,
)
from shoal.overlays.publisher_relocation.grape.tracing import GrapeTracing
from shoal.overlays.publisher_relocation.records import SelectionRecord
from shoal.overlays.publisher_relocation.subscribers.behind_front_ends import BehindFrontEnds
from shoal.overlays.publisher_relocation.subscribers.moving import TIMER as SUBSCRIBER_TIMER
from shoal.overlays.publisher_relocation.subscribers.moving import MovingSubscribers, MovingTerms
from shoal.overlays.publisher_relocation.subscribers.planner import PlannedSession
from shoal.overlays.publisher_relocation.tracer import SendAway
from shoal.overlays.publisher_relocation.traces import BrokerTrace
from shoal.overlays.tree.forwarding import Note


class GrapeState(enum.Enum):
    """The state of a publisher's session."""

    TRACING = "tracing"
    RETRIEVING = "retrieving"
    PINGING = "pinging"
    MOVING = "moving"


class _Session:
    """One publisher's session at its first broker."""

    __slots__ = (
        "answered_us",
        "count",
        "id",
        "remaining",
        "requested_us",
        "snapshot",
        "started_us",
        "state",
    )

    def __init__(self, first: MessageId, now_us: int) -> None:
        self.id = first
        self.state = GrapeState.TRACING
        self.count = 0
        self.started_us = now_us
        self.requested_us = 0
        self.answered_us = 0
        self.snapshot: Snapshot | None = None
        self.remaining: Shortlist | None = None


class Grape:
    """The tracer of a tree that moves its publishers to the broker that a session shows to be
    best.
    """

    def __init__(
        self, context: BrokerContext, parameters: GrapeParameters, send_away: SendAway
    ) -> None:
        self._broker = context.broker
        self._parameters = parameters
        self._send_away = send_away
        self.traces = GrapeTracing(
            context.broker, context.neighbours, by_client=parameters.subscribers_move
        )
        self._sessions: dict[ClientId, _Session] = {}
        # Those that publish here: they move as publishers, or not at all.
        self._publishers: set[ClientId] = set()
        terms = MovingTerms(
            parameters.trace_session_length,
            parameters.priority,
            parameters.weight,
            parameters.least_gain_percent,
            parameters.ping_timeout_us,
        )
        self._behind = BehindFrontEnds()
        self._subscribers = MovingSubscribers(
            context.broker, terms, self._untold, self._behind.front_end_of
        )

    # --- events of the relocation -------------------------------------------------------------

    @property
    def held_bytes(self) -> int:
        return self.traces.held_bytes

    def start(self, out: list[Effect]) -> None:
        out.append(WatchDelays())

    def mark(
        self, publisher: ClientId, publications: tuple[RoutedPublication, ...], now_us: int
    ) -> tuple[RoutedPublication, ...]:
        """Mark those that belong to the publisher's session, which starts with the first."""
        session = self._sessions.get(publisher)
        if session is None:
            self._publishers.add(publisher)
            session = self._sessions[publisher] = _Session(publications[0].message_id, now_us)
        if session.state is not GrapeState.TRACING:
            return publications
        space = self._parameters.trace_session_length - session.count
        session.count += min(space, len(publications))
        traced = (
            RoutedPublication(routed.publication, routed.message_id, session.id)
            for routed in publications[:space]
        )
        return (*traced, *publications[space:])

    @property
    def note(self) -> Note:
        return self.traces.note

    def published(self, publisher: ClientId, now_us: int, out: list[Effect]) -> None:
        self._retrieve_when_full(publisher, now_us, out)

    def receive(
        self, neighbour: BrokerId, message: Message, now_us: int, out: list[Effect]
    ) -> None:
        match message:
            case TraceInformationRequest(session):
                self.traces.retrieve(session, neighbour, out)
            case TraceInformationAnswer():
                traces = self.traces.on_answer(neighbour, message, out)
                if traces is not None:
                    self._answered(message.session, traces, now_us, out)
            case SessionTraces():
                self._on_traces(message, now_us, out)
            case _:
                raise unexpected(message, f"neighbour {neighbour}")

    def request(self, client: ClientId, request: Message, now_us: int, out: list[Effect]) -> None:
        match request:
            case PingTimes():
                self._pinged(client, request, now_us, out)
            case StandsFor() if self._parameters.subscribers_move:
                self._behind.add(client)
            case DeliveriesReported() if client in self._behind:
                self._had(client, request, now_us, out)
            case _:
                raise unexpected(request, f"client {client}")

    def _pinged(
        self, speaker: ClientId, request: PingTimes, now_us: int, out: list[Effect]
    ) -> None:
        client = request.session.publisher
        if speaker != client and self._behind.front_end_of(client) != speaker:
            raise ProtocolError(f"session {request.session} is not one of {speaker}")
        if self._subscribers.pinged(client, request, now_us, out):
            return
        session = self._session(request.session, GrapeState.PINGING)
        if session is not None:
            self._decide(session, dict(request.round_trip_us), now_us, out)

    def timer(self, key: TimerKey, now_us: int, out: list[Effect]) -> None:
        """A session waited too long for answers or ping times: give it up."""
        if key[0] == SUBSCRIBER_TIMER:
            self._subscribers.timer(key[1])
            return
        publisher = key[1]
        self.traces.forget(publisher)
        self._sessions.pop(publisher, None)

    def measured(self, measured: MeasuredDelays) -> None:
        self.traces.measured(measured)

    def link(
        self,
        neighbour: BrokerId,
        up: bool,
        publishers: Container[ClientId],
        now_us: int,
        out: list[Effect],
    ) -> None:
        self.traces.link(neighbour, up)
        self.traces.keep_only(publishers)

    def left(self, publisher: ClientId, out: list[Effect]) -> None:
        self._publishers.discard(publisher)
        self.traces.forget(publisher)
        if self._sessions.pop(publisher, None) is not None:
            out.append(CancelTimer(_timer(publisher)))

    def changed(self, publisher: ClientId, out: list[Effect]) -> None:
        """End the publisher's session, unless it is moving: then its marker ends it."""
        session = self._sessions.get(publisher)
        if session is None or session.state is not GrapeState.MOVING:
            self.left(publisher, out)

    def turned(self, publisher: ClientId, out: list[Effect]) -> None:
        """A session continues: its traces do not depend on the publisher's place."""

    def gone(self, publisher: ClientId, out: list[Effect]) -> None:
        self.traces.forget(publisher)

    def wants(self, client: ClientId, out: list[Effect]) -> None:
        self._subscribers.changed(client, out)

    # --- phase 1: retrieve --------------------------------------------------------------------

    def _retrieve_when_full(self, client: ClientId, now_us: int, out: list[Effect]) -> None:
        session = self._sessions.get(client)
        if session is None or session.state is not GrapeState.TRACING:
            return
        if session.count < self._parameters.trace_session_length:
            return
        session.state = GrapeState.RETRIEVING
        session.requested_us = now_us
        out.append(SetTimer(_timer(client), now_us + self._parameters.answer_timeout_us))
        traces = self.traces.retrieve(session.id, None, out)
        if traces is not None:
            self._answered(session.id, traces, now_us, out)

    # --- phase 2: choose ----------------------------------------------------------------------

    def _answered(
        self,
        session_id: MessageId,
        traces: tuple[BrokerTrace, ...],
        now_us: int,
        out: list[Effect],
    ) -> None:
        session = self._session(session_id, GrapeState.RETRIEVING)
        if session is None:
            return
        session.answered_us = now_us
        session.snapshot = Snapshot(current=self._broker, traces=traces)
        parameters = self._parameters
        if not parameters.publishers_move or session_id.publisher in self._behind:
            del self._sessions[session_id.publisher]
            self._send_traces(session, self._broker, now_us, out)
            return
        try:
            session.remaining = shortlist(session.snapshot, parameters.priority, parameters.weight)
        except ValueError:  # the tree changed under the session: its answers do not fit together
            self.left(session_id.publisher, out)
            return
        if not session.remaining.needs_pings:
            self._decide(session, {}, now_us, out)
            return
        session.state = GrapeState.PINGING
        # The current broker's is requested too, so that staying is weighed by the same measure.
        brokers = tuple(dict.fromkeys((*session.remaining.candidates, self._broker)))
        publisher = session_id.publisher
        out.append(SetTimer(_timer(publisher), now_us + parameters.ping_timeout_us))
        out.append(Notify(publisher, PingRequest(session_id, brokers)))

    def _decide(
        self,
        session: _Session,
        round_trip_us: dict[BrokerId, int],
        now_us: int,
        out: list[Effect],
    ) -> None:
        assert session.snapshot is not None and session.remaining is not None  # noqa: PT018
        publisher = session.id.publisher
        one_way_us = {broker: time_us // 2 for broker, time_us in round_trip_us.items()}
        try:
            decision = choose(
                session.snapshot,
                session.remaining,
                one_way_us,
                self._parameters.least_gain_percent,
            )
        except ValueError:  # ping times of brokers that were not requested
            self.left(publisher, out)
            return
        out.append(CancelTimer(_timer(publisher)))
        out.append(Record(self._record(session, decision, now_us)))
        self._send_traces(session, decision.target, now_us, out)
        if decision.target == self._broker:
            del self._sessions[publisher]
            return
        session.state = GrapeState.MOVING
        self._send_away(publisher, decision.path, now_us, out)

    # --- subscribers --------------------------------------------------------------------------

    def _send_traces(
        self, session: _Session, entry: BrokerId, now_us: int, out: list[Effect]
    ) -> None:
        """Send the traces of a session that a publisher will enter at `entry`."""
        assert session.snapshot is not None
        if self._parameters.subscribers_move:
            self._on_traces(SessionTraces(session.id, entry, session.snapshot.traces), now_us, out)

    def _on_traces(self, message: SessionTraces, now_us: int, out: list[Effect]) -> None:
        had = self.traces.forward(message, out)
        session = PlannedSession(message.entry, message.traces)
        publisher = message.session.publisher
        staying = self._publishers | self._behind.front_ends
        self._subscribers.on_traces(publisher, session, had, staying, now_us, out)
        self._behind.ask(message.session, session, had, out)

    def _had(
        self, front_end: ClientId, said: DeliveriesReported, now_us: int, out: list[Effect]
    ) -> None:
        """A front end reports the deliveries of its clients."""
        for client in self._behind.gone(front_end, said):
            self._subscribers.changed(client, out)
        asked = self._behind.on_answer(front_end, said)
        if asked is not None:
            session, others = asked
            publisher = said.session.publisher
            self._subscribers.on_traces(
                publisher,
                session,
                said.had,
                self._publishers,
                now_us,
                out,
                others=others | said.others,
                times=said.times,
            )

    def _untold(self, client: ClientId) -> int:
        """Number of a client's traced publications in sessions without traces here yet."""
        return self.traces.untold(client) + self._behind.untold(client)

    def _record(self, session: _Session, decision: GrapeDecision, now_us: int) -> SelectionRecord:
        return SelectionRecord(
            publisher=session.id.publisher,
            broker=self._broker,
            started_us=session.started_us,
            requested_us=session.requested_us,
            answered_us=session.answered_us,
            decided_us=now_us,
            candidates=decision.candidates,
            target=decision.target,
            rate_now=decision.rate_now,
            rate_target=decision.rate_target,
            delay_now_us=decision.delay_now_us,
            delay_target_us=decision.delay_target_us,
            weight=decision.weight,
        )

    # --- sessions -----------------------------------------------------------------------------

    def _session(self, session_id: MessageId, state: GrapeState) -> _Session | None:
        """The session of that id if it is in that state; answers to others came too late."""
        session = self._sessions.get(session_id.publisher)
        if session is None or session.id != session_id or session.state is not state:
            return None
        return session


def _timer(publisher: ClientId) -> TimerKey:
    return "session", publisher
