"""POP at one broker: trace some publications, ask from neighbour to neighbour, move.

Routing is the tree's. At a publisher's edge broker a publication is traced with a probability that
falls with the number already traced in the window; results come up the tree and leave averages at
every broker on the path. When there are enough and none is outstanding, a request goes to the
broker closest to most subscribers, the answer comes back, and the publisher migrates.

    state        event                      next state
    tracing      enough results, none out   requesting   a relocation request goes to the neighbour
                                                         that is closest, or the publisher stays
    requesting   answer: another broker     moving
    requesting   answer or timeout          tracing      from the first result on
    moving       marker came                (gone: the publisher is the target's now)

Nothing is traced while a request is in transit, so that it meets stable averages.

Tracing backs off (ours, `most_busy_percent`). Results say how busy the busiest broker is, and a
trace without a result in time shows that some broker is overloaded: above the limit fewer
publications are traced, down to one in a window, and as much fewer results decide; expired traces
count towards the decision as soon as there are as many results as the averages remember. The paper
traces on: then results overload brokers that publications alone do not, and no decision comes.

A broker without room for the publisher (`capacity.py`) returns the answer without itself, and its
predecessor on the path checks its own room.

Source: Cheung and Jacobsen, publisher relocation, section 3.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Container

from shoal.broker.effects import (
    CancelTimer,
    Effect,
    MeasuredDelays,
    Record,
    Send,
    SetTimer,
    TimerKey,
    WatchDelays,
)
from shoal.broker.messages import Message, RoutedPublication
from shoal.broker.strategy import BrokerContext, ProtocolError, unexpected
from shoal.model import BrokerId, ClientId
from shoal.overlays.publisher_relocation.capacity import (
    UNLIMITED,
    Capacity,
    PublisherLoad,
    rate_per_s,
)
from shoal.overlays.publisher_relocation.pop.messages import (
    RelocationAnswer,
    RelocationRequest,
    TraceResult,
)
from shoal.overlays.publisher_relocation.pop.parameters import PopParameters
from shoal.overlays.publisher_relocation.pop.tracing import TRACE_TIMER, PopTracing
from shoal.overlays.publisher_relocation.records import SelectionRecord
from shoal.overlays.publisher_relocation.tracer import SendAway
from shoal.overlays.tree.routes import Route

_REQUEST_TIMER = "request"


# The part of the usual traces that is left in a network that is overloaded: one in a window.
LEAST_SHARE = 0.02
# Traces of a publisher without a result yet: results that take long are a sign of load.
MOST_OUTSTANDING = 8


class PopState(enum.Enum):
    """The state of a publisher at its edge broker."""

    TRACING = "tracing"
    REQUESTING = "requesting"
    MOVING = "moving"


class _PublisherPlacement:
    """One publisher at its first broker."""

    __slots__ = (
        "busy_percent",
        "expired",
        "published",
        "requested_us",
        "results",
        "started_us",
        "state",
        "window_traced",
        "window_us",
    )

    def __init__(self, now_us: int) -> None:
        self.requested_us = 0
        self.busy_percent = 0
        self.window_us = now_us
        self.window_traced = 0
        self.restart(now_us)

    def restart(self, now_us: int) -> None:
        """Trace from the first result on; the window, which bounds the traces, continues."""
        self.state = PopState.TRACING
        self.results = self.expired = self.published = 0
        self.started_us = now_us

    @property
    def per_s(self) -> float:
        """The publisher's rate since the restart: publications per second."""
        return rate_per_s(self.published, self.requested_us - self.started_us)


class Pop:
    """The tracer of a tree that moves its publishers towards most of their subscribers."""

    def __init__(
        self, context: BrokerContext, parameters: PopParameters, send_away: SendAway
    ) -> None:
        self._broker = context.broker
        self._neighbours = set(context.neighbours)
        self._random = context.random
        self._parameters = parameters
        self._send_away = send_away
        self.capacity = Capacity(parameters.most_busy_percent)
        self.traces = PopTracing(parameters, self.capacity)
        # As many results as a running average of this weight remembers.
        remembered = math.ceil(200 / parameters.average_weight_percent) - 1
        self._least_results = min(parameters.threshold, remembered)
        self._placements: dict[ClientId, _PublisherPlacement] = {}

    # --- events of the relocation -------------------------------------------------------------

    @property
    def held_bytes(self) -> int:
        return self.traces.held_bytes

    def start(self, out: list[Effect]) -> None:
        if self._parameters.most_busy_percent < UNLIMITED:
            out.append(WatchDelays())

    def mark(
        self, publisher: ClientId, publications: tuple[RoutedPublication, ...], now_us: int
    ) -> tuple[RoutedPublication, ...]:
        """Each that is marked is a trace of its own."""
        placement = self._placements.get(publisher)
        if placement is None:
            placement = self._placements[publisher] = _PublisherPlacement(now_us)
        if placement.state is not PopState.TRACING:
            return publications
        parameters = self._parameters
        placement.published += len(publications)
        if now_us - placement.window_us >= parameters.trace_window_us:
            placement.window_us, placement.window_traced = now_us, 0
        outstanding = self.traces.outstanding(publisher)
        wanted = self._missing(placement) - outstanding
        if parameters.most_busy_percent < UNLIMITED:
            wanted = min(wanted, MOST_OUTSTANDING - outstanding)
        most = max(1.0, parameters.window_publications * self._share(placement))
        marked = []
        for routed in publications:
            probability = 1 - placement.window_traced / most
            if wanted > 0 and self._random.random() < probability:
                wanted -= 1
                placement.window_traced += 1
                routed = RoutedPublication(routed.publication, routed.message_id, routed.message_id)
            marked.append(routed)
        return tuple(marked)

    def note(
        self,
        routed: RoutedPublication,
        route: Route,
        upstream: BrokerId | None,
        now_us: int,
        out: list[Effect],
    ) -> None:
        if routed.mark is not None and self.traces.note(routed, route, upstream, now_us, out):
            self._traced(routed.publication.publisher, now_us, out)

    @property
    def only_notes(self) -> bool:
        return False

    def published(self, publisher: ClientId, now_us: int, out: list[Effect]) -> None:
        """They were noted, and that is all."""

    def receive(
        self, neighbour: BrokerId, message: Message, now_us: int, out: list[Effect]
    ) -> None:
        if type(message) is TraceResult:
            if self.traces.result(neighbour, message, out):
                self._traced(message.publication.publisher, now_us, out)
            return
        match message:
            case RelocationRequest():
                self._requested(neighbour, message, out)
            case RelocationAnswer():
                self._answered(neighbour, message, now_us, out)
            case _:
                raise unexpected(message, f"neighbour {neighbour}")

    def request(self, client: ClientId, request: Message, now_us: int, out: list[Effect]) -> None:
        """ProtocolError: POP has no requests of clients."""
        raise unexpected(request, f"client {client}")

    def timer(self, key: TimerKey, now_us: int, out: list[Effect]) -> None:
        """Results or an answer did not come in time: continue without."""
        kind, publisher = key
        if kind == TRACE_TIMER:
            self._expired(publisher, self.traces.expire(publisher, now_us, out))
            self._request_when_ready(publisher, now_us, out)
            return
        placement = self._placements.get(publisher)
        if placement is not None and placement.state is PopState.REQUESTING:
            placement.restart(now_us)

    def measured(self, measured: MeasuredDelays) -> None:
        self.capacity.measured(measured)

    def link(
        self,
        neighbour: BrokerId,
        up: bool,
        publishers: Container[ClientId],
        now_us: int,
        out: list[Effect],
    ) -> None:
        self._neighbours.discard(neighbour)
        if up:
            self._neighbours.add(neighbour)
        self.traces.relinked(neighbour)
        self.traces.keep_only(publishers, out)
        for publisher in list(self._placements):
            self._request_when_ready(publisher, now_us, out)

    def left(self, publisher: ClientId, out: list[Effect]) -> None:
        placement = self._placements.pop(publisher, None)
        if placement is not None and placement.state is PopState.REQUESTING:
            out.append(CancelTimer(_timer(publisher)))

    def changed(self, publisher: ClientId, out: list[Effect]) -> None:
        placement = self._placements.get(publisher)
        if placement is None or placement.state is not PopState.MOVING:
            self.left(publisher, out)
            self.traces.forget(publisher, out)

    def turned(self, publisher: ClientId, out: list[Effect]) -> None:
        """Upstream and downstream have changed: the averages are void (3.3)."""
        self.traces.forget(publisher, out)

    def gone(self, publisher: ClientId, out: list[Effect]) -> None:
        self.traces.forget(publisher, out)

    def wants(self, client: ClientId, out: list[Effect]) -> None:
        """Subscribers stay where they are."""

    def _traced(self, publisher: ClientId, now_us: int, out: list[Effect]) -> None:
        """A trace has ended at its publisher's first broker."""
        placement = self._placements.get(publisher)
        if placement is not None:
            placement.results += 1
            placement.busy_percent = self.traces.busy_percent(publisher)
            self._request_when_ready(publisher, now_us, out)

    def _expired(self, publisher: ClientId, expired: int) -> None:
        """Traces got no result in time: some broker is overloaded, or was lost."""
        placement = self._placements.get(publisher)
        if placement is not None and expired:
            placement.expired += expired
            placement.busy_percent = 100

    def _share(self, placement: _PublisherPlacement) -> float:
        """The part of the usual traces that brokers as busy as these can bear."""
        most = self._parameters.most_busy_percent
        if most >= UNLIMITED or placement.busy_percent <= most:
            return 1.0
        free = (100 - placement.busy_percent) / (100 - most)
        return max(LEAST_SHARE, free * free)

    def _missing(self, placement: _PublisherPlacement) -> int:
        """Number of further results before a decision; 0 or less: none."""
        parameters = self._parameters
        if parameters.most_busy_percent >= UNLIMITED:
            return parameters.threshold - placement.results
        needed = math.ceil(parameters.threshold * self._share(placement))
        return max(
            needed - placement.results - placement.expired,
            self._least_results - placement.results,
        )

    # --- requests -----------------------------------------------------------------------------

    def _request_when_ready(self, publisher: ClientId, now_us: int, out: list[Effect]) -> None:
        placement = self._placements.get(publisher)
        if (
            placement is None
            or placement.state is not PopState.TRACING
            or self._missing(placement) > 0
            or self.traces.outstanding(publisher)
        ):
            return
        placement.state = PopState.REQUESTING
        placement.requested_us = now_us
        profile = self.traces.profile(publisher)
        traced = 0 if profile is None else profile.traced
        request = RelocationRequest(publisher, 0.0, (), placement.per_s, traced)
        if self._forward_request(request, out):
            timeout_us = self._parameters.answer_timeout_us
            out.append(SetTimer(_timer(publisher), now_us + timeout_us))
        else:
            self._decided(publisher, (self._broker,), now_us, out)

    def _forward_request(self, request: RelocationRequest, out: list[Effect]) -> bool:
        """Forward the request if a neighbour is closer than this broker.

        Returns whether there is one.
        """
        profile = self.traces.profile(request.publisher)
        if profile is None:
            return False
        closest = profile.closest(
            request.subscribers, request.path, self._parameters.least_gain_percent
        )
        if closest is None:
            return False
        subscribers = request.subscribers + profile.count((*request.path, closest))
        path = (self._broker, *request.path)
        out.append(
            Send(
                closest,
                RelocationRequest(
                    request.publisher, subscribers, path, request.per_s, request.traced
                ),
            )
        )
        return True

    def _requested(
        self, neighbour: BrokerId, request: RelocationRequest, out: list[Effect]
    ) -> None:
        path = request.path
        if path[:1] != (neighbour,) or self._broker in path or len(set(path)) < len(path):
            raise ProtocolError(f"{neighbour} cannot ask {self._broker} over {path}")
        if not (math.isfinite(request.subscribers) and request.subscribers >= 0):
            raise ProtocolError(f"{request.subscribers} subscribers of {request.publisher}")
        _check_rate(request)
        if not self._forward_request(request, out):
            publisher, per_s, traced = request.publisher, request.per_s, request.traced
            self._answer_relocation(
                RelocationAnswer(publisher, (self._broker, *path), per_s, traced), out
            )

    def _answer_relocation(self, answer: RelocationAnswer, out: list[Effect]) -> None:
        """Answer for this broker, the first of the path; without room, for the next one."""
        publisher, path = answer.publisher, answer.path
        profile = self.traces.profile(publisher)
        passing = 1.0
        if answer.traced > 0 and profile is not None:
            passing = min(1.0, profile.traced / answer.traced)
        if not self.capacity.admit(publisher, PublisherLoad(answer.per_s, passing)):
            answer = RelocationAnswer(publisher, path[1:], answer.per_s, answer.traced)
        out.append(Send(path[1], answer))

    def _answered(
        self, neighbour: BrokerId, answer: RelocationAnswer, now_us: int, out: list[Effect]
    ) -> None:
        path = answer.path
        place = path.index(self._broker) if self._broker in path else -1
        is_last = place == 0 and neighbour in self._neighbours and neighbour not in path
        if len(set(path)) < len(path) or not (
            is_last or (place > 0 and path[place - 1] == neighbour)
        ):
            raise ProtocolError(f"{neighbour} cannot answer {self._broker} over {path}")
        _check_rate(answer)
        if is_last and len(path) > 1:
            if path[1] in self._neighbours:
                self._answer_relocation(answer, out)
            return
        if place + 1 < len(path):
            if path[place + 1] in self._neighbours:
                out.append(Send(path[place + 1], answer))
            return
        placement = self._placements.get(answer.publisher)
        if placement is not None and placement.state is PopState.REQUESTING:
            out.append(CancelTimer(_timer(answer.publisher)))
            self._decided(answer.publisher, path, now_us, out)

    def _decided(
        self, publisher: ClientId, path: tuple[BrokerId, ...], now_us: int, out: list[Effect]
    ) -> None:
        placement = self._placements[publisher]
        out.append(
            Record(
                SelectionRecord(
                    publisher=publisher,
                    broker=self._broker,
                    started_us=placement.started_us,
                    requested_us=placement.requested_us,
                    answered_us=now_us,
                    decided_us=now_us,
                    candidates=len(path),
                    target=path[0],
                    expired=placement.expired,
                )
            )
        )
        if path[0] == self._broker:
            placement.restart(now_us)
        else:
            placement.state = PopState.MOVING
            self._send_away(publisher, path[::-1], now_us, out)


def _check_rate(message: RelocationRequest | RelocationAnswer) -> None:
    """ProtocolError for a rate that no publisher has."""
    if not PublisherLoad(message.per_s, 0.0).is_possible:
        raise ProtocolError(f"{message.per_s} publications of {message.publisher} per second")


def _timer(publisher: ClientId) -> TimerKey:
    return _REQUEST_TIMER, publisher
