"""Slow-consumer policy: publishers wait, within bounds, for subscribers that read too slowly.

A subscriber is *behind* from when its queue is half full until it is a quarter full. The broker
does not read local publishers that publish to it meanwhile, as long as the subscriber reads. A
subscriber that has taken nothing for `READS_US` hangs: no publisher waits for it, and messages
beyond its bounds are dropped.

A publisher is never stopped for good: it waits at most `SHARE` times as long as it is free to send,
so that subscribers below a tenth of its speed lose messages, and no client can slow another one
down by more than that. Publishers of other brokers do not wait: a link has the publications of all,
so one reader would block all of them.

| a message is queued for a subscriber that is behind | its publisher |
| --- | --- |
| the subscriber reads | waits until all that it waits for have caught up or are gone |
| ... and the publisher has waited its share | goes on, and may wait again later |
| the subscriber hangs, or is the publisher itself | goes on |
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from shoal.mqtt.limits import MICROSECONDS
from shoal.mqtt.sessions.delivering.outgoing import ClientConnection, ClientSessionWriter
from shoal.mqtt.timers import MqttTimers

# A client that has taken nothing for so long does not read.
READS_US = 2 * MICROSECONDS
# The longest single wait of a publisher, the ratio of waiting to sending, and the shortest wait
# that is worth a suspension.
LONGEST_US = MICROSECONDS
SHARE = 9
SHORTEST_US = MICROSECONDS // 20

PATIENCE_TIMER = "patience"


class SessionReader(Protocol):
    """A session; `took_us` is the time at which its client last took a queued message."""

    client_id: str
    session_writer: ClientSessionWriter | None
    took_us: int


class _Wait:
    """The wait of one publisher: the time left, as of a time, and the subscribers it waits for."""

    __slots__ = ("left_us", "readers", "since_us")

    def __init__(self, now_us: int) -> None:
        self.left_us = LONGEST_US
        self.since_us = now_us
        self.readers: dict[SessionReader, None] = {}


class SlowConsumerPolicy:
    """The waiting publishers; `find` returns the session of a local client."""

    def __init__(self, timers: MqttTimers, find: Callable[[str], SessionReader | None]) -> None:
        self._timers = timers
        self._find = find
        self._waits: dict[ClientConnection, _Wait] = {}
        # Subscribers that are behind, with the publishers that wait for them.
        self._behind: dict[SessionReader, dict[ClientConnection, None]] = {}

    @property
    def behind(self) -> Iterator[ClientConnection]:
        """The connections that are behind: the driver finds out whether they read."""
        for session in self._behind:
            if session.session_writer is not None:
                yield session.session_writer.connection

    def sent(self, reader: SessionReader, publisher: str, now_us: int) -> None:
        """Handle a message that is queued for a subscriber that is behind."""
        waiting = self._behind.setdefault(reader, {})
        if publisher == reader.client_id or now_us - reader.took_us > READS_US:
            return
        session = self._find(publisher)
        if session is None or session.session_writer is None:
            return
        connection = session.session_writer.connection
        wait = self._waits.get(connection)
        if wait is None:
            wait = self._waits[connection] = _Wait(now_us)
        if not wait.readers:
            left_us = min(LONGEST_US, wait.left_us + SHARE * (now_us - wait.since_us))
            if left_us < SHORTEST_US:
                return
            wait.left_us, wait.since_us = left_us, now_us
            connection.is_waiting = True
            self._timers.set((PATIENCE_TIMER, connection), now_us + left_us)
        wait.readers[reader] = None
        waiting[connection] = None

    def caught_up(self, reader: SessionReader, now_us: int) -> None:
        """Handle a subscriber that is not behind any more, or is gone."""
        for connection in self._behind.pop(reader, ()):
            readers = self._waits[connection].readers
            del readers[reader]
            if not readers:
                self.resume(connection, now_us)

    def resume(self, connection: ClientConnection, now_us: int) -> None:
        """Resume a publisher that has waited long enough."""
        wait = self._waits[connection]
        for reader in wait.readers:
            del self._behind[reader][connection]
        wait.readers.clear()
        wait.left_us -= now_us - wait.since_us
        wait.since_us = now_us
        connection.is_waiting = False
        self._timers.cancel((PATIENCE_TIMER, connection))

    def left(self, connection: ClientConnection, now_us: int) -> None:
        """Forget a publisher that is gone."""
        if connection in self._waits:
            self.resume(connection, now_us)
            del self._waits[connection]
