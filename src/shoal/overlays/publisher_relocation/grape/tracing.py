"""Tracing of publications: the notes of each broker about a trace session (relocation paper, 4.1).

A traced publication is marked with the message ID of the first of its session; a broker that
handles it notes whether it delivered it (one bit), to how many local subscribers, and to which
neighbours it went. On request of the publisher's broker, the request follows the same neighbours
down, and the answers come back up joined, one message per link.

If subscribers move, too, a broker also notes which of its clients got which publications, and the
traces of the whole session take the path of the request, one more message per link.

Only the newest session of a publisher is kept, so memory is bounded by the number of publishers,
even if a session is abandoned; if subscribers move, the newest requested one is kept, too.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

from shoal.broker.effects import Effect, MeasuredDelays, Send
from shoal.broker.messages import RoutedPublication
from shoal.broker.strategy import ProtocolError
from shoal.model import BrokerId, ClientId, MessageId
from shoal.overlays.publisher_relocation.capacity import Capacity
from shoal.overlays.publisher_relocation.grape.messages import (
    SessionTraces,
    TraceInformationAnswer,
    TraceInformationRequest,
)
from shoal.overlays.publisher_relocation.grape.parameters import MAX_TRACE_SESSION_LENGTH
from shoal.overlays.publisher_relocation.traces import BrokerTrace
from shoal.overlays.tree.routes import Route

_COUNT_BYTES = 8


class _GrapeTrace:
    """One broker's notes of a session: which of its publications took which route.

    Bit d means that publication M+d did.
    """

    __slots__ = ("_took", "had", "session", "took", "upstream")

    def __init__(self, session: MessageId, upstream: BrokerId | None) -> None:
        self.session = session
        # Their upstream neighbour, and the publications of each route with one; `_took` has all, by
        # upstream neighbour.
        self.upstream = upstream
        self.took: dict[Route, int] = {}
        self._took = {upstream: self.took}
        # Publications of each local client, if subscribers move.
        self.had: dict[ClientId, int] = {}

    def turn(self, upstream: BrokerId | None) -> None:
        """They come from elsewhere now."""
        self.upstream = upstream
        self.took = self._took.setdefault(upstream, {})

    @property
    def downstream(self) -> set[BrokerId]:
        found: set[BrokerId] = set()
        for upstream, took in self._took.items():
            names: set[BrokerId] = set()
            for route in took:
                names.update(route.neighbours)
            if upstream is not None:
                names.discard(upstream)
            found |= names
        return found

    @property
    def bits(self) -> int:
        """Those that were delivered here."""
        found = 0
        for took in self._took.values():
            for route, bits in took.items():
                if route.clients:
                    found |= bits
        return found

    @property
    def deliveries(self) -> int:
        went = (pair for took in self._took.values() for pair in took.items())
        return sum(bits.bit_count() * len(route.clients) for route, bits in went)


class _Retrieval:
    """A session with outstanding answers; `upstream` is None at the publisher's broker."""

    __slots__ = ("gathered", "session", "upstream", "waiting")

    def __init__(
        self, session: MessageId, upstream: BrokerId | None, waiting: set[BrokerId]
    ) -> None:
        self.session = session
        self.upstream = upstream
        self.waiting = waiting
        self.gathered: list[BrokerTrace] = []


class GrapeTracing:
    """The trace sessions that one broker sees."""

    def __init__(
        self,
        broker: BrokerId,
        neighbours: Sequence[BrokerId],
        *,
        by_client: bool = False,
        capacity: Capacity | None = None,
    ) -> None:
        """With a capacity, its figures are in the answers."""
        self._capacity = capacity
        self._broker = broker
        self._by_client = by_client
        self._traces: dict[ClientId, _GrapeTrace] = {}
        # Notes of sessions whose traces are to come.
        self._untold: dict[ClientId, _GrapeTrace] = {}
        self._retrievals: dict[ClientId, _Retrieval] = {}
        self._input_queue_us = 0
        self._matching_us = 0
        self._output_us = dict.fromkeys(neighbours, 0)
        self._neighbours = frozenset(neighbours)
        self._client_output_us = 0

    def measured(self, measured: MeasuredDelays) -> None:
        """Keep the monitor's newest averages; missing ones stay as they were."""
        if measured.input_queue_us is not None:
            self._input_queue_us = measured.input_queue_us
        if measured.matching_us is not None:
            self._matching_us = measured.matching_us
        self._output_us.update(measured.output_us)
        if measured.client_output_us is not None:
            self._client_output_us = measured.client_output_us

    def link(self, neighbour: BrokerId, up: bool) -> None:
        """The link to a neighbour came up or went down: answers contain the neighbours."""
        others = self._neighbours - {neighbour}
        self._neighbours = others | {neighbour} if up else others
        self._output_us = dict.fromkeys(self._neighbours, 0) | {
            name: self._output_us[name] for name in others
        }

    def is_linked(self, neighbour: BrokerId) -> bool:
        """Whether the link to a neighbour is up."""
        return neighbour in self._neighbours

    def note(
        self,
        routed: RoutedPublication,
        route: Route,
        upstream: BrokerId | None,
        _now_us: int,
        _out: list[Effect],
    ) -> None:
        """A publication, traced or not, came from upstream and went this way."""
        mark = routed.mark
        if mark is None:
            return
        _, publisher, first = mark  # a named tuple's names are found slowly
        trace = self._traces.get(publisher)
        if trace is None or trace.session is not mark:
            trace = self._trace(mark, upstream)
        if trace.upstream != upstream:
            trace.turn(upstream)
        _, _, number = routed.message_id
        offset = number - first
        if 0 <= offset < MAX_TRACE_SESSION_LENGTH:  # else a peer's garbage
            took, bit = trace.took, 1 << offset
            took[route] = took.get(route, 0) | bit
            if self._by_client:
                for client, _ in route.clients:
                    trace.had[client] = trace.had.get(client, 0) | bit

    def _trace(self, session: MessageId, upstream: BrokerId | None) -> _GrapeTrace:
        trace = self._traces.get(session.publisher)
        if trace is None or (trace.session is not session and trace.session != session):
            # A newer session: the gathering of an older one's answers is given up.
            self._retrievals.pop(session.publisher, None)
            trace = self._traces[session.publisher] = _GrapeTrace(session, upstream)
        return trace

    def retrieve(
        self, session: MessageId, upstream: BrokerId | None, out: list[Effect]
    ) -> tuple[BrokerTrace, ...] | None:
        """Request a session downstream.

        Returns the answers at once if there is no downstream broker.

        With an `upstream` the joined answer is sent there, and None returned.
        """
        # A former neighbour cannot answer.
        waiting = self._trace(session, upstream).downstream & self._neighbours - {upstream}
        retrieval = _Retrieval(session, upstream, waiting)
        self._retrievals[session.publisher] = retrieval
        out.extend(Send(name, TraceInformationRequest(session)) for name in sorted(waiting))
        return self._finish(retrieval, out)

    def on_answer(
        self, neighbour: BrokerId, message: TraceInformationAnswer, out: list[Effect]
    ) -> tuple[BrokerTrace, ...] | None:
        """Add a neighbour's answer.

        Returns all of them after the last one at the publisher's broker.
        """
        retrieval = self._retrievals.get(message.session.publisher)
        if retrieval is None or retrieval.session != message.session:
            return None  # an answer to an abandoned session
        if neighbour not in retrieval.waiting:
            raise ProtocolError(f"{neighbour} was not asked about session {message.session}")
        retrieval.waiting.discard(neighbour)
        retrieval.gathered.extend(message.traces)
        return self._finish(retrieval, out)

    def _finish(self, retrieval: _Retrieval, out: list[Effect]) -> tuple[BrokerTrace, ...] | None:
        if retrieval.waiting:
            return None
        session = retrieval.session
        own = self._traces.pop(session.publisher)
        if self._by_client:
            self._untold[session.publisher] = own
        traces = (self._payload(own), *retrieval.gathered)
        del self._retrievals[session.publisher]
        if retrieval.upstream is None:
            return traces
        # a broker that has gone meanwhile needs no answer
        if retrieval.upstream in self._neighbours:
            out.append(Send(retrieval.upstream, TraceInformationAnswer(session, traces)))
        return None

    def forward(self, message: SessionTraces, out: list[Effect]) -> Mapping[ClientId, int]:
        """Forward the traces of a whole session.

        Returns the publications of local clients in it.
        """
        own = self._untold.get(message.session.publisher)
        if own is None or own.session != message.session:
            return {}
        del self._untold[message.session.publisher]
        out.extend(Send(name, message) for name in sorted(own.downstream & self._neighbours))
        return own.had

    def untold(self, client: ClientId) -> int:
        """Number of a local client's traced publications in sessions without traces here yet."""
        traces = (*self._traces.values(), *self._untold.values())
        return sum(trace.had.get(client, 0).bit_count() for trace in traces)

    def forget(self, publisher: ClientId) -> None:
        """Drop the notes about a publisher (it left, or its session was given up)."""
        self._traces.pop(publisher, None)
        self._untold.pop(publisher, None)
        self._retrievals.pop(publisher, None)

    def keep_only(self, publishers: Container[ClientId]) -> None:
        """Drop the notes about all other publishers, which are gone."""
        for publisher in [
            name for name in (*self._traces, *self._untold) if name not in publishers
        ]:
            self.forget(publisher)

    @property
    def held_bytes(self) -> int:
        """Size of the traces: session ID, bit vector, count of deliveries, downstream brokers."""
        held = 0
        for trace in self._traces.values():
            held += len(str(trace.session)) + (trace.bits.bit_length() + 7) // 8 + _COUNT_BYTES
            for name in trace.downstream:
                held += len(name)
        for trace in (*self._traces.values(), *self._untold.values()):
            for client, bits in trace.had.items():
                held += len(client) + (bits.bit_length() + 7) // 8
        return held

    def _payload(self, trace: _GrapeTrace) -> BrokerTrace:
        neighbours = tuple(sorted(self._neighbours))
        return BrokerTrace(
            broker=self._broker,
            neighbours=neighbours,
            bits=trace.bits,
            deliveries=trace.deliveries,
            input_queue_us=self._input_queue_us,
            matching_us=self._matching_us,
            output_queue_us=tuple((name, self._output_us[name]) for name in neighbours),
            client_output_us=self._client_output_us,
            busy_percent=0 if self._capacity is None else self._capacity.promised_percent,
            served_us=0 if self._capacity is None else round(self._capacity.served_us),
        )
