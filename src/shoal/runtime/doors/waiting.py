"""Clients from which a door takes nothing more for now.

Some are not read until they are let in, or have room again; some hold what was read already, until
the machine takes requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from shoal.mqtt.access import Admission
from shoal.mqtt.connection.connection import Connection
from shoal.mqtt.connection.effects import ClientEffect
from shoal.mqtt.sessions.delivering.outgoing import ClientConnection
from shoal.runtime.doors.publishers import LivePublishers
from shoal.runtime.doors.sockets.sockets import LateAccess, Socket
from shoal.runtime.driving.weighing import TURN_US
from shoal.runtime.node import Node


class Waiting:
    """Those of one door; `access` is whom it asks who is let in."""

    def __init__(
        self,
        node: Node,
        sockets: Mapping[ClientConnection, Socket],
        access: LateAccess | None,
        publishers: LivePublishers | None,
        carry_out: Callable[[list[ClientEffect]], None],
    ) -> None:
        self.access = access
        self._node = node
        self._sockets = sockets
        self._publishers = publishers
        self._carry_out = carry_out
        # Those from which nothing is read until they are let in, or not.
        self._unread: dict[Connection, None] = {}
        # Those that hold something which may not be taken yet.
        self._holding: dict[Connection, None] = {}
        self._admissions: set[asyncio.Task[None]] = set()

    @property
    def holds(self) -> bool:
        """Whether some hold something."""
        return bool(self._holding)

    def see_to(self, connection: Connection) -> None:
        """Bytes of a client were taken: whether it must wait now."""
        if connection.holds:
            self._holding[connection] = None
        if not connection.wants_reading:
            self._wait(connection)

    def read_on(self) -> None:
        """Read on from those that want it."""
        if not self._unread:
            return
        for connection in [each for each in self._unread if each.wants_reading]:
            del self._unread[connection]
            socket = self._sockets.get(connection)
            if socket is not None:
                socket.resume_reading()
            if self._publishers is not None:
                connection.is_held = self._publishers.is_waiting(connection.client_id)
            if connection.holds:
                self._holding[connection] = None

    def take_held(self) -> None:
        """Go on with what connections held, for a turn; the rest when the loop comes round."""
        if not self._holding:
            return
        now_us = self._node.clock.now_us()
        end_us = now_us + TURN_US
        for connection in list(self._holding):
            if self._node.clock.now_us() >= end_us:
                self._node.schedule_flush()
                break
            if not connection.must_wait:  # now: what was taken before it may have changed that
                del self._holding[connection]
                self._carry_out(connection.take_held(now_us))
                if connection.holds:
                    self._holding[connection] = None
                self._node.schedule_flush()

    def _wait(self, connection: Connection) -> None:
        """Read nothing more until the connection wants it; answer what is owed to it."""
        socket = self._sockets.get(connection)
        if socket is None or connection in self._unread:
            return
        self._unread[connection] = None
        socket.pause_reading()
        credentials = self.access.take_owed() if self.access is not None else None
        if self.access is not None and credentials is not None:
            answer = self.access.answer(credentials, socket.is_gone)
            task = asyncio.create_task(self._admit(connection, answer))
            self._admissions.add(task)
            task.add_done_callback(self._admissions.discard)

    async def _admit(self, connection: Connection, answer: Awaitable[Admission]) -> None:
        self._carry_out(connection.admitted(await answer, self._node.clock.now_us()))
        self._node.schedule_flush()
