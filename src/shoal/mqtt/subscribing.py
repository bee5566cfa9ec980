"""What a client asks for in SUBSCRIBE: granted or refused, and what is retained for it.

>>> from shoal.mqtt.access import AllPermissions
>>> from shoal.mqtt.limits import DEFAULT_LIMITS
>>> subscriptions = Subscriptions()
>>> subscribing = Subscribing(DEFAULT_LIMITS, subscriptions, RetainedStore(10))
>>> request = Subscribe(7, (SubscriptionRequest("flights?dep_delay > 30"),))
>>> suback, _ = subscribing.subscribe(Session("me", DEFAULT_LIMITS), AllPermissions(), request)
>>> [code.name for code in suback.reason_codes]
['SUCCESS']
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from shoal.matching import TopicError, matches
from shoal.model import EVERYTHING
from shoal.mqtt.access import Permissions
from shoal.mqtt.content import (
    ContentFilterError,
    FilterQuotaError,
    FilterReader,
    Json,
    attributes_of,
)
from shoal.mqtt.journal import CANNOT_WRITE
from shoal.mqtt.limits import Limits
from shoal.mqtt.packets import Suback, Subscribe, SubscriptionRequest, Unsuback, Unsubscribe
from shoal.mqtt.properties import NO_PROPERTIES, Properties
from shoal.mqtt.reason_codes import ReasonCode
from shoal.mqtt.retained import RetainedStore
from shoal.mqtt.session import ClientSubscription, Outgoing, Session
from shoal.mqtt.subscriptions import Subscriptions

_RETAIN_IF_NEW = 1
# Tests of retained messages that are done before others have their turn, some 10 ms; and how many
# bytes of a message are read for attributes in the time of one.
SLICE_TESTS = 2_000
BYTES_PER_TEST = 256


class _Grant(NamedTuple):
    """The answer to one topic filter of a SUBSCRIBE.

    `retained` is the subscription whose retained messages are to be sent now.
    """

    reason_code: ReasonCode
    reason: str | None = None
    retained: ClientSubscription | None = None


class Subscribing:
    """Takes clients' subscriptions in, as far as `limits` and permissions allow."""

    def __init__(
        self,
        limits: Limits,
        subscriptions: Subscriptions,
        retained: RetainedStore,
        json: Json = "auto",
    ) -> None:
        self.limits = limits
        self._subscriptions = subscriptions
        self._retained = retained
        self._json = json

    def subscribe(
        self, session: Session, permissions: Permissions, packet: Subscribe
    ) -> tuple[Suback, list[ClientSubscription]]:
        """The answer, and the subscriptions that get what is retained once it is out."""
        reader = FilterReader(packet.properties.user_properties, self.limits)
        grants = [
            self._grant(session, permissions, request, reader, packet.properties)
            for request in packet.requests
        ]
        if packet.beyond:
            most = self.limits.maximum_topic_filters
            refusal = _Grant(ReasonCode.QUOTA_EXCEEDED, f"more than {most} topic filters")
            grants += [refusal] * packet.beyond
        # Each once: many topic filters may be refused for one reason.
        reasons = dict.fromkeys(grant.reason for grant in grants if grant.reason is not None)
        properties = Properties(reason_string="; ".join(reasons)) if reasons else NO_PROPERTIES
        codes = tuple(grant.reason_code for grant in grants)
        wanting = [grant.retained for grant in grants if grant.retained is not None]
        return Suback(packet.packet_id, codes, properties), wanting

    def _grant(
        self,
        session: Session,
        permissions: Permissions,
        request: SubscriptionRequest,
        reader: FilterReader,
        properties: Properties,
    ) -> _Grant:
        """Grant or refuse one topic filter."""
        text = request.topic_filter
        try:
            filter = reader.read(text)
        except FilterQuotaError as error:
            return _Grant(ReasonCode.QUOTA_EXCEEDED, str(error))
        except ContentFilterError as error:
            return _Grant(ReasonCode.TOPIC_FILTER_INVALID, str(error))
        subscription = ClientSubscription(
            session,
            text,
            filter.topic_filter,
            filter.content,
            qos=request.qos,
            no_local=request.no_local,
            retain_as_published=request.retain_as_published,
            identifiers=properties.subscription_identifiers,
        )
        if not permissions.may_subscribe(subscription.wanted_topics):
            return _Grant(ReasonCode.NOT_AUTHORIZED, f"no permission to subscribe to {text!r}")
        if (
            len(session.subscriptions) >= self.limits.maximum_subscriptions
            and text not in session.subscriptions
        ):
            return _Grant(ReasonCode.QUOTA_EXCEEDED, "too many subscriptions of one client")
        if session.journal is not None and session.journal.is_failing:
            return _Grant(ReasonCode.QUOTA_EXCEEDED, CANNOT_WRITE)
        try:
            is_new = self._subscriptions.add(subscription)
        except TopicError as error:
            return _Grant(ReasonCode.TOPIC_FILTER_INVALID, str(error))
        if session.journal is not None:
            session.journal.subscribed(subscription)
        handling = request.retain_handling
        wants_retained = not subscription.shared and (
            handling == 0 or (handling == _RETAIN_IF_NEW and is_new)
        )
        return _Grant(ReasonCode(request.qos), None, subscription if wants_retained else None)

    def unsubscribe(self, session: Session, packet: Unsubscribe) -> Unsuback:
        """Take subscriptions back; the answer says which there were."""
        codes = [self._take_back(session, text) for text in packet.topic_filters]
        codes += [ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR] * packet.beyond
        return Unsuback(packet.packet_id, tuple(codes))

    def _take_back(self, session: Session, text: str) -> ReasonCode:
        if self._subscriptions.remove(session, text) is None:
            return ReasonCode.NO_SUBSCRIPTION_EXISTED
        if session.journal is not None:
            session.journal.unsubscribed(session, text)
        return ReasonCode.SUCCESS

    def send_retained(self, subscription: ClientSubscription, now_us: int) -> None:
        """Send a new subscription the retained messages it matches [MQTT-3.3.1-9 and others]."""
        session = subscription.session
        session.feed(subscription.text, self._retained_for(subscription, now_us), now_us)

    def _retained_for(
        self, subscription: ClientSubscription, now_us: int
    ) -> Iterator[Outgoing | None]:
        """What is retained for a subscription; ends when it is taken back or replaced.

        None where others should have their turn: few messages may match of many that are tested.
        """
        session, content = subscription.session, subscription.content
        tests = 1 + sum(map(len, content.normal_form))
        left = SLICE_TESTS
        for message in self._retained.matching(subscription.topic_filter, now_us):
            if content != EVERYTHING:
                left -= tests
                if message.attributes is None:
                    left -= message.size // BYTES_PER_TEST
                if left < 0:
                    left = SLICE_TESTS
                    yield None
            if session.subscriptions.get(subscription.text) is not subscription:
                return
            if subscription.no_local and session.client_id == message.publisher:
                continue
            if content == EVERYTHING or matches(content, attributes_of(message, self._json)):
                qos = min(message.qos, subscription.qos)
                yield Outgoing(message, qos, True, subscription.identifiers)
