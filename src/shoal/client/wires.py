"""The framing of a client's bytes on a connection, sans-IO: none, or WebSocket.

MQTT goes over WebSocket in binary messages, which need not be whole packets (MQTT 5, section 6).
"""

from __future__ import annotations

from typing import Protocol

from wsproto import ConnectionType, WSConnection
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Ping,
    RejectConnection,
    Request,
)
from wsproto.utilities import ProtocolError

from shoal.client.endpoint import Endpoint
from shoal.client.events import RefusedError, SessionError

# The path of brokers, as web servers may serve others.
_PATH = "/mqtt"


class Wire(Protocol):
    """The framing of one connection; `problem` is why it must end, after the bytes before it."""

    problem: SessionError | None

    def opening(self) -> bytes:
        """The first bytes to write."""

    def wrap(self, data: bytes) -> bytes:
        """Frame bytes to write; empty while the handshake runs: then `unwrap` returns them."""

    def unwrap(self, data: bytes) -> tuple[bytes, bytes]:
        """The received bytes in these, and bytes to write."""


class PlainWire:
    """No framing."""

    problem: SessionError | None = None

    def opening(self) -> bytes:
        return b""

    def wrap(self, data: bytes) -> bytes:
        return data

    def unwrap(self, data: bytes) -> tuple[bytes, bytes]:
        return data, b""


class WebSocketWire:
    """Binary messages of a WebSocket."""

    def __init__(self, host: str) -> None:
        self.problem: SessionError | None = None
        self._protocol = WSConnection(ConnectionType.CLIENT)
        self._request = Request(host=host, target=_PATH, subprotocols=["mqtt"])
        self._early: list[bytes] | None = []  # until the WebSocket is accepted

    def opening(self) -> bytes:
        return self._protocol.send(self._request)

    def wrap(self, data: bytes) -> bytes:
        if self._early is None:
            return self._protocol.send(BytesMessage(data))
        self._early.append(data)
        return b""

    def unwrap(self, data: bytes) -> tuple[bytes, bytes]:
        came, answers = [], []
        try:
            self._protocol.receive_data(data)
            for event in self._protocol.events():
                match event:
                    case BytesMessage(data=part):
                        came.append(bytes(part))
                    case AcceptConnection():
                        early, self._early = self._early or [], None
                        answers += [self._protocol.send(BytesMessage(each)) for each in early]
                    case RejectConnection(status_code=status):
                        self.problem = RefusedError(f"refuses the WebSocket: HTTP status {status}")
                    case Ping():
                        answers.append(self._protocol.send(event.response()))
                    case CloseConnection():
                        self.problem = SessionError("the broker closes the WebSocket")
        except ProtocolError as error:
            if self._early is None:
                self.problem = SessionError(f"the broker breaks the WebSocket: {error}")
            else:
                words = "is no WebSocket listener; use mqtt:// or mqtts://"
                self.problem = RefusedError(words)
        return b"".join(came), b"".join(answers)


def make_wire(endpoint: Endpoint) -> Wire:
    """The framing of a connection to this listener."""
    if endpoint.is_over_websocket:
        host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
        return WebSocketWire(f"{host}:{endpoint.port}")
    return PlainWire()
