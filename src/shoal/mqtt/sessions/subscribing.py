"""Grants or refuses subscriptions, and sends retained messages to new ones.

`request_slices.py` handles whole packets, some topic filters at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol

from shoal.attributes import Json
from shoal.matching import TopicError, matches
from shoal.model import EVERYTHING
from shoal.mqtt.access import Permissions
from shoal.mqtt.codec.packets import SubscriptionRequest
from shoal.mqtt.codec.properties import Properties
from shoal.mqtt.codec.reason_codes import ReasonCode
from shoal.mqtt.content import (
    FILTER_WORK,
    ContentFilterError,
    FilterQuotaError,
    FilterReader,
    attributes_of,
    work_on,
)
from shoal.mqtt.limits import MqttLimits
from shoal.mqtt.messages import PublishedMessage
from shoal.mqtt.sessions.conflating import Conflation
from shoal.mqtt.sessions.delivering.delivery import MOST_AT_ONCE
from shoal.mqtt.sessions.delivering.outgoing import Outgoing
from shoal.mqtt.sessions.live_gate import LiveGate
from shoal.mqtt.sessions.retained import RetainedStore
from shoal.mqtt.sessions.session import CANNOT_WRITE, ClientSubscription, Session
from shoal.mqtt.sessions.subscribed.receivers import Receivers
from shoal.mqtt.sessions.subscribed.subscriptions import SessionSubscriptions

_RETAIN_IF_NEW = 1
SHARED_CONFLATION = (
    "$every and $changed: not for a shared subscription, as each publisher's broker chooses the "
    "member; subscribe without $share, or conflate at the members"
)
# The work of a slice of the search for retained messages, in messages sent.
SLICE_WORK = 20
# One test of a message is as much work as sending one; so many bytes are parsed in that time.
BYTES_PER_TEST = 256


class PastRefusal(NamedTuple):
    """The reason to refuse a subscription with a past."""

    reason_code: ReasonCode
    reason: str


class SubscriptionPasts(Protocol):
    """Gives subscriptions a past (see `replaying`)."""

    def gate(
        self, session: Session, since: str, is_shared: bool, now_us: int
    ) -> LiveGate | PastRefusal:
        """The gate of a new subscription, or the reason to refuse it."""

    def begin(self, subscription: ClientSubscription, now_us: int) -> None:
        """Begin to deliver the past of a subscription."""


class Grant(NamedTuple):
    """The answer to one topic filter of a SUBSCRIBE.

    `retained` is the subscription whose retained messages are to be sent now, `past` the one whose
    past is.
    """

    reason_code: ReasonCode
    reason: str | None = None
    retained: ClientSubscription | None = None
    past: ClientSubscription | None = None


class Subscribing:
    """Installs clients' subscriptions, as far as `limits` and permissions allow."""

    def __init__(
        self,
        limits: MqttLimits,
        subscriptions: SessionSubscriptions,
        retained: RetainedStore,
        json: Json = "auto",
    ) -> None:
        self.limits = limits
        self._subscriptions = subscriptions
        self.known = subscriptions.known
        self._retained = retained
        self._json = json
        # The pasts of subscriptions, where a driver has logs.
        self.pasts: SubscriptionPasts | None = None
        self.conflation: Conflation | None = None
        # The retained messages that may still be searched and sent at this time.
        self._sent_us, self._to_send = -1, MOST_AT_ONCE

    def look(self, topic: str) -> Receivers | None:
        """The receivers of a topic; None if they are not known yet (see `SessionSubscriptions`)."""
        return self._subscriptions.look(topic)

    def work_of(self, topic: str) -> tuple[int, int]:
        """The work of a publication to a topic, and its content filters (see
        `SessionSubscriptions`).
        """
        return self._subscriptions.work_of(topic)

    def work_of_content(self, message: PublishedMessage, filters: int) -> int:
        """The additional work of the content filters (see `SessionSubscriptions`)."""
        return self._subscriptions.work_of_content(message, filters)

    @property
    def are_plain(self) -> bool:
        """Whether all subscriptions are plain."""
        return self._subscriptions.are_plain

    def are_costly(self, topic: str) -> bool:
        """Whether filters of a topic have expressions that may take more than a time slice."""
        return self._subscriptions.are_costly(topic)

    def prepare(self, message: PublishedMessage, work_us: float) -> bool:
        """Search a message's texts in advance for this time; returns whether it is complete."""
        return self._subscriptions.prepare_message(message, work_us)

    def grant(
        self,
        session: Session,
        permissions: Permissions,
        request: SubscriptionRequest,
        reader: FilterReader,
        properties: Properties,
        now_us: int,
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
            conflation=filter.conflation,
        )
        levels, most = subscription.wanted_topics.count("/") + 1, self.limits.maximum_topic_levels
        if levels > most:
            why = f"a topic filter of {levels} levels; at most {most} are accepted"
            return Grant(ReasonCode.TOPIC_FILTER_INVALID, why)
        if not permissions.may_subscribe(subscription.wanted_topics):
            return Grant(ReasonCode.NOT_AUTHORIZED, f"no permission to subscribe to {text!r}")
        if (
            len(session.subscriptions) >= self.limits.maximum_subscriptions
            and text not in session.subscriptions
        ):
            return Grant(ReasonCode.QUOTA_EXCEEDED, "too many subscriptions of one client")
        if subscription.shared and filter.conflation is not None:
            return Grant(ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR, SHARED_CONFLATION)
        too_much = self._too_much(subscription)
        if too_much:
            return Grant(ReasonCode.QUOTA_EXCEEDED, too_much)
        if session.journal is not None and session.journal.is_failing:
            return Grant(ReasonCode.QUOTA_EXCEEDED, CANNOT_WRITE)
        is_resumed = False
        if filter.since:
            gate = self._gate(subscription, filter.since, request.retain_handling, now_us)
            if isinstance(gate, PastRefusal):
                return Grant(*gate)
            is_resumed = gate is not None and gate is _gate_of(session, text)
            subscription.gate = gate
            subscription.is_plain = subscription.is_plain and gate is None
        self._replace_conflator(subscription, now_us)
        try:
            is_new = self._subscriptions.add(subscription)
        except TopicError as error:
            return Grant(ReasonCode.TOPIC_FILTER_INVALID, str(error))
        if session.journal is not None:
            session.journal.subscribed(subscription)
        handling = request.retain_handling
        wants_retained = not (subscription.shared or is_resumed) and (
            handling == 0 or (handling == _RETAIN_IF_NEW and is_new)
        )
        retained = subscription if wants_retained else None
        past = subscription if subscription.gate is not None else None
        return Grant(ReasonCode(request.qos), None, retained, past)

    def _gate(
        self, subscription: ClientSubscription, since: str, retain_handling: int, now_us: int
    ) -> LiveGate | PastRefusal | None:
        """The gate of a subscription with a past; None if its past is not wanted again."""
        session, text = subscription.session, subscription.text
        known = session.subscriptions.get(text)
        gate = None if known is None else known.gate
        is_same = (
            known is not None
            and gate is not None
            and gate.since == since
            and known.topic_filter == subscription.topic_filter
            and known.content == subscription.content
        )
        if is_same and gate is not None and not gate.is_over:
            return gate
        if known is not None and retain_handling == _RETAIN_IF_NEW:
            return gate
        if self.pasts is None:
            return PastRefusal(ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR, "$from: there is no log")
        return self.pasts.gate(session, since, subscription.shared, now_us)

    def _replace_conflator(self, subscription: ClientSubscription, now_us: int) -> None:
        """Keep the conflation of a subscription that is repeated; end it if another replaces it."""
        session = subscription.session
        known = session.subscriptions.get(subscription.text)
        if known is None or known.conflator is None:
            return
        conflator, rule = known.conflator, known.conflator.rule
        if (
            subscription.conflator is not None
            and subscription.conflator.rule == rule
            and known.topic_filter == subscription.topic_filter
            and known.content == subscription.content
            and known.gate is subscription.gate
        ):
            subscription.conflator = conflator
            conflator.subscription = subscription
            if session.journal is not None and known.qos != subscription.qos:
                for key in conflator:  # whether a held message outlasts a kill depends on its QoS
                    session.journal.conflated(conflator, key)
            return
        if self.conflation is not None:
            self.conflation.open_all(known, now_us)
        if session.journal is not None:
            session.journal.conflation_reset(known)

    def _too_much(self, subscription: ClientSubscription) -> str:
        """The reason why the subscription takes too much memory; empty if it does not."""
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
        """Remove a subscription; returns the reason code, and the work."""
        known = self._subscriptions.remove(session, text)
        if known is None:
            return ReasonCode.NO_SUBSCRIPTION_EXISTED, FILTER_WORK
        if session.journal is not None:
            session.journal.unsubscribed(session, text)
        return ReasonCode.SUCCESS, work_on(known.content)

    def send_retained(
        self, session: Session, wanting: Iterable[ClientSubscription], now_us: int
    ) -> None:
        """Send matching retained messages to new subscriptions [MQTT-3.3.1-9 and others]."""
        if now_us != self._sent_us:
            self._sent_us, self._to_send = now_us, MOST_AT_ONCE
        found = ((each.text, self._retained_for(each, now_us)) for each in wanting)
        self._to_send -= session.feed(found, now_us, max(0, self._to_send))

    def begin_past(self, subscription: ClientSubscription, now_us: int) -> None:
        """Begin to deliver the past of a subscription that is granted."""
        if self.pasts is not None:
            self.pasts.begin(subscription, now_us)

    def _retained_for(
        self, subscription: ClientSubscription, now_us: int
    ) -> Iterator[Outgoing | int]:
        """Retained messages for a subscription, until it is removed or replaced.

        Also yields the work of the search as numbers: few of many tested messages may match.
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
            # Later ones are in the past of the subscription.
            gate = subscription.gate
            if gate is not None and message.published_us >= gate.from_us:
                continue
            if subscription.no_local and session.client_id == message.publisher:
                continue
            if content == EVERYTHING or matches(content, attributes_of(message, self._json)):
                qos = min(message.qos, subscription.qos)
                via = () if subscription.conflator is None else (subscription.text,)
                yield Outgoing(message, qos, True, subscription.identifiers, via=via)


def _gate_of(session: Session, text: str) -> LiveGate | None:
    known = session.subscriptions.get(text)
    return None if known is None else known.gate
