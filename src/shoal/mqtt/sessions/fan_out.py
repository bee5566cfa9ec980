"""Fan-out: delivers messages to the subscribers of one broker, single or in batches of QoS 0.

The messages of one read are gathered, matched together, and handed to each session in one piece: a
delivery costs a list entry, not a walk through the session. Every client gets the same messages, in
the same order, as without batches.

A client with overlapping subscriptions gets one copy, at the highest QoS, with all their
identifiers [MQTT-3.3.4-2 to 4]; for each shared one, a copy of its own, after it.

A fan-out to many sessions takes several time slices (see `sliced_fan_out`). So does the search for
the receivers of a topic with many filters.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from shoal.mqtt.messages import PublishedMessage
from shoal.mqtt.sessions.message_tracer import FanOutTracer
from shoal.mqtt.sessions.session import ClientSubscription, Session, qos_for
from shoal.mqtt.sessions.sliced_fan_out import PendingFanOut, SlicedFanOut
from shoal.mqtt.sessions.subscribed.receivers import Receivers, work_of_conflation
from shoal.mqtt.sessions.subscribed.subscriptions import SessionSubscriptions
from shoal.mqtt.statistics import Statistics

# The bound of gathered bytes: all forms of the messages are in memory. Each message counts for
# ENTRY_BYTES beside its own bytes.
MAX_GATHERED_BYTES = 1_048_576
ENTRY_BYTES = 256
# Topic filter nodes that are visited in the time of a delivery to one session.
_PLACES = 20
# Subscriptions that one step groups by session.
_SORTED = 1_000

_Form = tuple[PublishedMessage, tuple[int, ...]]
# By the position of a form: the subscriptions of one session that match, some of them conflated.
_Conflated = dict[int, list[ClientSubscription]]
_Run = tuple[int, Receivers]


class FanOut:
    """Routes messages to sessions.

    Flush the batch (`settle`) before you change sessions or subscriptions.
    """

    def __init__(
        self, subscriptions: SessionSubscriptions, statistics: Statistics, spreading: SlicedFanOut
    ) -> None:
        self.spreading = spreading
        self.journal: PendingFanOut | None = None
        # Gets traced messages after they were handed out.
        self.tracer: FanOutTracer | None = None
        self._subscriptions = subscriptions
        self._statistics = statistics
        self._gathered: list[PublishedMessage] = []
        self._batches = 0
        # The positions at which topics change in the batch, with their receivers; and the last
        # topic.
        self._runs: list[_Run] = []
        self._topic: str | None = None
        # The bytes that may still be gathered.
        self._room = MAX_GATHERED_BYTES
        self._now_us = 0

    # --- one message --------------------------------------------------------------------------

    def route(self, message: PublishedMessage, now_us: int) -> int:
        """Deliver to the subscribers of this broker; returns the number of matching subscriptions.

        While an earlier sliced fan-out runs, the number is not known yet; 1 is returned.
        """
        if self._gathered:
            self.settle()
        if not self.spreading.is_on:
            found = self._route(message, now_us)
            message.attributes = None
            self._trace(message, now_us)
            return found
        self._note_spread(message)
        self.spreading.then(partial(self._route_later, message))
        self._trace(message, now_us)
        return 1

    def _trace(self, message: PublishedMessage, now_us: int) -> None:
        """Tell the tracer of a traced message once all sessions have got it."""
        if message.traced and self.tracer is not None:
            if self.spreading.is_on:
                self.spreading.then(partial(self.tracer.routed, message))
            else:
                self.tracer.routed(message, now_us)

    def _route_later(self, message: PublishedMessage, now_us: int) -> None:
        self._route(message, now_us)
        message.attributes = None
        if not self.spreading.is_stepping:
            self._note_end(message)

    def _route(self, message: PublishedMessage, now_us: int) -> int:
        topic = message.topic
        self._statistics.routed = message
        known = self._subscriptions.known.get(topic)
        if known is None:
            if not self._subscriptions.is_looking_for(topic):
                known = self._subscriptions.look(topic)
            if known is None:
                self._note_spread(message)
                self.spreading.begin(self._search(topic), partial(self._route_found, message))
                return 1
        receivers = known.all
        if receivers is None:
            if self._subscriptions.is_long(known):
                self._spread(message, self._steps_of_match(message))
                return 1
            return self._route_each(message, self._subscriptions.match(message), now_us)
        count = len(receivers)
        self._statistics.deliveries += count
        if count > self.spreading.most:
            self._spread(message, self._steps(message, receivers))
            return count
        for subscription in receivers:
            if not subscription.no_local or subscription.session.client_id != message.publisher:
                _deliver(message, subscription, now_us)
        return count

    def _route_found(self, message: PublishedMessage) -> None:
        self._route_later(message, self.spreading.now_us)

    def _search(self, topic: str) -> Iterator[int]:
        """The steps of a search for the receivers of a topic."""
        for places in self._subscriptions.search(topic):
            yield 1 + places // _PLACES

    def _when_found(self, topic: str, do: Callable[[int], None], now_us: int) -> None:
        """Call `do` when the receivers of a topic are known; no fan-out may run."""
        if self._subscriptions.find(topic):
            do(now_us)
        else:
            self.spreading.begin(self._search(topic), lambda: do(self.spreading.now_us))

    def _route_each(
        self, message: PublishedMessage, found: list[ClientSubscription], now_us: int
    ) -> int:
        """Deliver where a client may have several subscriptions, or members of a group."""
        self._statistics.deliveries += len(found)
        copies, shared = _copies(message, found)
        if len(found) > self.spreading.most:
            self._spread(message, self._steps_each(message, copies, shared))
            return len(found)
        for session, subscriptions in copies.items():
            _deliver_copy(message, session, subscriptions, now_us)
        for subscription in shared:
            _deliver(message, subscription, now_us)
        return len(found)

    # --- one message to many ------------------------------------------------------------------

    def _spread(self, message: PublishedMessage, steps: Iterator[int]) -> None:
        self._note_spread(message)
        self.spreading.begin(steps, partial(self._note_end, message))

    def _note_spread(self, message: PublishedMessage) -> None:
        if self.journal is not None and message.qos:
            self.journal.spreads(message)

    def _note_end(self, message: PublishedMessage) -> None:
        if self.journal is not None and message.qos:
            self.journal.spread_is_over(message)

    def _steps(
        self, message: PublishedMessage, receivers: Sequence[ClientSubscription]
    ) -> Iterator[int]:
        for subscription in receivers:
            if _is_there(subscription) and not (
                subscription.no_local and subscription.session.client_id == message.publisher
            ):
                _deliver(message, subscription, self.spreading.now_us)
            yield 1 + work_of_conflation(subscription)

    def _steps_of_match(self, message: PublishedMessage) -> Iterator[int]:
        """The steps of a message that very many topic filters match."""
        found: list[ClientSubscription] = []
        for places in self._subscriptions.matching(message, found):
            yield 1 + places // _PLACES
        self._statistics.deliveries += len(found)
        copies: dict[Session, list[ClientSubscription]] = {}
        shared: list[ClientSubscription] = []
        for start in range(0, len(found), _SORTED):
            _sort(message, found[start : start + _SORTED], copies, shared)
            yield 1 + _SORTED // _PLACES
        yield from self._steps_each(message, copies, shared)

    def _steps_each(
        self,
        message: PublishedMessage,
        copies: dict[Session, list[ClientSubscription]],
        shared: list[ClientSubscription],
    ) -> Iterator[int]:
        for session, subscriptions in copies.items():
            still = [each for each in subscriptions if _is_there(each)]
            if still:
                _deliver_copy(message, session, still, self.spreading.now_us)
            yield 1 + len(subscriptions) // _PLACES + sum(map(work_of_conflation, subscriptions))
        for subscription in shared:
            member: ClientSubscription | None = subscription
            if not _is_there(subscription):  # another member of the group
                member = self._subscriptions.member(subscription.group)
            if member is not None:
                _deliver(message, member, self.spreading.now_us)
            if self.journal is not None and message.qos:
                self.journal.spread_to(message, subscription.group)
            yield 1

    def resume(self, message: PublishedMessage, had: set[str], groups: set[str]) -> None:
        """Deliver a message to the clients that had not got it when the broker was killed.

        `had` are the clients that had, and `groups` the shared subscriptions.
        """
        self.spreading.then(partial(self._resume, message, had, groups))

    def _resume(
        self, message: PublishedMessage, had: set[str], groups: set[str], now_us: int
    ) -> None:
        self._when_found(message.topic, partial(self._resume_found, message, had, groups), now_us)

    def _resume_found(
        self, message: PublishedMessage, had: set[str], groups: set[str], now_us: int
    ) -> None:
        found = self._subscriptions.match(message)
        copies, shared = _copies(message, found)
        copies = {session: own for session, own in copies.items() if session.client_id not in had}
        shared = [each for each in shared if each.group not in groups]
        self._statistics.deliveries += len(copies) + len(shared)
        steps = self._steps_each(message, copies, shared)
        self.spreading.begin(steps, partial(self._note_end, message))

    def make_up(self, message: PublishedMessage, stream: str, number: int, now_us: int) -> None:
        """Deliver a duplicate to the sessions that lack it (see `DeduplicationWindow`)."""
        self.settle()
        if self.spreading.is_on:
            self.spreading.then(partial(self._make_up, message, stream, number))
        else:
            self._make_up(message, stream, number, now_us)

    def _make_up(self, message: PublishedMessage, stream: str, number: int, now_us: int) -> None:
        do = partial(self._make_up_found, message, stream, number)
        self._when_found(message.topic, do, now_us)

    def _make_up_found(
        self, message: PublishedMessage, stream: str, number: int, now_us: int
    ) -> None:
        copies, _ = _copies(message, self._subscriptions.match(message))
        for session, subscriptions in copies.items():
            if session.had is not None and session.had.lacks(stream, number):
                self._statistics.deliveries += 1
                _deliver_once(message, session, subscriptions, now_us)
                session.has_got(message.key)

    def hand(
        self, message: PublishedMessage, subscription: ClientSubscription, now_us: int
    ) -> None:
        """Deliver to this subscription."""
        self.settle()
        self._statistics.deliveries += 1
        _deliver(message, subscription, now_us)
        if message.traced and self.tracer is not None:
            self.tracer.handed(message, subscription, now_us)

    # --- many messages ------------------------------------------------------------------------

    def gather(self, message: PublishedMessage, now_us: int) -> None:
        """Add a message to the batch, which is delivered by `settle`."""
        topic = message.topic
        is_alone = message.qos or message.retain or message.traced
        if is_alone or (topic != self._topic and not self._begin_run(topic)):
            self.route(message, now_us)
            return
        self._gathered.append(message)
        self._now_us = now_us
        self._room -= ENTRY_BYTES + len(message.payload) + len(topic)
        if self._room < 0:
            self.settle()

    def _begin_run(self, topic: str) -> bool:
        """Begin a run of messages to one topic; returns whether it can be gathered."""
        if self.spreading.is_on:
            return False
        known = self._subscriptions.look(topic)
        if known is None or self._subscriptions.is_long(known):
            return False
        self._runs.append((len(self._gathered), known))
        self._topic = topic
        return True

    def settle(self) -> None:
        """Flush the batch: deliver the gathered messages."""
        if not self._gathered:
            return
        messages, self._gathered = self._gathered, []
        runs, self._runs, self._topic = self._runs, [], None
        self._room = MAX_GATHERED_BYTES
        if len(messages) == 1:
            self.route(messages[0], self._now_us)
            return
        # A prime, so that a rhythm of publishers does not always sample the same one.
        self._batches += 1
        self._statistics.routed = messages[self._batches * 7_919 % len(messages)]
        forms: list[_Form] = [(message, ()) for message in messages]
        conflated: _Conflated = {}
        lanes = self._lanes(messages, runs, forms, conflated)
        steps = self._steps_of_lanes(lanes, forms, conflated)
        self.spreading.now_us = self._now_us
        if len(lanes) > self.spreading.most:
            self.spreading.begin(steps)
        else:
            deque(steps, maxlen=0)

    def _steps_of_lanes(
        self, lanes: dict[Session, list[int]], forms: list[_Form], conflated: _Conflated
    ) -> Iterator[int]:
        written: dict[int, list[bytes]] = {}
        for session, lane in lanes.items():
            yield 1
            if (
                session.session_writer is None
                and session.diversion is None
                and not session.is_moving
            ):
                continue  # QoS 0 is not queued for disconnected clients
            now_us = self.spreading.now_us
            is_conflated = conflated and not conflated.keys().isdisjoint(lane)
            if session.takes_at_once and not is_conflated:
                assert session.session_writer is not None
                version = session.session_writer.version
                if version not in written:
                    written[version] = [
                        message.whole(version, identifiers, now_us)
                        for message, identifiers in forms
                    ]
                if session.session_writer.send_many(written[version], lane):
                    continue
            for number in lane:
                message, identifiers = forms[number]
                if number in conflated:
                    _deliver_once(message, session, conflated[number], now_us)
                else:
                    session.deliver(message, 0, False, identifiers, now_us)

    def _lanes(
        self,
        messages: list[PublishedMessage],
        runs: list[_Run],
        forms: list[_Form],
        conflated: _Conflated,
    ) -> dict[Session, list[int]]:
        """The messages of each session, in order, as positions of forms; adds forms with
        identifiers."""
        lanes: dict[Session, list[int]] = {}
        deliveries = 0
        ends = [first for first, _ in runs[1:]]
        for (first, known), end in zip(runs, (*ends, len(messages)), strict=True):
            receivers = known.all
            answers: Sequence[Sequence[ClientSubscription]]
            if receivers is None:
                answers = self._subscriptions.match_each(messages[first:end])
                deliveries += sum(map(len, answers))
                self._put(messages, answers, first, forms, lanes, conflated)
            else:
                deliveries += len(receivers) * (end - first)
                if known.are_plain:
                    for subscription in receivers:
                        lanes.setdefault(subscription.session, []).extend(range(first, end))
                else:
                    answers = [receivers] * (end - first)
                    self._put(messages, answers, first, forms, lanes, conflated)
        self._statistics.deliveries += deliveries
        return lanes

    def _put(
        self,
        messages: list[PublishedMessage],
        answers: Sequence[Sequence[ClientSubscription]],
        first: int,
        forms: list[_Form],
        lanes: dict[Session, list[int]],
        conflated: _Conflated,
    ) -> None:
        """Add messages, from position `first` on, to the lanes of their receivers."""
        are_plain = self._subscriptions.are_plain
        for number, found in enumerate(answers, start=first):
            if not (are_plain or all(each.is_plain for each in found)):
                _put_each(messages[number], found, number, forms, lanes, conflated)
                continue
            for subscription in found:
                session = subscription.session
                lane = lanes.get(session)
                if lane is None:
                    lanes[session] = [number]
                elif lane[-1] != number:  # else one copy for several subscriptions
                    lane.append(number)


def _put_each(
    message: PublishedMessage,
    found: Sequence[ClientSubscription],
    number: int,
    forms: list[_Form],
    lanes: dict[Session, list[int]],
    conflated: _Conflated,
) -> None:
    """Add a message for subscriptions with identifiers, shared, no-local or conflated ones."""
    copies, shared = _copies(message, found)
    due: list[tuple[Session, tuple[int, ...]]] = []
    for session, subscriptions in copies.items():
        if _is_conflated(subscriptions):
            conflated[len(forms)] = subscriptions
            lanes.setdefault(session, []).append(len(forms))
            forms.append((message, ()))
        else:
            due.append((session, _identifiers(subscriptions)))
    due += [(each.session, each.identifiers) for each in shared]
    for session, identifiers in due:
        form = number
        if identifiers:
            form = len(forms)
            forms.append((message, identifiers))
        lanes.setdefault(session, []).append(form)


def _copies(
    message: PublishedMessage, found: Sequence[ClientSubscription]
) -> tuple[dict[Session, list[ClientSubscription]], list[ClientSubscription]]:
    """The matching subscriptions by session; and the shared ones."""
    by_session: dict[Session, list[ClientSubscription]] = {}
    shared: list[ClientSubscription] = []
    _sort(message, found, by_session, shared)
    return by_session, shared


def _sort(
    message: PublishedMessage,
    found: Sequence[ClientSubscription],
    by_session: dict[Session, list[ClientSubscription]],
    shared: list[ClientSubscription],
) -> None:
    """Group some more of the matching subscriptions."""
    for subscription in found:
        if subscription.no_local and subscription.session.client_id == message.publisher:
            continue
        if subscription.gate is not None and not subscription.gate.admits(message):
            continue
        if subscription.shared:
            shared.append(subscription)
        else:
            by_session.setdefault(subscription.session, []).append(subscription)


def _identifiers(subscriptions: Sequence[ClientSubscription]) -> tuple[int, ...]:
    return tuple(identifier for each in subscriptions for identifier in each.identifiers)


def _has_had(session: Session, message: PublishedMessage) -> bool:
    """Whether a session got a message at its earlier broker.

    The message may come here later than the session, where a broker was disconnected.
    """
    had, key = session.had, message.key
    return had is not None and key is not None and had.has(key)


def _is_conflated(subscriptions: Sequence[ClientSubscription]) -> bool:
    """Whether conflation decides about a message for these subscriptions of a session."""
    return any(each.conflator is not None for each in subscriptions)


def _is_there(subscription: ClientSubscription) -> bool:
    """Whether the session still has the subscription."""
    return subscription.text in subscription.session.subscriptions


def _deliver_copy(
    message: PublishedMessage,
    session: Session,
    subscriptions: list[ClientSubscription],
    now_us: int,
) -> None:
    """Deliver to a session by its only subscription, or by several."""
    if len(subscriptions) == 1:
        _deliver(message, subscriptions[0], now_us)
    elif not _has_had(session, message):
        _deliver_once(message, session, subscriptions, now_us)


def _deliver_once(
    message: PublishedMessage,
    session: Session,
    subscriptions: Sequence[ClientSubscription],
    now_us: int,
) -> None:
    """Deliver one copy to a session for its subscriptions, by way of those that are conflated."""
    via = tuple([each.text for each in subscriptions]) if _is_conflated(subscriptions) else ()
    session.deliver(
        message,
        qos_for(message, subscriptions),
        message.retain and any(each.retain_as_published for each in subscriptions),
        _identifiers(subscriptions),
        now_us,
        via,
    )


def _deliver(message: PublishedMessage, subscription: ClientSubscription, now_us: int) -> None:
    session, qos = subscription.session, message.qos
    if subscription.gate is not None and not subscription.gate.admits(message):
        return
    # The message of a group has only one receiver, so it cannot have got it elsewhere.
    if session.had is not None and not subscription.shared and _has_had(session, message):
        return
    if subscription.conflator is not None:
        _deliver_once(message, session, (subscription,), now_us)
        return
    if qos > subscription.qos:
        qos = subscription.qos
    retain = message.retain and subscription.retain_as_published
    if session.diversion is None:
        session.accept(message, qos, retain, subscription.identifiers, now_us)
    else:
        session.deliver(message, qos, retain, subscription.identifiers, now_us)
