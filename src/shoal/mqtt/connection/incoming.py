"""Publications of one client: topic aliases, permissions, flow control and acknowledgements.

| PUBLISH | QoS 1 | QoS 2, new | QoS 2, not released yet |
| --- | --- | --- | --- |
| allowed | published, PUBACK | published, remembered, PUBREC | PUBREC |
| not allowed, MQTT 5 | PUBACK, 0x87 | PUBREC, 0x87 | |
| too many levels, MQTT 5 | PUBACK, 0x90 | PUBREC, 0x90 | |
| either, 3.1.1 | PUBACK | remembered, PUBREC | PUBREC |
| cannot be kept, MQTT 5 | PUBACK, 0x97 | PUBREC, 0x97 | PUBREC |
| far beyond the rate, MQTT 5 | PUBACK, 0x97 | PUBREC, 0x97 | PUBREC |
| cannot be kept, 3.1.1 | closed | closed | PUBREC |

PUBREL forgets a remembered packet identifier, and is answered by PUBCOMP.

In a network PUBACK and PUBREC wait until the publication is settled: until it is in the sessions
of all its subscribers in the network, or on a disk for those behind a disconnected broker. They go
out in the order of the publications [MQTT-4.6.0-2, MQTT-4.6.0-3], so later ones wait for an earlier
one. While as many answers as the receive maximum are owed to a client, its publications wait; its
PINGREQs are answered, and beyond a bound the connection is not read.

Source: MQTT Version 5.0, sections 3.3 to 3.7, 4.3 and 4.9.
"""

from __future__ import annotations

from collections import deque
from functools import partial

from shoal.attributes import MAX_TEXT
from shoal.matching.long_texts import LONG
from shoal.mqtt.access import ALL_PERMISSIONS, Permissions
from shoal.mqtt.broker_topics import is_brokers_own
from shoal.mqtt.codec.encoder import encode_acknowledgement
from shoal.mqtt.codec.errors import MqttError, protocol_error
from shoal.mqtt.codec.packet_types import MQTT_5
from shoal.mqtt.codec.packets import Puback, Pubcomp, Publish, Pubrec, Pubrel
from shoal.mqtt.codec.properties import NO_PROPERTIES, Properties
from shoal.mqtt.codec.reason_codes import FIRST_ERROR, ReasonCode
from shoal.mqtt.connection.broker_api import BrokerApi
from shoal.mqtt.connection.session_writer import SessionWriter
from shoal.mqtt.front_end.pending_acks import OwedAck
from shoal.mqtt.messages import PublishedMessage, message_of_publish
from shoal.mqtt.sessions.session import Session
from shoal.mqtt.sessions.subscribed.subscriptions import SHORT, TESTS_PER_WORK, alone

# The reason to refuse a publication that the client's rate does not allow.
_BEYOND_RATE = "it is larger than the rates of [limits] allow"

_PUBACK, _PUBREC, _PUBCOMP = 0x40, 0x50, 0x70
# The number of topics of a connection whose permission is cached; then all are dropped.
_REMEMBERED_PERMISSIONS = 1_024

# Characters of a connection's topics: of those with an alias (0x97), and of those cached.
MOST_ALIASED, _MOST_REMEMBERED = 131_072, 131_072

# A long text for this many filters is matched in advance, in time slices of so long, and in at
# most so many.
MANY_FILTERS, PREPARING_US, MOST_TURNS = 500, 10_000, 100

# The work and the number of filters of most topics.
_LITTLE = (1, 0)


class Incoming:
    """The publications of one connection."""

    __slots__ = (
        "_aliased",
        "_aliases",
        "_broker_api",
        "_is_free",
        "_known",
        "_limits",
        "_may_publish",
        "_owed",
        "_permissions",
        "_permitted",
        "_receiving",
        "_session",
        "_session_writer",
        "_spreading",
        "_turns",
    )

    def __init__(
        self,
        broker_api: BrokerApi,
        session: Session,
        permissions: Permissions,
        session_writer: SessionWriter,
    ) -> None:
        self._broker_api = broker_api
        self._spreading = broker_api.spreading
        # Properties of topics.
        self._known = broker_api.subscribing.known
        # The limits of the CONNACK hold as long as the connection.
        self._limits = broker_api.limits
        self._session = session
        self._session_writer = session_writer
        # Fields that a client without publications does not need are None until they are used.
        # QoS 2 publications of this connection that are not released yet; only of MQTT 5.
        self._receiving: set[int] | None = None
        # The topics of aliases, and the sum of their characters.
        self._aliases: dict[int, str] | None = None
        self._aliased = 0
        self.grant(permissions)
        # The oldest first; the oldest is not settled.
        self._owed: deque[OwedAck] | None = None
        # The number of time slices in which the next publication was matched in advance.
        self._turns = 0

    def grant(self, permissions: Permissions) -> None:
        """Install new permissions; cached ones are dropped."""
        self._permissions = permissions
        # Whether the client may publish to all topics but the broker's own.
        self._is_free = permissions is ALL_PERMISSIONS
        self._may_publish: dict[str, bool] | None = None
        self._permitted = 0

    @property
    def is_full(self) -> bool:
        """Whether the broker owes the client as many answers as its receive maximum."""
        return self._owed is not None and len(self._owed) >= self._limits.receive_maximum

    @property
    def owes(self) -> bool:
        """Whether the client waits for an acknowledgement of a publication."""
        return bool(self._owed)

    def is_prepared(self, packet: Publish, now_us: int) -> bool:
        """Match a publication's long texts, and evaluate costly expressions, for a time slice;
        returns whether it may be handled.
        """
        is_prepared = self._turns >= MOST_TURNS or self._prepare(packet, now_us)
        self._turns = 0 if is_prepared else self._turns + 1
        return is_prepared

    def _prepare(self, packet: Publish, now_us: int) -> bool:
        topic = packet.topic or self._topic(packet)
        subscribing, is_long = self._broker_api.subscribing, _characters(packet, topic) >= LONG
        if (not is_long and subscribing.are_plain) or self._is_too_deep(topic):
            return True
        known = subscribing.look(topic)
        if known is None:
            return not is_long
        _, filters = known.work
        if filters < MANY_FILTERS or not (is_long or subscribing.are_costly(topic)):
            return True
        message = message_of_publish(packet, topic, self._session.client_id, now_us)
        return subscribing.prepare(message, PREPARING_US)

    def on_publish(self, packet: Publish, now_us: int, is_alone: bool = False) -> int:
        """Handle a publication; returns its work, in the units of `serving.TURN`.

        At QoS 0 it is gathered until the broker's `settle`, unless it `is_alone`.
        """
        session = self._session
        topic, qos, packet_id = packet.topic, packet.qos, packet.packet_id
        if packet.properties is not NO_PROPERTIES:
            topic = self._topic(packet)
        if qos == 2:
            if packet_id in session.received:
                self._answer_again(packet_id, topic)
                return 1
            # 3.1.1 has no receive maximum: its bound are the 65,535 packet identifiers, 4 MB. The
            # connection cannot stop reading, because PUBREL comes behind the publications.
            unreleased = len(self._receiving or ())
            if (
                self._session_writer.version == MQTT_5
                and unreleased >= self._limits.receive_maximum
            ):
                raise MqttError(
                    ReasonCode.RECEIVE_MAXIMUM_EXCEEDED,
                    f"{unreleased} publications of QoS 2 are not released yet",
                )
        if qos:
            refusal = self._broker_api.reason_to_refuse(now_us)
            if not refusal and self.is_beyond_rate(packet):
                refusal = _BEYOND_RATE
            if refusal:
                self._refuse_publication(qos, packet_id, refusal, topic)
                return 1
        code, work = ReasonCode.SUCCESS, 1
        message: PublishedMessage | None = None
        if len(topic) >= self._limits.maximum_topic_levels and self._is_too_deep(topic):
            code = ReasonCode.TOPIC_NAME_INVALID
            self._count_refusal(code, topic, self._reason(code, topic))
        elif (self._is_free and topic[0] != "$") or self._is_allowed(topic):
            session.published += 1
            message = message_of_publish(packet, topic, session.client_id, now_us)
            known = self._known.get(topic)
            if known is not None and known.work != _LITTLE:
                work = self._work(packet, message, *known.work)
            if not (qos or is_alone):
                self._broker_api.publish_soon(message, now_us)
            elif not self._broker_api.publish(message, now_us) and qos == 1:
                code = ReasonCode.NO_MATCHING_SUBSCRIBERS
            if known is None and not self._spreading.is_on:
                known = self._known.get(topic)
                found = self._broker_api.subscribing.work_of(topic) if known is None else known.work
                if found != _LITTLE:
                    work = self._work(packet, message, *found)
        else:
            code = ReasonCode.NOT_AUTHORIZED
            self._count_refusal(code, topic, "no permission")
        if qos:
            self._answer(qos, packet_id, code, topic, message)
        # A sliced fan-out has begun: the next publication comes after it.
        return 1 if self._spreading.is_on else work

    def _work(self, packet: Publish, message: PublishedMessage, work: int, filters: int) -> int:
        """The work of a publication, by its size and the properties of its topic."""
        if work > 1 and (packet.qos or packet.retain):
            work = alone(work)
        is_little = filters < TESTS_PER_WORK and packet.size < SHORT and packet.topic
        if filters and not is_little:
            work += self._broker_api.subscribing.work_of_content(message, filters)
        return work

    def is_beyond_rate(self, packet: Publish) -> bool:
        """Whether the publication alone takes more than the longest wait for its rate."""
        rates = self._broker_api.rates
        can_refuse = packet.qos and self._session_writer.version == MQTT_5
        return rates.is_on and bool(can_refuse) and rates.is_too_large(packet.size)

    def _count_refusal(self, code: ReasonCode, topic: str, why: str) -> None:
        statistics = self._broker_api.statistics
        statistics.publications_refused += 1
        party = self._session_writer.connection.party
        statistics.notices.refuse("publish refused", code, party, topic, why)

    def _refuse_publication(self, qos: int, packet_id: int, refusal: str, topic: str) -> None:
        """Refuse a publication that cannot be kept; 3.1.1 has no such answer."""
        self._count_refusal(ReasonCode.QUOTA_EXCEEDED, topic, refusal)
        if self._session_writer.version != MQTT_5:
            raise MqttError(ReasonCode.QUOTA_EXCEEDED, refusal)
        kind = Puback if qos == 1 else Pubrec
        properties = Properties(reason_string=refusal)
        self._session_writer.send_answer(kind(packet_id, ReasonCode.QUOTA_EXCEEDED, properties))

    def _topic(self, packet: Publish) -> str:
        """The topic of a publication with properties, after its topic alias."""
        properties = packet.properties
        if properties.subscription_identifiers:
            raise protocol_error("PUBLISH with a subscription identifier [MQTT-3.3.4-6]")
        alias = properties.topic_alias
        if alias is None:
            return packet.topic
        maximum = self._limits.topic_alias_maximum
        if alias > maximum:
            raise MqttError(
                ReasonCode.TOPIC_ALIAS_INVALID,
                f"topic alias {alias} is above {maximum} [MQTT-3.3.2-9]",
            )
        if self._aliases is None:
            self._aliases = {}
        if packet.topic:
            self._aliased += len(packet.topic) - len(self._aliases.get(alias, ""))
            if self._aliased > MOST_ALIASED:
                reason = f"aliases stand for topics of over {MOST_ALIASED} characters together"
                raise MqttError(ReasonCode.QUOTA_EXCEEDED, reason)
            self._aliases[alias] = packet.topic
            return packet.topic
        topic = self._aliases.get(alias)
        if topic is None:
            raise protocol_error(f"topic alias {alias} stands for no topic yet")
        return topic

    def _is_too_deep(self, topic: str) -> bool:
        return topic.count("/") >= self._limits.maximum_topic_levels

    def _reason(self, code: ReasonCode, topic: str) -> str:
        """The reason string of a refused publication."""
        if code is ReasonCode.TOPIC_NAME_INVALID:
            most = self._limits.maximum_topic_levels
            return f"a topic of {topic.count('/') + 1} levels; at most {most} are accepted"
        return f"no permission to publish to {topic!r}"

    def _is_allowed(self, topic: str) -> bool:
        if topic[:1] == "$" and is_brokers_own(topic):
            return False
        if self._permissions is ALL_PERMISSIONS:
            return True
        if self._may_publish is None:
            self._may_publish = {}
        known = self._may_publish.get(topic)
        if known is None:
            self._permitted += len(topic)
            is_much = self._permitted > _MOST_REMEMBERED
            if is_much or len(self._may_publish) >= _REMEMBERED_PERMISSIONS:
                self._may_publish.clear()
                self._permitted = len(topic)
            known = self._may_publish[topic] = self._permissions.may_publish(topic)
        return known

    def _remember(self, packet_id: int, code: ReasonCode) -> None:
        """Remember the packet identifier of a QoS 2 publication until its PUBREL."""
        if code < FIRST_ERROR or self._session_writer.version != MQTT_5:
            self._session.remember((packet_id,))
            if self._session_writer.version == MQTT_5:
                if self._receiving is None:
                    self._receiving = set()
                self._receiving.add(packet_id)

    def _answer(
        self,
        qos: int,
        packet_id: int,
        code: ReasonCode,
        topic: str,
        message: PublishedMessage | None,
    ) -> None:
        """Acknowledge a publication, at once or when it is settled; None: it is refused."""
        if qos == 2:
            self._remember(packet_id, code)
        # A publication that the front end has sent has a key.
        key = message.key if message is not None else None
        if key is None and not (self._owed or self._spreading.is_on):
            if qos == 2:
                self._has_received(packet_id)
            self._acknowledge(qos, packet_id, code, topic)
            return
        owed = OwedAck(self, qos, packet_id, code, topic)
        self._owe(owed, key[1] if key is not None else None)
        journal = self._session.journal if qos == 2 else None
        may_again = key is not None and self._broker_api.may_retransmit(key)
        if message is not None and may_again and journal is not None:
            owed.message = message
            journal.unsettled(self._session, packet_id, message)

    def _acknowledge(self, qos: int, packet_id: int, code: ReasonCode, topic: str) -> None:
        """Send PUBACK or PUBREC. In 3.1.1 a refusal looks like success [MQTT-3.3.5-2 of 3.1.1]."""
        if code is ReasonCode.SUCCESS or self._session_writer.version != MQTT_5:
            self._session_writer.send(
                encode_acknowledgement(_PUBACK if qos == 1 else _PUBREC, packet_id)
            )
            return
        properties = NO_PROPERTIES
        if code >= FIRST_ERROR:
            properties = Properties(reason_string=self._reason(code, topic))
        kind = Puback if qos == 1 else Pubrec
        self._session_writer.send_answer(kind(packet_id, code, properties))

    # --- what is owed -------------------------------------------------------------------------

    def _owe(self, owed: OwedAck, number: int | None) -> None:
        """Answer when publication `number` of the front end is settled, and all before it.

        Without a number: when its fan-out on this broker ends.
        """
        self._put_owed(owed)
        front_end = self._broker_api.front_end
        if number is None or front_end is None:
            if owed.qos == 2:
                self._has_received(owed.packet_id)
            if self._spreading.is_on:
                self._spreading.at_end.append(partial(self.settled, owed))
            else:
                owed.is_settled = True
            return
        front_end.owe(number, owed)
        if owed.qos == 2:
            self._session.owe(owed.packet_id, owed)

    def _answer_again(self, packet_id: int, topic: str) -> None:
        """Answer a repeated QoS 2 publication; the first answer to it may still be owed."""
        owed = self._session.unsettled.get(packet_id)
        if owed is None and not self._owed:
            self._session_writer.send(encode_acknowledgement(_PUBREC, packet_id))
        elif owed is None:
            self._owe(OwedAck(self, 2, packet_id, ReasonCode.SUCCESS, topic), None)
        elif owed.incoming is not self:  # it came over an earlier connection
            owed.incoming = self
            self._put_owed(owed)

    def _put_owed(self, owed: OwedAck) -> None:
        if self._owed is None:
            self._owed = deque()
        self._owed.append(owed)

    def settled(self, owed: OwedAck) -> None:
        """Note that a publication is settled; answer it and those behind it that are settled."""
        owed.is_settled = True
        if owed.qos == 2:
            self._session.settled(owed.packet_id)
            self._has_received(owed.packet_id)
        queue = self._owed
        if queue is not None and self._session_writer.connection.is_closed:
            queue.clear()
        while queue and queue[0].is_settled:
            first = queue.popleft()
            self._acknowledge(first.qos, first.packet_id, first.code, first.topic)

    def note(self, owed: OwedAck) -> None:
        self._session.note_unsettled(owed)

    def _has_received(self, packet_id: int) -> None:
        if packet_id in self._session.received:
            self._session.has_received(packet_id)

    def on_pubrel(self, packet: Pubrel) -> None:
        packet_id = packet.packet_id
        if self._receiving is not None:
            self._receiving.discard(packet_id)
        if self._session.release(packet_id):
            self._session_writer.send(encode_acknowledgement(_PUBCOMP, packet_id))
        else:
            self._session_writer.send_answer(
                Pubcomp(packet_id, ReasonCode.PACKET_IDENTIFIER_NOT_FOUND)
            )


def _characters(packet: Publish, topic: str) -> int:
    """An upper bound for the longest text of a publication that filters see."""
    longest = max(map(_length, packet.properties.user_properties), default=0)
    return len(topic) + min(max(longest, len(packet.payload)), MAX_TEXT)


def _length(said: tuple[str, str]) -> int:
    return len(said[1])
