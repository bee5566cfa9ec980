"""An application message on its way from its publisher to its subscribers.

Subscribers with the same MQTT version, QoS, retain flag, subscription identifiers and, if the
message expires, seconds left share the same bytes, which are encoded once.

>>> message = PublishedMessage("a/b", b"hi", publisher="me", published_us=0)
>>> message.halves(5, 1, False, (), 0) is message.halves(5, 1, False, (), 0)
True
"""

from __future__ import annotations

from typing import Any

import msgspec

from shoal.model import Attributes
from shoal.mqtt.codec.encoder import encode_publish_at_0, encode_publish_halves
from shoal.mqtt.codec.packets import Publish, WillFields
from shoal.mqtt.codec.properties import NO_PROPERTIES, Properties
from shoal.mqtt.limits import MICROSECONDS

Halves = tuple[bytes, bytes]


class PublishedMessage:
    """A published message, its publisher and its time.

    `properties` are those that the broker forwards unchanged [MQTT-3.3.2-4 and others]; `written`
    are they and the payload in the bytes of the PUBLISH, if known. `attributes` are for content
    filters, None until they are read (see `content`).
    """

    __slots__ = (
        "_halves",
        "attributes",
        "epoch",
        "expires_us",
        "keepers",
        "kept_bytes",
        "key",
        "number",
        "payload",
        "properties",
        "published_us",
        "publisher",
        "qos",
        "retain",
        "shares",
        "topic",
        "traced",
        "written",
    )

    def __init__(
        self,
        topic: str,
        payload: bytes,
        publisher: str,
        published_us: int,
        qos: int = 0,
        retain: bool = False,
        properties: Properties = NO_PROPERTIES,
        written: bytes | None = None,
    ) -> None:
        self.topic = topic
        self.payload = payload
        self.publisher = publisher
        self.published_us = published_us
        self.qos = qos
        self.retain = retain
        self.properties = properties
        self.expires_us: int | None = None
        # Publisher and number of the publication that it travels in, in a network.
        self.key: tuple[str, int] | None = None
        # The groups that it is for, with the broker chosen for each or "", at its first broker.
        self.shares: dict[str, str] | None = None
        self.written = written
        self.attributes: Attributes | None = None
        # Its number in the journal, if it is there (see `journal`).
        self.number = 0
        self.epoch = 0
        # Whether brokers keep spans of it.
        self.traced = False
        # The number of sessions that queue it, and its size as it was counted (see `backlog`).
        self.keepers = self.kept_bytes = 0
        self._halves: dict[Any, Halves] | None = None
        if properties.message_expiry_interval_s is not None:
            self.expires_from(published_us)

    def expires_from(self, since_us: int) -> None:
        """Start its expiry interval at this time of this broker's clock."""
        expiry_s = self.properties.message_expiry_interval_s
        if expiry_s is not None:
            self.expires_us = since_us + expiry_s * MICROSECONDS

    @property
    def size(self) -> int:
        """The approximate memory it takes."""
        return len(self.topic) + len(self.payload) + len(self.written or b"")

    def has_expired(self, now_us: int) -> bool:
        return self.expires_us is not None and now_us >= self.expires_us

    def halves(
        self, version: int, qos: int, retain: bool, identifiers: tuple[int, ...], now_us: int
    ) -> Halves:
        """The bytes before and after the packet identifier; at QoS 0 all is in the first."""
        left_s = None if self.expires_us is None else self._seconds_left(now_us)
        key = (version, qos, retain, identifiers, left_s)
        halves = self._halves
        if halves is None:
            halves = self._halves = {}
        found = halves.get(key)
        if found is None:
            properties, written = self.properties, self.written
            if identifiers or left_s is not None:
                properties, written = self.properties_for(identifiers, now_us), None
            found = encode_publish_halves(
                self.topic, self.payload, version, qos, retain, False, properties, written
            )
            if not qos:
                found = found[0] + found[1], b""
            if left_s is not None:
                halves.clear()
            halves[key] = found
        return found

    def whole(self, version: int, identifiers: tuple[int, ...], now_us: int) -> bytes:
        """The bytes at QoS 0 for a single receiver; they are not cached here."""
        properties, written = self.properties, self.written
        if identifiers or self.expires_us is not None:
            properties, written = self.properties_for(identifiers, now_us), None
        return encode_publish_at_0(self.topic, self.payload, version, properties, written)

    def properties_for(
        self, identifiers: tuple[int, ...], now_us: int, topic_alias: int | None = None
    ) -> Properties:
        """The properties for one subscriber: with its identifiers and the seconds left."""
        if not identifiers and self.expires_us is None and topic_alias is None:
            return self.properties
        left_s = None if self.expires_us is None else self._seconds_left(now_us)
        return msgspec.structs.replace(
            self.properties,
            subscription_identifiers=identifiers,
            message_expiry_interval_s=left_s,
            topic_alias=topic_alias,
        )

    def _seconds_left(self, now_us: int) -> int:
        """The expiry interval less the time spent here [MQTT-3.3.2-6], rounded up."""
        assert self.expires_us is not None
        return max(0, -(-(self.expires_us - now_us) // MICROSECONDS))


def message_of_publish(
    packet: Publish, topic: str, publisher: str, now_us: int
) -> PublishedMessage:
    """The message of a PUBLISH; `topic` is the packet's, or that of its alias."""
    properties = packet.properties
    if properties.topic_alias is not None:
        properties = msgspec.structs.replace(properties, topic_alias=None)
        if properties == NO_PROPERTIES:
            properties = NO_PROPERTIES
    written = packet.written if properties is packet.properties else None
    return PublishedMessage(
        topic, packet.payload, publisher, now_us, packet.qos, packet.retain, properties, written
    )


def message_of_will(will: WillFields, publisher: str, now_us: int) -> PublishedMessage:
    """A will, published now; its delay is no property of the message."""
    properties = will.properties
    if properties.will_delay_interval_s is not None:
        properties = msgspec.structs.replace(properties, will_delay_interval_s=None)
    return PublishedMessage(
        will.topic, will.payload, publisher, now_us, will.qos, will.retain, properties
    )
