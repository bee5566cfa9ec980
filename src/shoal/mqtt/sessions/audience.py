"""Which clients of this broker got what of publications that its system traces.

The system sees one client, the door.  As publications pass, they are only remembered; who gets them
is looked up when it asks, or when there are many, for all to one topic together.  What that costs
is bounded: of each publisher a session per `EACH_US` counts for those between, and no more than
`MOST_LOOKED_UP` deliveries are looked at in that time.  Beyond `MOST_HAD` what was found of the
publishers that came first is forgotten.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Collection, Iterator

from shoal.broker.messages import RoutedPublication
from shoal.clients.doors import MOST_BITS, Had
from shoal.model import ClientId, MessageId
from shoal.mqtt.door.network import Door
from shoal.mqtt.limits import MICROSECONDS
from shoal.mqtt.messages import Message
from shoal.mqtt.sessions.session import ClientSubscription, Session
from shoal.mqtt.sessions.sessions import Sessions
from shoal.mqtt.sessions.subscribed.subscriptions import Subscriptions

EACH_US = MICROSECONDS
MOST_LOOKED_UP = 50_000
# What is remembered before it is looked up: publications, and their bytes.
MOST_NOTED = 512
MOST_NOTED_BYTES = 1_048_576
# Publishers that are remembered; and of all of them together, clients that had something of one:
# each answer looks among these for those of whom nothing is told yet.
MOST_PUBLISHERS = 1_024
MOST_HAD = 50_000
# How long a publisher that says nothing counts as not done.
SILENT_US = 60 * MICROSECONDS

_Noted = tuple["_Traced", int, Message]


class _Traced:
    """A session of publications; it stands for `times` as many, and nobody asks once it is over."""

    def __init__(self, session: MessageId, times: int) -> None:
        self.is_over = False
        self.session = session
        self.times = times
        self.had: dict[ClientId, int] = {}
        self.others = 0
        self.noted_us = 0


class _Publisher:
    """One publisher's sessions: the last, and those that are looked at, the newest and the one
    before it.
    """

    def __init__(self) -> None:
        self.last: MessageId | None = None
        self.current: _Traced | None = None
        self.before: _Traced | None = None
        self.next_us = 0
        self.skipped = 0


class Audience:
    """Who got what; nothing is noted before it `is_asked`."""

    def __init__(self, sessions: Sessions, subscriptions: Subscriptions, door: Door) -> None:
        self.is_asked = False
        self._sessions = sessions
        self._subscriptions = subscriptions
        self._door = door
        self._publishers: OrderedDict[ClientId, _Publisher] = OrderedDict()
        # How many clients had something, a sum over all of them.
        self._held = 0
        self._noted: list[_Noted] = []
        self._noted_bytes = 0
        # How much may be looked up until when.
        self._left = MOST_LOOKED_UP
        self._until_us = 0
        # Who was named: when it came, and what it had subscribed to.
        self._named: dict[ClientId, tuple[int, tuple[str, ...]]] = {}

    def note(self, routed: RoutedPublication, message: Message, now_us: int) -> None:
        """A traced publication goes to this broker's clients."""
        session = routed.mark
        assert session is not None
        publisher = self._publishers.get(session.publisher)
        if publisher is None:
            if len(self._publishers) >= MOST_PUBLISHERS:
                self._forget_oldest()
            publisher = self._publishers[session.publisher] = _Publisher()
        if session != publisher.last:
            self._begin(publisher, session, now_us)
        traced = publisher.current
        offset = routed.message_id.number - session.number
        if traced is None or traced.session != session or not 0 <= offset < MOST_BITS:
            return
        traced.noted_us = now_us
        self._noted.append((traced, offset, message))
        self._noted_bytes += len(message.payload)
        if len(self._noted) >= MOST_NOTED or self._noted_bytes > MOST_NOTED_BYTES:
            self._look_up(now_us)

    def _begin(self, publisher: _Publisher, session: MessageId, now_us: int) -> None:
        publisher.last = session
        if now_us < publisher.next_us:
            publisher.skipped += 1
            return
        self._drop(publisher.before)
        publisher.before = publisher.current
        publisher.current = _Traced(session, 1 + publisher.skipped)
        publisher.skipped, publisher.next_us = 0, now_us + EACH_US

    def who_had(self, session: MessageId, now_us: int) -> Had | None:
        """What a session's audience was, as far as it was looked at; it is forgotten."""
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
        self._drop(traced)
        gone = tuple(self._gone())
        for client in traced.had:
            named = self._state(client)
            if named is not None:
                self._named[client] = named
        return Had(
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
        """Those named before that are not here any more, or have subscribed to something else."""
        for client, state in list(self._named.items()):
            if self._state(client) != state:
                del self._named[client]
                yield client

    def _state(self, client: ClientId) -> tuple[int, tuple[str, ...]] | None:
        session = self._sessions.get(client)
        if session is None or not self._may_move(session):
            return None
        return session.entered_us, tuple(session.subscriptions)

    # --- who gets a publication ---------------------------------------------------------------

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
            # What has become of much since then is not looked for.
            if known is None or self._subscriptions.is_long(known):
                continue
            receivers = known.all
            if receivers is not None:
                bits: dict[_Traced, int] = defaultdict(int)
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
        self, traced: _Traced, bits: int, subscriptions: Collection[ClientSubscription]
    ) -> None:
        """All these had it, unless enough was looked at, or nobody asks any more."""
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
        self._drop(publisher.current)
        self._drop(publisher.before)

    def _drop(self, traced: _Traced | None) -> None:
        if traced is not None and not traced.is_over:
            traced.is_over = True
            self._held -= len(traced.had)

    def _may_move(self, session: Session) -> bool:
        """Whether its client is here, follows, and is not moved as a publisher."""
        outlet = session.outlet
        if outlet is None or not outlet.connection.follows:
            return False
        return not self._door.promising.of(session.client_id)
