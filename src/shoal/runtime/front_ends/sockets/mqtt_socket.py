"""MQTT over TCP or TLS, as it comes."""

from __future__ import annotations

import asyncio
from typing import cast

from shoal.runtime.front_ends.farewell import Lingering
from shoal.runtime.front_ends.sockets.sockets import WRITE_BUFFER_BYTES, ConnectionHost


class MqttSocket(Lingering):
    """One client over TCP or TLS; `listener` is its kind, as network files say."""

    # A loop reads this much at once, so that short payloads need not count.
    _piece_bytes = 262_144

    def __init__(self, front_end: ConnectionHost, listener: str = "mqtt") -> None:
        super().__init__()
        self._front_end = front_end
        self._listener = listener

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, transport)  # uvloop has types of its own
        transport.set_write_buffer_limits(WRITE_BUFFER_BYTES)
        self._begin(transport, self._take_data, self._front_end.rounds)
        self._connection = self._front_end.opened(self, transport, self._listener)

    def _take_data(self, data: bytes) -> None:
        if not self._is_over:
            self._front_end.received(self._connection, data)
            if unread := self._connection.unread:
                self._reading.put_back(data[-unread:])

    def write(self, data: bytes) -> None:
        """Nothing any more, when the last word has been said or the client is gone.

        It may close between gathering and the flush; uvloop would raise then.
        """
        if not (self._is_half_closed or self._transport.is_closing()):
            self._transport.write(data)

    def _lost(self) -> None:
        self._front_end.lost(self._connection)

    def pause_writing(self) -> None:
        self._connection.pause()

    def resume_writing(self) -> None:
        self._front_end.resumed(self._connection)
