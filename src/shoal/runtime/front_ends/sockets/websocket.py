"""MQTT clients over WebSocket: the same bytes, in binary messages (MQTT 5, section 6)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast
from urllib.parse import urlsplit

from wsproto import ConnectionType, WSConnection
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Event,
    Ping,
    Pong,
    RejectConnection,
    Request,
)
from wsproto.frame_protocol import CloseReason
from wsproto.utilities import LocalProtocolError, RemoteProtocolError

from shoal.mqtt.connection.connection import Connection
from shoal.runtime.front_ends.farewell import Lingering
from shoal.runtime.front_ends.sockets.sockets import WRITE_BUFFER_BYTES, ConnectionHost

# Names of MQTT that a client may offer, the best first; old clients offer the second, some none.
SUBPROTOCOLS = ("mqtt", "mqttv3.1")
# A handshake is one request; a longer one does not come from a client.
HANDSHAKE_TIMEOUT_S = 10.0


# True if pages of an origin may connect to this host, as they name both.
Allows = Callable[[str, str], bool]


def is_same_host(origin: str, host: str) -> bool:
    """Return whether a page comes from the host it connects to, at whatever port.

    >>> is_same_host("https://example.org", "example.org:9001")
    True
    >>> is_same_host("https://example.com", "example.org"), is_same_host("null", "null")
    (False, False)
    """
    try:
        here, there = urlsplit(f"//{host}").hostname, urlsplit(origin).hostname
    except ValueError:
        return False
    return there is not None and here == there


class WebSocket(Lingering):
    """One client over WebSocket.

    Browsers send the origin of the connecting page; origins that `allows` does not accept are
    refused, so that no page can use the network access of a browser's machine. Other clients send
    no origin.
    """

    # Of the smallest messages 1,000, each of which takes as long as some packets; never `unread`.
    _piece_bytes = 8_192

    def __init__(
        self, front_end: ConnectionHost, allows: Allows = is_same_host, listener: str = "websocket"
    ) -> None:
        super().__init__()
        self._front_end = front_end
        self._listener = listener
        self._allows = allows
        self._protocol = WSConnection(ConnectionType.SERVER)
        self._connection: Connection | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, transport)  # uvloop has types of its own
        transport.set_write_buffer_limits(WRITE_BUFFER_BYTES)
        self._begin(transport, self._take_frames, self._front_end.rounds)
        loop = asyncio.get_running_loop()
        self._timeout = loop.call_later(HANDSHAKE_TIMEOUT_S, self._too_late)

    def _take_frames(self, data: bytes) -> None:
        if self._is_over:
            return
        try:
            self._protocol.receive_data(data)
            for event in self._protocol.events():
                self._handle_frame(event)
        except RemoteProtocolError as error:
            if error.event_hint is not None:
                self._send_event(error.event_hint)
            self._transport.close()

    def _handle_frame(self, event: Event) -> None:
        match event:
            case Request():
                self._answer_handshake(event)
            case BytesMessage(data=data) if self._connection is not None:
                self._front_end.received(self._connection, bytes(data))
            case Ping():
                if not self._is_half_closed:
                    self._send_event(event.response())
            case Pong():  # an unsolicited Pong: a client's heartbeat [RFC 6455 5.5.3]
                pass
            case CloseConnection():
                self._send_event(event.response())
                self._transport.close()
            case _:  # text is a protocol error [MQTT-6.0.0-1]
                self._send_event(CloseConnection(CloseReason.UNSUPPORTED_DATA, "MQTT is binary"))
                self._transport.close()

    def _answer_handshake(self, request: Request) -> None:
        self._timeout.cancel()
        headers = {name.lower(): value for name, value in request.extra_headers}
        origin = headers.get(b"origin", b"").decode("latin-1")
        offered = request.subprotocols
        chosen = next((each for each in SUBPROTOCOLS if each in offered), None)
        if offered and chosen is None:
            why = f"WebSocket subprotocols {', '.join(offered)}; MQTT is {SUBPROTOCOLS[0]}"
            self._front_end.refused(self._transport, self._listener, why)
            self._reject(400)
        elif origin and not self._allows(origin, request.host):
            why = f"pages of {origin} may not connect to {request.host}"
            self._front_end.refused(self._transport, self._listener, why)
            self._reject(403)
        else:
            self._send_event(AcceptConnection(subprotocol=chosen))
            self._connection = self._front_end.opened(self, self._transport, self._listener)

    def _reject(self, status: int) -> None:
        self._send_event(RejectConnection(status_code=status))
        self._transport.close()

    def _too_late(self) -> None:
        self._transport.close()

    def _send_event(self, event: Event) -> None:
        if self._transport.is_closing():
            return
        try:
            self._transport.write(self._protocol.send(event))
        except LocalProtocolError:  # the peer has closed meanwhile
            self._transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        self._timeout.cancel()

    def _lost(self) -> None:
        if self._connection is not None:
            self._front_end.lost(self._connection)

    def pause_writing(self) -> None:
        if self._connection is not None:
            self._connection.pause()

    def resume_writing(self) -> None:
        if self._connection is not None:
            self._front_end.resumed(self._connection)

    # --- the front end's side ---------------------------------------------------------------

    def write(self, data: bytes) -> None:
        if not self._is_half_closed:
            self._send_event(BytesMessage(data))

    def _send_close(self) -> None:
        self._send_event(CloseConnection(CloseReason.NORMAL_CLOSURE))
