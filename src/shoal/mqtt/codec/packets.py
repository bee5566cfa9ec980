"""MQTT packets as values, the same for both versions; fields that 3.1.1 lacks keep their defaults.

A packet identifier of 0 means that the packet has none.

>>> Publish("flights/UA", b"late").qos, Suback(7, (ReasonCode.GRANTED_QOS_1,)).properties
(0, Properties())

Source: MQTT Version 5.0, section 3.
"""

from __future__ import annotations

import msgspec

from shoal.mqtt.codec.fields import MAX_VARIABLE
from shoal.mqtt.codec.packet_types import MQTT_5
from shoal.mqtt.codec.properties import NO_PROPERTIES, Properties
from shoal.mqtt.codec.reason_codes import ReasonCode


class Packet(msgspec.Struct, frozen=True, gc=False):
    """Base of all packets."""


# The approximate memory of a will by itself, and of each of its user properties.
_WILL_BYTES, _PAIR_BYTES = 500, 150


class WillFields(msgspec.Struct, frozen=True, gc=False):
    """The will: published if the client's connection ends without a DISCONNECT."""

    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    properties: Properties = NO_PROPERTIES

    @property
    def size(self) -> int:
        """Its approximate memory in bytes."""
        properties = self.properties
        size = _WILL_BYTES + len(self.topic) + len(self.payload)
        size += len(properties.response_topic or "") + len(properties.correlation_data or b"")
        size += len(properties.content_type or "")
        return size + sum(
            _PAIR_BYTES + len(name) + len(value) for name, value in properties.user_properties
        )


class Connect(Packet, frozen=True, gc=False):
    """`is_bridge`: the bridge bit of the protocol level, which only 3.1.1 has."""

    client_id: str = ""
    clean_start: bool = True
    keep_alive_s: int = 0
    version: int = MQTT_5
    username: str | None = None
    password: bytes | None = None
    will: WillFields | None = None
    properties: Properties = NO_PROPERTIES
    is_bridge: bool = False


class Connack(Packet, frozen=True, gc=False):
    reason_code: ReasonCode = ReasonCode.SUCCESS
    session_present: bool = False
    properties: Properties = NO_PROPERTIES


class Publish(Packet, frozen=True, gc=False):
    """`written` are properties and payload as MQTT 5 writes them, if the packet was read so.

    The broker can then forward them without encoding. `size` is the number of bytes behind the
    fixed header of a packet that was read: a bound for all texts in it. Equality ignores both.
    """

    topic: str
    payload: bytes = b""
    qos: int = 0
    retain: bool = False
    duplicate: bool = False
    packet_id: int = 0
    properties: Properties = NO_PROPERTIES
    written: bytes | None = None
    size: int = MAX_VARIABLE

    def __eq__(self, other: object) -> bool:
        return type(other) is Publish and self._value == other._value

    def __hash__(self) -> int:
        return hash(self._value)

    @property
    def _value(self) -> tuple[object, ...]:
        return (
            self.topic,
            self.payload,
            self.qos,
            self.retain,
            self.duplicate,
            self.packet_id,
            self.properties,
        )


class Acknowledgement(Packet, frozen=True, gc=False):
    """Base of the four packets that acknowledge a PUBLISH, or each other."""

    packet_id: int
    reason_code: ReasonCode = ReasonCode.SUCCESS
    properties: Properties = NO_PROPERTIES


class Puback(Acknowledgement, frozen=True, gc=False):
    """QoS 1: received."""


class Pubrec(Acknowledgement, frozen=True, gc=False):
    """QoS 2: received."""


class Pubrel(Acknowledgement, frozen=True, gc=False):
    """QoS 2: the sender releases the packet identifier."""


class Pubcomp(Acknowledgement, frozen=True, gc=False):
    """QoS 2: complete."""


class SubscriptionRequest(msgspec.Struct, frozen=True, gc=False):
    """One topic filter of a SUBSCRIBE with its options (section 3.8.3.1)."""

    topic_filter: str
    qos: int = 0
    no_local: bool = False
    retain_as_published: bool = False
    retain_handling: int = 0


class Subscribe(Packet, frozen=True, gc=False):
    """`unread`: the topic filters behind these, with their options, as they came."""

    packet_id: int
    requests: tuple[SubscriptionRequest, ...]
    properties: Properties = NO_PROPERTIES
    unread: bytes = b""


class Suback(Packet, frozen=True, gc=False):
    packet_id: int
    reason_codes: tuple[ReasonCode, ...]
    properties: Properties = NO_PROPERTIES


class Unsubscribe(Packet, frozen=True, gc=False):
    """`unread`: the topic filters behind these, as they came."""

    packet_id: int
    topic_filters: tuple[str, ...]
    properties: Properties = NO_PROPERTIES
    unread: bytes = b""


class Unsuback(Packet, frozen=True, gc=False):
    packet_id: int
    reason_codes: tuple[ReasonCode, ...] = ()
    properties: Properties = NO_PROPERTIES


class Pingreq(Packet, frozen=True, gc=False):
    """The client asks for a sign of life."""


class Pingresp(Packet, frozen=True, gc=False):
    """The answer to a PINGREQ."""


class Disconnect(Packet, frozen=True, gc=False):
    reason_code: ReasonCode = ReasonCode.SUCCESS
    properties: Properties = NO_PROPERTIES


class Auth(Packet, frozen=True, gc=False):
    reason_code: ReasonCode = ReasonCode.SUCCESS
    properties: Properties = NO_PROPERTIES
