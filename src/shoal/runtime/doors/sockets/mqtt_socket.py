"""MQTT over TCP or TLS, as it comes."""

from __future__ import annotations

import asyncio
from typing import cast

from shoal.runtime.doors.farewell import Lingering
from shoal.runtime.doors.sockets.sockets import WRITE_BUFFER_BYTES, House


class MqttSocket(Lingering):
    """One client over TCP or TLS; `listener` is its kind, as network files say."""

    # What a loop reads at once, so that short payloads need not count.
    _piece_bytes = 262_144

    def __init__(self, door: House, listener: str = "mqtt") -> None:
        super().__init__()
        self._door = door
        self._listener = listener

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, transport)  # uvloop has types of its own
        transport.set_write_buffer_limits(WRITE_BUFFER_BYTES)
        self._begin(transport, self._take, self._door.rounds)
        self._connection = self._door.opened(self, transport, self._listener)

    def _take(self, data: bytes) -> None:
        if not self._is_over:
            self._door.received(self._connection, data)
            if unread := self._connection.unread:
                self._reading.put_back(data[-unread:])

    def write(self, data: bytes) -> None:
        """Nothing any more, when the last word has been said or the client is gone.

        It may go between what is gathered for it and the flush; uvloop would raise then.
        """
        if not (self._is_half_closed or self._transport.is_closing()):
            self._transport.write(data)

    def _lost(self) -> None:
        self._door.lost(self._connection)

    def pause_writing(self) -> None:
        self._connection.pause()

    def resume_writing(self) -> None:
        self._door.resumed(self._connection)
