"""What a client's bytes are wrapped in on a connection, sans-IO: nothing, or WebSocket.

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

# Where brokers take MQTT, of web servers that serve other things, too.
_PATH = "/mqtt"


class Wire(Protocol):
    """One connection; `problem` is why it must end, once what came before that is taken."""

    problem: SessionError | None

    def opening(self) -> bytes:
        """What is to be written before all else."""

    def wrap(self, data: bytes) -> bytes:
        """What is to be written to say this; nothing if it is too early, then `unwrap` does."""

    def unwrap(self, data: bytes) -> tuple[bytes, bytes]:
        """What came in these bytes, and what is to be written."""


class PlainWire:
    """Bytes as they are."""

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
        self._early: list[bytes] | None = []  # until it is accepted

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
    """What a connection to this listener is wrapped in."""
    if endpoint.is_over_websocket:
        host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
        return WebSocketWire(f"{host}:{endpoint.port}")
    return PlainWire()
