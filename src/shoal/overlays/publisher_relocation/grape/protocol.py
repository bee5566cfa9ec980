"""GRAPE at one broker: trace, ask, choose, move (relocation paper, section 4 and 3.3).

Routing is the tree's. At a publisher's edge broker a session runs through the states below, again
and again; at the brokers downstream there is only tracing, and on a migration's path the migration.
The edge broker makes all decisions: if it is lost, the publisher's next broker starts afresh.

    state       event                   next state
    tracing     session full            retrieving   trace information requests go downstream
    retrieving  all answered            pinging      the publisher is asked for ping times
    retrieving  all answered            asking | tracing    when no ping times are needed
    pinging     ping times came         asking | tracing
    asking      the target has room     moving
    asking      it has none             pinging | asking | tracing    without that target
    any         timeout                 tracing      the session is given up
    moving      marker came             (gone: the publisher is the target's now)

Between sessions nothing is traced, so every publication costs at most one session's tracing.

The target is asked whether it has room (`capacity.py`): of publishers with decisions at the same
time, only as many move there as it can take. A target that has not measured itself is not asked.

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
    Send,
    SetTimer,
    TimerKey,
    WatchDelays,
)
from shoal.broker.messages import Message, RoutedPublication
from shoal.broker.strategy import BrokerContext, ProtocolError, unexpected
from shoal.clients.front_ends import DeliveriesReported, StandsFor
from shoal.clients.messages import PingRequest, PingTimes
from shoal.model import BrokerId, ClientId, MessageId
from shoal.overlays.publisher_relocation.capacity import Capacity, PublisherLoad, rate_per_s
from shoal.overlays.publisher_relocation.grape.messages import (
    PlaceAnswer,
    PlaceRequest,
    SessionTraces,
    TraceInformationAnswer,
    TraceInformationRequest,
)
from shoal.overlays.publisher_relocation.grape.parameters import GrapeParameters
from shoal.overlays.publisher_relocation.grape.planner import (
    GrapeDecision,
    RoomTerms,
    Shortlist,
    Snapshot,
    choose,
    passing,
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

# Targets without room that one session asks before its publisher stays.
MOST_ASKED = 4


class GrapeState(enum.Enum):
    """The state of a publisher's session."""

    TRACING = "tracing"
    RETRIEVING = "retrieving"
    PINGING = "pinging"
    ASKING = "asking"
    MOVING = "moving"


class _Session:
    """One publisher's session at its first broker."""

    __slots__ = (
        "answered_us",
        "count",
        "decision",
        "id",
        "refused",
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
        self.decision: GrapeDecision | None = None
        # Brokers that had no room for the publisher.
        self.refused: list[BrokerId] = []

    @property
    def per_s(self) -> float:
        """The publisher's rate in the session: publications per second."""
        return rate_per_s(self.count, self.requested_us - self.started_us)


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
        self.capacity = Capacity(parameters.most_busy_percent)
        self.traces = GrapeTracing(
            context.broker,
            context.neighbours,
            by_client=parameters.subscribers_move,
            capacity=self.capacity,
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

    @property
    def only_notes(self) -> bool:
        return not self._parameters.subscribers_move

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
            case PlaceRequest():
                self._place_requested(neighbour, message, out)
            case PlaceAnswer():
                self._place_answered(neighbour, message, now_us, out)
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
            self._choose_target(session, dict(request.round_trip_us), now_us, out)

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
        self.capacity.measured(measured)

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
            self._shortlist(session, now_us, out)
        except ValueError:  # the tree changed under the session: its answers do not fit together
            self.left(session_id.publisher, out)

    def _shortlist(self, session: _Session, now_us: int, out: list[Effect]) -> None:
        """Decide, or ask for ping times first.  ValueError for answers that are no tree."""
        assert session.snapshot is not None
        parameters = self._parameters
        session.remaining = shortlist(
            session.snapshot, parameters.priority, parameters.weight, self._room(session)
        )
        if not session.remaining.needs_pings:
            self._choose_target(session, {}, now_us, out)
            return
        session.state = GrapeState.PINGING
        # The current broker's is requested too, so that staying is weighed by the same measure.
        brokers = tuple(dict.fromkeys((*session.remaining.candidates, self._broker)))
        publisher = session.id.publisher
        out.append(SetTimer(_timer(publisher), now_us + parameters.ping_timeout_us))
        out.append(Notify(publisher, PingRequest(session.id, brokers)))

    def _room(self, session: _Session) -> RoomTerms | None:
        most_busy = self.capacity.most_busy
        if most_busy >= 1:
            return None
        return RoomTerms(
            per_s=session.per_s,
            traced=session.count,
            most_busy=most_busy,
            refused=session.refused,
        )

    def _choose_target(
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
        if decision.target != self._broker and self._asks(session, decision, now_us, out):
            return
        self._move_publisher(session, decision, now_us, out)

    def _move_publisher(
        self, session: _Session, decision: GrapeDecision, now_us: int, out: list[Effect]
    ) -> None:
        """End the session: the publisher moves, or stays."""
        publisher = session.id.publisher
        out.append(Record(self._record(session, decision, now_us)))
        self._send_traces(session, decision.target, now_us, out)
        if decision.target == self._broker:
            del self._sessions[publisher]
            return
        session.state = GrapeState.MOVING
        self._send_away(publisher, decision.path, now_us, out)

    # --- room at the target -------------------------------------------------------------------

    def _asks(
        self, session: _Session, decision: GrapeDecision, now_us: int, out: list[Effect]
    ) -> bool:
        """Ask the target for a place; returns whether it can answer."""
        assert session.snapshot is not None
        target = next(row for row in session.snapshot.traces if row.broker == decision.target)
        if self.capacity.most_busy >= 1 or not target.served_us:
            return False
        session.state = GrapeState.ASKING
        session.decision = decision
        share = passing(session.snapshot, session.count)[decision.target]
        request = PlaceRequest(session.id, decision.path, session.per_s, share)
        timeout_us = self._parameters.answer_timeout_us
        out.append(SetTimer(_timer(session.id.publisher), now_us + timeout_us))
        self._send_on(decision.path[1], request, out)
        return True

    def _place_requested(
        self, neighbour: BrokerId, request: PlaceRequest, out: list[Effect]
    ) -> None:
        path, here = request.path, _place_on(request.path, self._broker)
        if here < 1 or path[here - 1] != neighbour:
            raise ProtocolError(f"{neighbour} cannot ask {self._broker} over {path}")
        load = PublisherLoad(request.per_s, request.passing)
        if not load.is_possible:
            raise ProtocolError(f"{request.session.publisher} cannot have the load {load}")
        if here + 1 < len(path):
            self._send_on(path[here + 1], request, out)
            return
        has_room = self.capacity.admit(request.session.publisher, load)
        out.append(Send(neighbour, PlaceAnswer(request.session, path, has_room)))

    def _place_answered(
        self, neighbour: BrokerId, answer: PlaceAnswer, now_us: int, out: list[Effect]
    ) -> None:
        path, here = answer.path, _place_on(answer.path, self._broker)
        if not 0 <= here < len(path) - 1 or path[here + 1] != neighbour:
            raise ProtocolError(f"{neighbour} cannot answer {self._broker} over {path}")
        if here:
            self._send_on(path[here - 1], answer, out)
            return
        session = self._session(answer.session, GrapeState.ASKING)
        if session is None or session.decision is None:
            return
        decision = session.decision
        if decision.path != path:
            return
        out.append(CancelTimer(_timer(session.id.publisher)))
        if answer.has_room:
            self._move_publisher(session, decision, now_us, out)
            return
        session.refused.append(decision.target)
        if len(session.refused) < MOST_ASKED:
            self._shortlist(session, now_us, out)
        else:
            self._move_publisher(session, decision.staying, now_us, out)

    def _send_on(
        self, neighbour: BrokerId, message: PlaceRequest | PlaceAnswer, out: list[Effect]
    ) -> None:
        """Send along a path, unless the tree has changed: then the asker's timeout ends it."""
        if self.traces.is_linked(neighbour):
            out.append(Send(neighbour, message))

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


def _place_on(path: tuple[BrokerId, ...], broker: BrokerId) -> int:
    """The place of a broker on a path that has each once; -1 if it has none."""
    return path.index(broker) if broker in path and len(set(path)) == len(path) else -1


def _timer(publisher: ClientId) -> TimerKey:
    return "session", publisher
