"""What a driver has to do for the MQTT side: write, close, hand requests to the broker machine."""

from __future__ import annotations

import msgspec

from shoal.broker.effects import Requested
from shoal.mqtt.sessions.delivering.outgoing import ClientConnection


class Write(msgspec.Struct, frozen=True):
    """Write these bytes to the client, behind all written before."""

    connection: ClientConnection
    data: bytes


class Close(msgspec.Struct, frozen=True):
    """Close the network connection once all is written; it is forgotten here already."""

    connection: ClientConnection


class HalfClose(msgspec.Struct, frozen=True):
    """Close this side of it once all is written, and go on reading until `Close`, or its end."""

    connection: ClientConnection


class Ask(msgspec.Struct, frozen=True):
    """Hand this to the broker machine, before what follows is written."""

    input: Requested


ClientEffect = Write | HalfClose | Close | Ask
