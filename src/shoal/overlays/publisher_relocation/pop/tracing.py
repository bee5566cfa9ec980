"""Traced publications at one broker: counts, outstanding results, and sums upstream.

A traced publication is marked with its own message ID. Its route gives the number of local
subscribers and the neighbours that it went to; each of those answers with a result, and when all
have, their sum goes to the neighbour it came from and into the publisher's profile. A result that
does not come in time, because a broker or a link died, ends the trace here, and at the brokers
above.

Source: Cheung and Jacobsen, publisher relocation, section 3.1.
"""

from __future__ import annotations

from collections.abc import Container

from shoal.broker.effects import CancelTimer, Effect, Send, SetTimer, TimerKey
from shoal.broker.messages import RoutedPublication
from shoal.broker.strategy import ProtocolError
from shoal.model import BrokerId, ClientId, MessageId
from shoal.overlays.publisher_relocation.capacity import Capacity
from shoal.overlays.publisher_relocation.pop.messages import TraceResult
from shoal.overlays.publisher_relocation.pop.parameters import PopParameters
from shoal.overlays.publisher_relocation.pop.planner import Profile
from shoal.overlays.tree.routes import Route

TRACE_TIMER = "trace"

_NUMBER_BYTES = 8


class _PopTrace:
    """A publication with outstanding results; `upstream` is None at the publisher's broker."""

    __slots__ = ("behind", "busy_percent", "deadline_us", "local", "upstream", "waiting")

    def __init__(
        self, upstream: BrokerId | None, deadline_us: int, local: int, waiting: set[BrokerId]
    ) -> None:
        self.upstream = upstream
        self.deadline_us = deadline_us
        self.local = local
        self.waiting = waiting
        self.busy_percent = 0
        self.behind: dict[BrokerId, int] = {}


class PopTracing:
    """The traced publications and the publisher profile table of one broker.

    Methods that end traces return the publishers that had one end here, at their first broker.
    """

    def __init__(self, parameters: PopParameters, capacity: Capacity) -> None:
        self._parameters = parameters
        self._capacity = capacity
        # How busy the busiest broker of a publisher's last trace was that ended here.
        self._busy: dict[ClientId, int] = {}
        self._profiles: dict[ClientId, Profile] = {}
        self._traces: dict[ClientId, dict[MessageId, _PopTrace]] = {}
        # Publishers with a timer, which fires even if the traces that it was set for have ended.
        self._timed: set[ClientId] = set()

    def profile(self, publisher: ClientId) -> Profile | None:
        """The publisher's averages, if any trace of it has ended here."""
        return self._profiles.get(publisher)

    def outstanding(self, publisher: ClientId) -> int:
        """Number of the publisher's traces that wait for results here."""
        return len(self._traces.get(publisher, ()))

    @property
    def held_bytes(self) -> int:
        """Averages by neighbour, and for each trace the publication and the counts so far."""
        held = 0
        for profile in self._profiles.values():
            held += _NUMBER_BYTES + sum(len(name) + _NUMBER_BYTES for name in profile.behind)
        for traces in self._traces.values():
            for publication, trace in traces.items():
                held += len(str(publication)) + 2 * _NUMBER_BYTES
                held += sum(len(name) + _NUMBER_BYTES for name in (*trace.waiting, *trace.behind))
        return held

    def note(
        self,
        routed: RoutedPublication,
        route: Route,
        upstream: BrokerId | None,
        now_us: int,
        out: list[Effect],
    ) -> bool:
        """A traced publication came from upstream, and took this route.

        Returns whether that was empty.

        Only at its publisher's broker, where its trace has ended then.
        """
        publication, local = routed.message_id, len(route.clients)
        waiting = set(route.neighbours)
        waiting.discard(upstream)
        if not waiting:
            return self._end_trace(publication, _PopTrace(upstream, 0, local, waiting), out)
        deadline_us = now_us + self._parameters.answer_timeout_us
        self._await_results(publication, _PopTrace(upstream, deadline_us, local, waiting), out)
        return False

    def result(self, neighbour: BrokerId, message: TraceResult, out: list[Effect]) -> bool:
        """Add a neighbour's result; returns whether it ended a trace at the publisher's broker."""
        publication = message.publication
        traces = self._traces.get(publication.publisher, {})
        trace = traces.get(publication)
        if trace is None:
            return False  # it was given up
        if neighbour not in trace.waiting:
            raise ProtocolError(f"{neighbour} was not sent {publication}, or has answered")
        if message.subscribers < 0:
            raise ProtocolError(f"{publication} went to {message.subscribers} subscribers")
        if not 0 <= message.busy_percent <= 100:
            raise ProtocolError(f"a broker is busy for {message.busy_percent} % of its time")
        trace.waiting.discard(neighbour)
        trace.behind[neighbour] = message.subscribers
        trace.busy_percent = max(trace.busy_percent, message.busy_percent)
        if trace.waiting:
            return False
        del traces[publication]
        if not traces:
            del self._traces[publication.publisher]
        return self._end_trace(publication, trace, out)

    def expire(self, publisher: ClientId, now_us: int, out: list[Effect]) -> int:
        """End the publisher's overdue traces; returns how many began here, at its broker."""
        self._timed.discard(publisher)
        traces = self._traces.get(publisher, {})
        expired = 0
        for publication in [name for name, each in traces.items() if each.deadline_us <= now_us]:
            expired += traces.pop(publication).upstream is None
        if traces:
            oldest = min(trace.deadline_us for trace in traces.values())
            self._set_trace_timer(publisher, oldest, out)
        else:
            self._traces.pop(publisher, None)
        return expired

    def busy_percent(self, publisher: ClientId) -> int:
        """How busy the busiest broker of the publisher's last complete trace is, from here on."""
        return self._busy.get(publisher, 0)

    def forget(self, publisher: ClientId, out: list[Effect]) -> None:
        """Drop all that is held for a publisher: it left, or has turned up elsewhere."""
        self._profiles.pop(publisher, None)
        self._busy.pop(publisher, None)
        self._traces.pop(publisher, None)
        if publisher in self._timed:
            self._timed.discard(publisher)
            out.append(CancelTimer(_timer(publisher)))

    def keep_only(self, publishers: Container[ClientId], out: list[Effect]) -> None:
        """Drop the traces of all other publishers, which are gone."""
        for publisher in {**self._profiles, **self._traces}:
            if publisher not in publishers:
                self.forget(publisher, out)

    def relinked(self, neighbour: BrokerId) -> None:
        """Traces in transit over the link to a neighbour are lost, and so are averages behind
        it.
        """
        for profile in self._profiles.values():
            profile.behind.pop(neighbour, None)
        for traces in list(self._traces.values()):
            for publication, trace in list(traces.items()):
                if trace.upstream == neighbour or neighbour in trace.waiting:
                    self._drop_trace(publication)

    def _await_results(self, publication: MessageId, trace: _PopTrace, out: list[Effect]) -> None:
        publisher = publication.publisher
        self._traces.setdefault(publisher, {})[publication] = trace
        if publisher not in self._timed:
            self._set_trace_timer(publisher, trace.deadline_us, out)

    def _set_trace_timer(self, publisher: ClientId, at_us: int, out: list[Effect]) -> None:
        self._timed.add(publisher)
        out.append(SetTimer(_timer(publisher), at_us))

    def _end_trace(
        self,
        publication: MessageId,
        trace: _PopTrace,
        out: list[Effect],
    ) -> bool:
        """All results are in: count them, and send the sum upstream.

        Returns whether there is no upstream.
        """
        publisher = publication.publisher
        profile = self._profiles.get(publisher)
        if profile is None:
            profile = Profile(self._parameters.average_weight_percent)
            self._profiles[publisher] = profile
        profile.add(trace.local, trace.behind)
        busy_percent = max(trace.busy_percent, self._capacity.busy_percent)
        if trace.upstream is None:
            self._busy[publisher] = busy_percent
            return True
        subscribers = trace.local + sum(trace.behind.values())
        out.append(Send(trace.upstream, TraceResult(publication, subscribers, busy_percent)))
        return False

    def _drop_trace(self, publication: MessageId) -> None:
        traces = self._traces[publication.publisher]
        del traces[publication]
        if not traces:
            del self._traces[publication.publisher]


def _timer(publisher: ClientId) -> TimerKey:
    return TRACE_TIMER, publisher
