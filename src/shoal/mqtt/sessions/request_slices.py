"""A SUBSCRIBE or UNSUBSCRIBE, handled in time slices of some topic filters each.

The whole packet is parsed before any of it takes effect, so that a malformed one has no effect.

>>> from shoal.mqtt.access import AllPermissions
>>> from shoal.mqtt.codec.packet_types import MQTT_5
>>> from shoal.mqtt.limits import DEFAULT_LIMITS
>>> from shoal.mqtt.sessions.retained import RetainedStore
>>> from shoal.mqtt.sessions.subscribed.subscriptions import SessionSubscriptions
>>> subscribing = Subscribing(DEFAULT_LIMITS, SessionSubscriptions(), RetainedStore(10))
>>> request = Subscribe(7, (SubscriptionRequest("flights?dep_delay > 30"),))
>>> session = Session("me", DEFAULT_LIMITS)
>>> granting = SubscribeGranting(subscribing, session, AllPermissions(), request, MQTT_5, 0)
>>> while not granting.is_done:
...     work = granting.run_slice(2_000)
>>> [code.name for code in granting.answer().reason_codes]
['SUCCESS']
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Generic, NamedTuple, TypeVar

from shoal.mqtt.access import Permissions
from shoal.mqtt.codec.fields import FieldReader
from shoal.mqtt.codec.packets import (
    Suback,
    Subscribe,
    SubscriptionRequest,
    Unsuback,
    Unsubscribe,
)
from shoal.mqtt.codec.properties import NO_PROPERTIES, Properties
from shoal.mqtt.codec.reason_codes import FIRST_ERROR, ReasonCode
from shoal.mqtt.codec.requests import read_requests, read_topic_filters
from shoal.mqtt.content import FILTER_WORK, FilterReader
from shoal.mqtt.sessions.session import ClientSubscription, Session
from shoal.mqtt.sessions.subscribing import Subscribing

# The bytes, and the number, of topic filters whose parsing is as much work as a publication.
_BYTES_PER_WORK, _READ_PER_WORK = 150, 5
# The bound of distinct reasons in one reason string.
_MOST_REASONS = 8

Asked = TypeVar("Asked")


class RequestedFilters(Generic[Asked]):
    """The topic filters of one packet: those that its decoder has read, and the `unread` rest.

    >>> topics = RequestedFilters(("a", "b"), b"\\0\\1c", read_topic_filters, "UNSUBSCRIBE")
    >>> topics.check(100), topics.is_checked, topics.count, list(topics)
    (1, True, 3, ['a', 'b', 'c'])
    """

    def __init__(
        self,
        first: tuple[Asked, ...],
        unread: bytes,
        read: Callable[[FieldReader], list[Asked]],
        packet: str,
    ) -> None:
        self._first = first
        self._read = read
        self._behind = FieldReader(unread, packet)
        # The number of topic filters, once all are checked.
        self.count = len(first)
        self.is_checked = not unread
        # The work since the last call of `take_work`.
        self._work = 0

    def check(self, most: int) -> int:
        """Parse to the end, or for about `most` work; returns the work. MqttError if malformed."""
        while not self.is_checked and self._work < most:
            self.count += len(self._some())
            if self._behind.at_end:
                self._behind.position, self.is_checked = 0, True
        return self.take_work()

    def __iter__(self) -> Iterator[Asked]:
        yield from self._first
        while not self._behind.at_end:
            yield from self._some()

    def _some(self) -> list[Asked]:
        begun = self._behind.position
        some = self._read(self._behind)
        self._work += len(some) // _READ_PER_WORK + 1
        self._work += (self._behind.position - begun) // _BYTES_PER_WORK
        return some

    def take_work(self) -> int:
        """The work of parsing since the last call."""
        work, self._work = self._work, 0
        return work


class Refusal(NamedTuple):
    """Topic filters of one packet that were refused for one reason: how many, the first, and
    why."""

    times: int
    topic_filter: str
    why: str


class SubscribeGranting:
    """A SUBSCRIBE of this version; `is_bridge` as in `ConnectionTerms`.

    `wanting` are the subscriptions that get retained messages after the SUBACK, `pasts` those that
    get their past then, `refusals` the refused ones by reason code.
    """

    def __init__(
        self,
        subscribing: Subscribing,
        session: Session,
        permissions: Permissions,
        packet: Subscribe,
        version: int,
        now_us: int,
        *,
        is_bridge: bool = False,
    ) -> None:
        self._subscribing = subscribing
        self._session = session
        self.permissions = permissions
        self._packet = packet
        self._now_us = now_us
        self._is_bridge = is_bridge
        self._topics = RequestedFilters(
            packet.requests,
            packet.unread,
            partial(read_requests, version=version),
            "SUBSCRIBE",
        )
        self._left = iter(self._topics)
        self._reader: FilterReader | None = None
        self._codes: list[ReasonCode] = []
        # Each reason once: many topic filters may be refused for the same.
        self._reasons: dict[str, None] = {}
        self.wanting: list[ClientSubscription] = []
        self.pasts: list[ClientSubscription] = []
        self.refusals: dict[ReasonCode, Refusal] = {}

    @property
    def is_done(self) -> bool:
        return self._topics.is_checked and len(self._codes) == self._topics.count

    def run_slice(self, most: int) -> int:
        """Parse the packet, then grant or refuse, until it is done or `most` work is done.

        Returns the work (see `TURN` in `serving`).
        """
        work = self._topics.check(most)
        if not self._topics.is_checked:
            return work
        limits = self._subscribing.limits
        if self._reader is None:
            self._reader = FilterReader(self._packet.properties.user_properties, limits)
            work += self._reader.take_work()
        while work < most and not self.is_done:
            if len(self._codes) >= limits.maximum_topic_filters:
                self._refuse_rest(limits.maximum_topic_filters)
                break
            self._grant(next(self._left), self._reader)
            work += FILTER_WORK + self._reader.take_work() + self._topics.take_work()
        return work

    def _grant(self, request: SubscriptionRequest, reader: FilterReader) -> None:
        if self._is_bridge:
            request = _as_of_a_bridge(request)
        grant = self._subscribing.grant(
            self._session,
            self.permissions,
            request,
            reader,
            self._packet.properties,
            self._now_us,
        )
        self._codes.append(grant.reason_code)
        if grant.retained is not None:
            self.wanting.append(grant.retained)
        if grant.past is not None:
            self.pasts.append(grant.past)
        if grant.reason_code >= FIRST_ERROR:
            self._note(grant.reason_code, 1, request.topic_filter, grant.reason or "")

    def _refuse_rest(self, most: int) -> None:
        count, reason = self._topics.count - len(self._codes), f"more than {most} topic filters"
        self._codes += [ReasonCode.QUOTA_EXCEEDED] * count
        self._note(ReasonCode.QUOTA_EXCEEDED, count, next(self._left).topic_filter, reason)

    def _note(self, code: ReasonCode, count: int, topic_filter: str, why: str) -> None:
        known = self.refusals.get(code, Refusal(0, topic_filter, why))
        self.refusals[code] = known._replace(times=known.times + count)
        if len(self._reasons) < _MOST_REASONS:
            self._reasons[why] = None

    def answer(self) -> Suback:
        properties = NO_PROPERTIES
        if self._reasons:
            properties = Properties(reason_string="; ".join(self._reasons))
        return Suback(self._packet.packet_id, tuple(self._codes), properties)


def _as_of_a_bridge(request: SubscriptionRequest) -> SubscriptionRequest:
    """The options that a bridge of 3.1.1 means; no-local is not allowed for groups."""
    is_shared = request.topic_filter.startswith("$share/")
    return SubscriptionRequest(
        request.topic_filter, request.qos, no_local=not is_shared, retain_as_published=True
    )


class UnsubscribeHandling:
    """An UNSUBSCRIBE; the answer has a reason code for each topic filter."""

    def __init__(self, subscribing: Subscribing, session: Session, packet: Unsubscribe) -> None:
        self._subscribing = subscribing
        self._session = session
        self._packet_id = packet.packet_id
        self._topics = RequestedFilters(
            packet.topic_filters, packet.unread, read_topic_filters, "UNSUBSCRIBE"
        )
        self._left = iter(self._topics)
        self._codes: list[ReasonCode] = []

    @property
    def is_done(self) -> bool:
        return self._topics.is_checked and len(self._codes) == self._topics.count

    def run_slice(self, most: int) -> int:
        """Like `SubscribeGranting.run_slice`."""
        work = self._topics.check(most)
        while work < most and not self.is_done:
            code, cost = self._subscribing.take_back(self._session, next(self._left))
            self._codes.append(code)
            work += cost + self._topics.take_work()
        return work

    def answer(self) -> Unsuback:
        return Unsuback(self._packet_id, tuple(self._codes))
