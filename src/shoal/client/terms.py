"""The terms of a client's connection: its CONNECT, its session and its will."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from shoal.client.publishing import make_publish
from shoal.language import parse
from shoal.mqtt.codec import packets
from shoal.mqtt.codec.packet_types import MQTT_3_1_1, MQTT_5
from shoal.mqtt.codec.packets import Connect
from shoal.mqtt.codec.properties import Properties
from shoal.mqtt.connection.connecting import FOLLOW
from shoal.mqtt.content import ADVERTISE

Version = Literal["5", "3.1.1"]
VERSIONS = {"5": MQTT_5, "3.1.1": MQTT_3_1_1}
# The session expiry interval of a client without `Keep`, to survive lost connections.
SESSION_EXPIRY_S = 300


class ClientError(Exception):
    """A refusal of a broker, or an error of the connection."""


class Keep(msgspec.Struct, frozen=True, kw_only=True):
    """A session that outlives its client.

    A message of QoS 1 or 2 is acknowledged when the application reads it; one that is unread when
    the client ends comes again to the next client with its identifier.

    seconds               how long the broker keeps it without its client
    window                the number of unacknowledged messages; then no more come
    maximum_packet_size   the client's, in bytes
    manual_ack            a message is acknowledged by `Client.acknowledge`, and not before
    """

    seconds: int
    window: int = 100
    maximum_packet_size: int = 16 * 2**20
    manual_ack: bool = False


class Will(msgspec.Struct, frozen=True, kw_only=True):
    """Published when a client's connection ends without a DISCONNECT; not for a redirect.

    `delay_s`: how long its broker waits for it to reconnect, in seconds (not in 3.1.1).
    """

    topic: str
    payload: bytes = b""
    qos: int = 1
    retain: bool = False
    delay_s: int = 0


def make_connect(
    client_id: str,
    version: int,
    *,
    username: str | None,
    password: str | None,
    advertise: Sequence[str],
    follows: bool,
    keep_alive_s: int,
    keep: Keep | None,
    will: Will | None,
) -> Connect:
    """The CONNECT; FilterSyntaxError for an advertisement, ValueError for invalid terms.

    These are a will's topic or terms, and features that 3.1.1 lacks.
    """
    for promise in advertise:
        parse(promise)
    if version == MQTT_3_1_1 and advertise:
        raise ValueError("advertise: MQTT 3.1.1 has no advertisements; use 5")
    said = tuple((ADVERTISE, promise) for promise in advertise)
    return Connect(
        client_id,
        clean_start=keep is None,
        keep_alive_s=keep_alive_s,
        version=version,
        username=username,
        password=None if password is None else password.encode(),
        will=None if will is None else _will(will, version),
        properties=Properties(
            session_expiry_interval_s=SESSION_EXPIRY_S if keep is None else keep.seconds,
            receive_maximum=None if keep is None else keep.window,
            maximum_packet_size=None if keep is None else keep.maximum_packet_size,
            user_properties=(*said, (FOLLOW, "")) if follows else said,
        ),
    )


def _will(will: Will, version: int) -> packets.WillFields:
    message = make_publish(will.topic, will.payload, will.qos, will.retain)
    if will.delay_s and version == MQTT_3_1_1:
        raise ValueError("a will's delay: MQTT 3.1.1 has none; use 5")
    properties = Properties(will_delay_interval_s=will.delay_s or None)
    return packets.WillFields(
        message.topic, message.payload, message.qos, message.retain, properties
    )
