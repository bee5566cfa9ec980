"""The audience of traced publications: the clients of this broker that got them.

The system sees one client, the front end. Traced publications are only noted when they pass; their
receivers are looked up when the system asks, or when there are many, for all of one topic together.
The cost is bounded: of each publisher one tracing session per `EACH_US` stands for those between,
and no more than `MOST_LOOKED_UP` deliveries are looked up in that time. Beyond `MOST_HAD` the
entries of the oldest publishers are dropped.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Collection, Iterator

from shoal.broker.messages import RoutedPublication
from shoal.clients.front_ends import MOST_BITS, DeliveriesReported
from shoal.model import ClientId, MessageId
from shoal.mqtt.front_end.network import FrontEnd
from shoal.mqtt.limits import MICROSECONDS
from shoal.mqtt.messages import PublishedMessage
from shoal.mqtt.sessions.session import ClientSubscription, Session
from shoal.mqtt.sessions.sessions import Sessions
from shoal.mqtt.sessions.subscribed.subscriptions import SessionSubscriptions

EACH_US = MICROSECONDS
MOST_LOOKED_UP = 50_000
# The bounds of publications noted before a lookup: their number, and their bytes.
MOST_NOTED = 512
MOST_NOTED_BYTES = 1_048_576
# The bounds of publishers, and of receivers of all publishers: each answer searches these for
# receivers that are not reported yet.
MOST_PUBLISHERS = 1_024
MOST_HAD = 50_000
# The time after which a silent publisher's session is not considered open any more.
SILENT_US = 60 * MICROSECONDS

_Noted = tuple["_TracedAudience", int, PublishedMessage]


class _TracedAudience:
    """A tracing session; it stands for `times` as many, and takes nothing once it is over."""

    def __init__(self, session: MessageId, times: int) -> None:
        self.is_over = False
        self.session = session
        self.times = times
        self.had: dict[ClientId, int] = {}
        self.others = 0
        self.noted_us = 0


class _Publisher:
    """The tracing sessions of one publisher: the last, the newest that is traced, and the one
    before it.
    """

    def __init__(self) -> None:
        self.last: MessageId | None = None
        self.current: _TracedAudience | None = None
        self.before: _TracedAudience | None = None
        self.next_us = 0
        self.skipped = 0


class Audience:
    """The receivers of traced publications; nothing is noted before it `is_asked`."""

    def __init__(
        self, sessions: Sessions, subscriptions: SessionSubscriptions, front_end: FrontEnd
    ) -> None:
        self.is_asked = False
        self._sessions = sessions
        self._subscriptions = subscriptions
        self._front_end = front_end
        self._publishers: OrderedDict[ClientId, _Publisher] = OrderedDict()
        # The number of receivers of all tracing sessions.
        self._held = 0
        self._noted: list[_Noted] = []
        self._noted_bytes = 0
        # The lookups left, and the end of that period.
        self._left = MOST_LOOKED_UP
        self._until_us = 0
        # Reported clients: the fencing token of their entry, and their subscriptions.
        self._named: dict[ClientId, tuple[int, tuple[str, ...]]] = {}

    def note(self, routed: RoutedPublication, message: PublishedMessage, now_us: int) -> None:
        """Note a traced publication for this broker's clients."""
        session = routed.mark
        assert session is not None
        publisher = self._publishers.get(session.publisher)
        if publisher is None:
            if len(self._publishers) >= MOST_PUBLISHERS:
                self._forget_oldest()
            publisher = self._publishers[session.publisher] = _Publisher()
        if session != publisher.last:
            self._begin_trace(publisher, session, now_us)
        traced = publisher.current
        offset = routed.message_id.number - session.number
        if traced is None or traced.session != session or not 0 <= offset < MOST_BITS:
            return
        traced.noted_us = now_us
        self._noted.append((traced, offset, message))
        self._noted_bytes += len(message.payload)
        if len(self._noted) >= MOST_NOTED or self._noted_bytes > MOST_NOTED_BYTES:
            self._look_up(now_us)

    def _begin_trace(self, publisher: _Publisher, session: MessageId, now_us: int) -> None:
        publisher.last = session
        if now_us < publisher.next_us:
            publisher.skipped += 1
            return
        self._drop_audience(publisher.before)
        publisher.before = publisher.current
        publisher.current = _TracedAudience(session, 1 + publisher.skipped)
        publisher.skipped, publisher.next_us = 0, now_us + EACH_US

    def who_had(self, session: MessageId, now_us: int) -> DeliveriesReported | None:
        """The audience of a tracing session, as far as it was looked up; the session is dropped."""
        publisher = self._publishers.get(session.publisher)
        if publisher is None:
            return None
        self._look_up(now_us)
        if publisher.current is not None and publisher.current.session == session:
            traced, publisher.current = publisher.current, None
        elif publisher.before is not None and publisher.before.session == session:
            traced, publisher.before = publisher.before, None
        else:
            return None
        self._drop_audience(traced)
        gone = tuple(self._gone())
        for client in traced.had:
            named = self._state(client)
            if named is not None:
                self._named[client] = named
        return DeliveriesReported(
            session, traced.had, traced.others, traced.times, self._untold(traced.had, now_us), gone
        )

    def _untold(self, clients: dict[ClientId, int], now_us: int) -> dict[ClientId, int]:
        untold: dict[ClientId, int] = defaultdict(int)
        for publisher in self._publishers.values():
            for traced in (publisher.current, publisher.before):
                if traced is not None and now_us - traced.noted_us < SILENT_US:
                    for client in traced.had.keys() & clients.keys():
                        untold[client] += traced.times * traced.had[client].bit_count()
        return untold

    def _gone(self) -> Iterator[ClientId]:
        """Reported clients that have left, or have changed their subscriptions."""
        for client, state in list(self._named.items()):
            if self._state(client) != state:
                del self._named[client]
                yield client

    def _state(self, client: ClientId) -> tuple[int, tuple[str, ...]] | None:
        session = self._sessions.get(client)
        if session is None or not self._may_move(session):
            return None
        return session.entered_us, tuple(session.subscriptions)

    # --- receivers of a publication -----------------------------------------------------------

    def _look_up(self, now_us: int) -> None:
        noted, self._noted, self._noted_bytes = self._noted, [], 0
        if now_us >= self._until_us:
            self._left, self._until_us = MOST_LOOKED_UP, now_us + EACH_US
        by_topic: dict[str, list[_Noted]] = defaultdict(list)
        for each in noted:
            by_topic[each[2].topic].append(each)
        for topic, each_noted in by_topic.items():
            if self._left <= 0:
                return
            known = self._subscriptions.look(topic)
            # Topics with very many filters by now are skipped.
            if known is None or self._subscriptions.is_long(known):
                continue
            receivers = known.all
            if receivers is not None:
                bits: dict[_TracedAudience, int] = defaultdict(int)
                for traced, offset, _ in each_noted:
                    bits[traced] |= 1 << offset
                for traced, all_bits in bits.items():
                    self._add(traced, all_bits, receivers)
                continue
            messages = [message for _, _, message in each_noted]
            found = self._subscriptions.match_each(messages)
            for (traced, offset, _), subscriptions in zip(each_noted, found, strict=True):
                self._add(traced, 1 << offset, subscriptions)

    def _add(
        self, traced: _TracedAudience, bits: int, subscriptions: Collection[ClientSubscription]
    ) -> None:
        """Add these receivers, unless the bound is reached or the session is over."""
        if self._left <= 0 or traced.is_over:
            return
        self._left -= len(subscriptions)
        before = len(traced.had)
        for subscription in subscriptions:
            session = subscription.session
            if self._may_move(session):
                traced.had[session.client_id] = traced.had.get(session.client_id, 0) | bits
            else:
                traced.others |= bits
        self._held += len(traced.had) - before
        while self._held > MOST_HAD and len(self._publishers) > 1:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        _, publisher = self._publishers.popitem(last=False)
        self._drop_audience(publisher.current)
        self._drop_audience(publisher.before)

    def _drop_audience(self, traced: _TracedAudience | None) -> None:
        if traced is not None and not traced.is_over:
            traced.is_over = True
            self._held -= len(traced.had)

    def _may_move(self, session: Session) -> bool:
        """Whether its client is connected, follows redirects, and is not a publisher that moves."""
        session_writer = session.session_writer
        if session_writer is None or not session_writer.connection.follows:
            return False
        return not self._front_end.promising.advertised_by(session.client_id)
