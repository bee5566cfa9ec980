"""MQTT clients over WebSocket: the same bytes, in binary messages (MQTT 5, section 6)."""

from __future__ import annotations

import asyncio
from typing import cast

from wsproto import ConnectionType, WSConnection
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Event,
    Ping,
    RejectConnection,
    Request,
)
from wsproto.frame_protocol import CloseReason
from wsproto.utilities import LocalProtocolError, RemoteProtocolError

from shoal.mqtt.connection import Connection
from shoal.runtime.farewell import Lingering
from shoal.runtime.mqtt_door import WRITE_BUFFER_BYTES, MqttDoor

SUBPROTOCOL = "mqtt"
# A handshake is one request; whoever takes longer is not about to become a client.
HANDSHAKE_TIMEOUT_S = 10.0


class WebSocket(Lingering):
    """One client over WebSocket."""

    def __init__(self, door: MqttDoor) -> None:
        super().__init__()
        self._door = door
        self._protocol = WSConnection(ConnectionType.SERVER)
        self._connection: Connection | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, transport)  # uvloop has types of its own
        transport.set_write_buffer_limits(WRITE_BUFFER_BYTES)
        self._transport = transport
        self.pause_reading = transport.pause_reading
        self.resume_reading = transport.resume_reading
        loop = asyncio.get_running_loop()
        self._timeout = loop.call_later(HANDSHAKE_TIMEOUT_S, self._too_late)

    def data_received(self, data: bytes) -> None:
        if self._is_over:
            return
        try:
            self._protocol.receive_data(data)
            for event in self._protocol.events():
                self._handle(event)
        except RemoteProtocolError as error:
            if error.event_hint is not None:
                self._send(error.event_hint)
            self._transport.close()

    def _handle(self, event: Event) -> None:
        match event:
            case Request(subprotocols=offered):
                self._answer(SUBPROTOCOL in offered)
            case BytesMessage(data=data) if self._connection is not None:
                self._door.received(self._connection, bytes(data))
            case Ping():
                if not self._is_half_closed:
                    self._send(event.response())
            case CloseConnection():
                self._send(event.response())
                self._transport.close()
            case _:  # text is a protocol error [MQTT-6.0.0-1]
                self._send(CloseConnection(CloseReason.UNSUPPORTED_DATA, "MQTT is binary"))
                self._transport.close()

    def _answer(self, speaks_mqtt: bool) -> None:
        self._timeout.cancel()
        if speaks_mqtt:
            self._send(AcceptConnection(subprotocol=SUBPROTOCOL))
            self._connection = self._door.opened(self, self._transport)
        else:
            self._send(RejectConnection(status_code=400))
            self._transport.close()

    def _too_late(self) -> None:
        self._transport.close()

    def _send(self, event: Event) -> None:
        try:
            self._transport.write(self._protocol.send(event))
        except LocalProtocolError:  # the other end has closed meanwhile
            self._transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        self._timeout.cancel()
        if self._connection is not None:
            self._door.lost(self._connection)

    def pause_writing(self) -> None:
        if self._connection is not None:
            self._connection.pause()

    def resume_writing(self) -> None:
        if self._connection is not None:
            self._door.resumed(self._connection)

    # --- the door's side ----------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        if not self._is_half_closed:
            self._send(BytesMessage(data))

    def _say_goodbye(self) -> None:
        self._send(CloseConnection(CloseReason.NORMAL_CLOSURE))
