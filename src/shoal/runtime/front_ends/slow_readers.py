"""Detects progress of slow clients: their sockets have less to write than before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from shoal.mqtt.sessions.delivering.outgoing import ClientConnection
from shoal.runtime.front_ends.sockets.sockets import Socket

# Interval of these checks.
SEE_US = 100_000


class SlowReaders:
    """Bytes left to write to slow clients, and the time of that observation."""

    def __init__(self) -> None:
        self._unwritten: dict[ClientConnection, int] = {}
        # When it is time to look.
        self.due_us = 0

    def see(
        self,
        behind: Iterable[ClientConnection],
        sockets: Mapping[ClientConnection, Socket],
        now_us: int,
    ) -> None:
        """Report progress to connections that are behind."""
        self.due_us, before, self._unwritten = now_us + SEE_US, self._unwritten, {}
        for connection in behind:
            socket = sockets.get(connection)
            if socket is not None:
                size = self._unwritten[connection] = socket.unwritten()
                if size < before.get(connection, size):
                    connection.took(now_us)
