"""Clients from which a front end takes nothing more for now.

Some wait for their CONNACK, or are not read until they have room again; some hold input that was
read already, until the machine takes requests. A client that waits for its CONNACK is read until it
sends more than a DISCONNECT: a hang-up ends its wait.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping

from shoal.mqtt.access import ClientCredentials
from shoal.mqtt.connection.connection import Connection
from shoal.mqtt.connection.effects import ClientEffect
from shoal.mqtt.sessions.delivering.outgoing import ClientConnection
from shoal.runtime.driving.cost_estimator import TURN_US
from shoal.runtime.front_ends.looking import Looking
from shoal.runtime.front_ends.publishers import LivePublishers
from shoal.runtime.front_ends.sockets.sockets import LateAccess, Socket
from shoal.runtime.node import Node


class PendingConnections:
    """Pending connections of one front end; `access` admits clients."""

    def __init__(
        self,
        node: Node,
        sockets: Mapping[ClientConnection, Socket],
        access: LateAccess | None,
        publishers: LivePublishers | None,
        carry_out: Callable[[list[ClientEffect]], object],
    ) -> None:
        self.access = access
        self._node = node
        self._sockets = sockets
        self._publishers = publishers
        self._carry_out = carry_out
        # Those that wait for their CONNACK, and those that are not read until they have room.
        self._unread: Looking[Connection] = Looking(self._reads_on)
        # Those that hold something which may not be taken yet; and those of which that is not
        # known, in the order of their turns.
        self._holding: Looking[Connection] = Looking(self._has_its_turn)
        self._next: OrderedDict[Connection, None] = OrderedDict()
        self._admissions: set[asyncio.Task[None]] = set()

    @property
    def holds(self) -> bool:
        """Return whether some hold something."""
        return bool(self._next or self._holding.waiting)

    def see_to(self, connection: Connection) -> None:
        """Bytes of a client were taken: whether it must wait now."""
        if connection.is_through:
            return
        self._hold_connection(connection)
        if connection.is_entering or not connection.wants_reading:
            self._begin_wait(connection)

    def read_on(self) -> None:
        """Something has happened: read on from those that want it, in turn."""
        self._unread.happened()

    def take_held(self) -> None:
        """Continue with input that connections hold, for a time slice.

        The rest has the next turn, when the loop comes round.
        """
        self._holding.happened()
        if not self._next:
            return
        now_us = self._node.clock.now_us()
        end_us = now_us + TURN_US
        for _ in range(len(self._next)):
            if self._node.clock.now_us() >= end_us:
                break
            connection, _nothing = self._next.popitem(last=False)
            if connection.must_wait:  # checked here: earlier packets may have changed that
                self._holding.add(connection)
                continue
            self._carry_out(connection.take_held(now_us))
            self._hold_connection(connection)
            self._unread.happened_to(connection)
            self._node.schedule_flush()
        if self._next:
            self._node.schedule_flush()

    def _hold_connection(self, connection: Connection) -> None:
        """It has a turn if it holds something, and is not known to wait."""
        if connection.holds and connection not in self._holding:
            self._next[connection] = None

    def _has_its_turn(self, connection: Connection) -> bool:
        """Return whether a connection that waited has the next turn now, or holds nothing any
        more.
        """
        if connection.holds:
            if connection.must_wait:
                return False
            self._next[connection] = None
            self._node.schedule_flush()
        return True

    def _reads_on(self, connection: Connection) -> bool:
        """Return whether a connection need not wait any longer, and is read on, or is gone."""
        if connection.is_entering or not connection.wants_reading:
            return False
        socket = self._sockets.get(connection)
        if socket is not None:
            socket.resume_reading()
        if self._publishers is not None:
            connection.is_held = self._publishers.is_waiting(connection.client_id)
        if connection.holds:
            self._hold_connection(connection)
            self._node.schedule_flush()
        return True

    def _begin_wait(self, connection: Connection) -> None:
        """Stop reading, unless only a hang-up is awaited; have the client's credentials checked."""
        socket = self._sockets.get(connection)
        if socket is None:
            return
        if not connection.wants_reading:
            socket.pause_reading()
        if connection in self._unread:
            return
        self._unread.add(connection)
        credentials = self.access.take_owed() if self.access is not None else None
        if self.access is not None and credentials is not None:
            task = asyncio.create_task(self._admit(connection, credentials, socket.is_gone))
            self._admissions.add(task)
            task.add_done_callback(self._admissions.discard)

    async def _admit(
        self, connection: Connection, credentials: ClientCredentials, is_gone: Callable[[], bool]
    ) -> None:
        access = None
        while access is not self.access:  # users and rules may change while a password is checked
            access = self.access
            assert access is not None
            admission = await access.answer(credentials, is_gone)
        self._carry_out(connection.admitted(admission, self._node.clock.now_us()))
        self._unread.happened_to(connection)
        self._node.schedule_flush()
