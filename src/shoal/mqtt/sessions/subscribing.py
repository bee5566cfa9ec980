"""What a client asks for in SUBSCRIBE: granted or refused, and what is retained for it.

>>> from shoal.mqtt.access import AllPermissions
>>> from shoal.mqtt.limits import DEFAULT_LIMITS
>>> subscriptions = Subscriptions()
>>> subscribing = Subscribing(DEFAULT_LIMITS, subscriptions, RetainedStore(10))
>>> request = Subscribe(7, (SubscriptionRequest("flights?dep_delay > 30"),))
>>> granting = Granting(subscribing, Session("me", DEFAULT_LIMITS), AllPermissions(), request)
>>> while not granting.is_done:
...     work = granting.go_on(2_000)
>>> suback, _ = granting.answer()
>>> [code.name for code in suback.reason_codes]
['SUCCESS']
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from shoal.matching import TopicError, matches
from shoal.model import EVERYTHING
from shoal.mqtt.access import Permissions
from shoal.mqtt.codec.packets import Suback, Subscribe, SubscriptionRequest, Unsuback, Unsubscribe
from shoal.mqtt.codec.properties import NO_PROPERTIES, Properties
from shoal.mqtt.codec.reason_codes import ReasonCode
from shoal.mqtt.content import (
    FILTER_WORK,
    ContentFilterError,
    FilterQuotaError,
    FilterReader,
    Json,
    read_attributes,
    work_on,
)
from shoal.mqtt.limits import Limits
from shoal.mqtt.messages import Message
from shoal.mqtt.sessions.delivering.delivery import MOST_AT_ONCE
from shoal.mqtt.sessions.delivering.outgoing import Outgoing
from shoal.mqtt.sessions.retained import RetainedStore
from shoal.mqtt.sessions.session import CANNOT_WRITE, ClientSubscription, Session
from shoal.mqtt.sessions.subscribed.receivers import Receivers
from shoal.mqtt.sessions.subscribed.subscriptions import Subscriptions

_RETAIN_IF_NEW = 1
# A slice of the search for retained messages is as much work as so many that are sent.
SLICE_WORK = 20
# And one test of a message as much as one, in which time so many bytes are read for attributes.
BYTES_PER_TEST = 256


class Grant(NamedTuple):
    """The answer to one topic filter of a SUBSCRIBE.

    `retained` is the subscription whose retained messages are to be sent now.
    """

    reason_code: ReasonCode
    reason: str | None = None
    retained: ClientSubscription | None = None


class Granting:
    """A SUBSCRIBE, answered a topic filter at a time, so that others have their turn meanwhile."""

    def __init__(
        self,
        subscribing: Subscribing,
        session: Session,
        permissions: Permissions,
        packet: Subscribe,
        *,
        is_bridge: bool = False,
    ) -> None:
        self._subscribing = subscribing
        self._session = session
        self._permissions = permissions
        self.packet = packet
        self._is_bridge = is_bridge
        self._reader: FilterReader | None = None
        self._grants: list[Grant] = []

    @property
    def is_done(self) -> bool:
        return self._reader is not None and len(self._grants) == len(self.packet.requests)

    def go_on(self, most: int) -> int:
        """Read what is asked for, then grant or refuse, until all is done or that was `most` work.

        How much it was (see `TURN` in `serving`).
        """
        packet, work = self.packet, 0
        if self._reader is None:
            properties = packet.properties
            self._reader = FilterReader(properties.user_properties, self._subscribing.limits)
            work += self._reader.take_work()
        while work < most and not self.is_done:
            request = packet.requests[len(self._grants)]
            if self._is_bridge:
                request = _as_of_a_bridge(request)
            grant = self._subscribing.grant(
                self._session, self._permissions, request, self._reader, packet.properties
            )
            self._grants.append(grant)
            work += FILTER_WORK + self._reader.take_work()
        return work

    def answer(self) -> tuple[Suback, list[ClientSubscription]]:
        """The answer, and the subscriptions that get what is retained once it is out."""
        packet, grants = self.packet, self._grants
        if packet.beyond:
            most = self._subscribing.limits.maximum_topic_filters
            refusal = Grant(ReasonCode.QUOTA_EXCEEDED, f"more than {most} topic filters")
            grants = grants + [refusal] * packet.beyond
        # Each once: many topic filters may be refused for one reason.
        reasons = dict.fromkeys(grant.reason for grant in grants if grant.reason is not None)
        properties = Properties(reason_string="; ".join(reasons)) if reasons else NO_PROPERTIES
        codes = tuple(grant.reason_code for grant in grants)
        wanting = [grant.retained for grant in grants if grant.retained is not None]
        return Suback(packet.packet_id, codes, properties), wanting


def _as_of_a_bridge(request: SubscriptionRequest) -> SubscriptionRequest:
    """What a bridge of 3.1.1 means, which has no words for it; groups know no `no local`."""
    is_shared = request.topic_filter.startswith("$share/")
    return SubscriptionRequest(
        request.topic_filter, request.qos, no_local=not is_shared, retain_as_published=True
    )


class TakingBack:
    """An UNSUBSCRIBE, as `Granting` a SUBSCRIBE; the answer says which subscriptions there were."""

    def __init__(self, subscribing: Subscribing, session: Session, packet: Unsubscribe) -> None:
        self._subscribing = subscribing
        self._session = session
        self._packet = packet
        self._codes: list[ReasonCode] = []

    @property
    def is_done(self) -> bool:
        return len(self._codes) == len(self._packet.topic_filters)

    def go_on(self, most: int) -> int:
        """Take back until all is done or that was `most` work; how much it was."""
        work = 0
        while work < most and not self.is_done:
            text = self._packet.topic_filters[len(self._codes)]
            code, cost = self._subscribing.take_back(self._session, text)
            self._codes.append(code)
            work += cost
        return work

    def answer(self) -> Unsuback:
        beyond = [ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR] * self._packet.beyond
        return Unsuback(self._packet.packet_id, (*self._codes, *beyond))


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
        self.known = subscriptions.known
        self._retained = retained
        self._json = json
        # How much more of what is retained may be looked for and sent at this time.
        self._sent_us, self._to_send = -1, MOST_AT_ONCE

    def look(self, topic: str) -> Receivers | None:
        """What is known of a topic; None while it is not (see `Subscriptions`)."""
        return self._subscriptions.look(topic)

    def work_of(self, topic: str) -> tuple[int, int]:
        """How much work a publication to a topic is, and how many filters (see `Subscriptions`)."""
        return self._subscriptions.work_of(topic)

    def work_of_content(self, message: Message, filters: int) -> int:
        """How much more it is where so many filters are asked at most (see `Subscriptions`)."""
        return self._subscriptions.work_of_content(message, filters)

    def prepare(self, message: Message, work_us: float) -> bool:
        """Look through a message's texts for so long; whether that is all."""
        return self._subscriptions.prepare_message(message, work_us)

    def grant(
        self,
        session: Session,
        permissions: Permissions,
        request: SubscriptionRequest,
        reader: FilterReader,
        properties: Properties,
    ) -> Grant:
        """Grant or refuse one topic filter."""
        text = request.topic_filter
        try:
            filter = reader.read(text)
        except FilterQuotaError as error:
            return Grant(ReasonCode.QUOTA_EXCEEDED, str(error))
        except ContentFilterError as error:
            return Grant(ReasonCode.TOPIC_FILTER_INVALID, str(error))
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
            return Grant(ReasonCode.NOT_AUTHORIZED, f"no permission to subscribe to {text!r}")
        if (
            len(session.subscriptions) >= self.limits.maximum_subscriptions
            and text not in session.subscriptions
        ):
            return Grant(ReasonCode.QUOTA_EXCEEDED, "too many subscriptions of one client")
        too_much = self._too_much(subscription)
        if too_much:
            return Grant(ReasonCode.QUOTA_EXCEEDED, too_much)
        if session.journal is not None and session.journal.is_failing:
            return Grant(ReasonCode.QUOTA_EXCEEDED, CANNOT_WRITE)
        try:
            is_new = self._subscriptions.add(subscription)
        except TopicError as error:
            return Grant(ReasonCode.TOPIC_FILTER_INVALID, str(error))
        if session.journal is not None:
            session.journal.subscribed(subscription)
        handling = request.retain_handling
        wants_retained = not subscription.shared and (
            handling == 0 or (handling == _RETAIN_IF_NEW and is_new)
        )
        return Grant(ReasonCode(request.qos), None, subscription if wants_retained else None)

    def _too_much(self, subscription: ClientSubscription) -> str:
        """Whose subscriptions would take too much memory with this one; empty if nobody's."""
        session, limits = subscription.session, self.limits
        known = session.subscriptions.get(subscription.text)
        more = subscription.size - (0 if known is None else known.size)
        if more <= 0:
            return ""
        for whose, size, most in (
            ("one client", session.subscription_bytes, limits.maximum_subscription_bytes),
            ("one user", session.user_subscription_bytes, limits.maximum_user_subscription_bytes),
            ("all clients", self._subscriptions.bytes, limits.maximum_all_subscription_bytes),
        ):
            if size + more > most:
                return f"more than {most} bytes of subscriptions of {whose}"
        return ""

    def take_back(self, session: Session, text: str) -> tuple[ReasonCode, int]:
        """Take a subscription back; the answer, and how much work it was."""
        known = self._subscriptions.remove(session, text)
        if known is None:
            return ReasonCode.NO_SUBSCRIPTION_EXISTED, FILTER_WORK
        if session.journal is not None:
            session.journal.unsubscribed(session, text)
        return ReasonCode.SUCCESS, work_on(known.content)

    def send_retained(self, subscription: ClientSubscription, now_us: int) -> None:
        """Send a new subscription the retained messages it matches [MQTT-3.3.1-9 and others]."""
        if now_us != self._sent_us:
            self._sent_us, self._to_send = now_us, MOST_AT_ONCE
        session, retained = subscription.session, self._retained_for(subscription, now_us)
        sent = session.feed(subscription.text, retained, now_us, max(0, self._to_send))
        self._to_send -= sent

    def _retained_for(
        self, subscription: ClientSubscription, now_us: int
    ) -> Iterator[Outgoing | int]:
        """What is retained for a subscription; ends when it is taken back or replaced.

        And how much work it was to look for it: few messages may match of many that are tested.
        """
        session, content = subscription.session, subscription.content
        tests = 1 + sum(map(len, content.normal_form))
        for message in self._retained.search(subscription.topic_filter, now_us):
            if message is None:
                yield SLICE_WORK
                continue
            if content != EVERYTHING:
                yield tests + message.size // BYTES_PER_TEST
            if session.subscriptions.get(subscription.text) is not subscription:
                return
            if subscription.no_local and session.client_id == message.publisher:
                continue
            if content == EVERYTHING or matches(content, read_attributes(message, self._json)):
                qos = min(message.qos, subscription.qos)
                yield Outgoing(message, qos, True, subscription.identifiers)
