"""Effects of the MQTT side for a driver: write, close, pass requests to the broker machine."""

from __future__ import annotations

import msgspec

from shoal.broker.effects import Requested
from shoal.mqtt.replaying.reading import ReadLog
from shoal.mqtt.sessions.delivering.outgoing import ClientConnection


class Write(msgspec.Struct, frozen=True):
    """Write these bytes to the client, after all earlier ones."""

    connection: ClientConnection
    data: bytes


class Close(msgspec.Struct, frozen=True):
    """Close the network connection after all writes; the MQTT side has forgotten it already."""

    connection: ClientConnection


class HalfClose(msgspec.Struct, frozen=True):
    """Close the write side after all writes; read until `Close` or the end of the connection."""

    connection: ClientConnection


class Ask(msgspec.Struct, frozen=True):
    """Pass this to the broker machine, before later writes."""

    input: Requested


ClientEffect = Write | HalfClose | Close | Ask | ReadLog
