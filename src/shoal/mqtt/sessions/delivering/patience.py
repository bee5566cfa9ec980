"""Publishers wait, a little, for clients that read more slowly than they send.

A client is *behind* from when half of what may wait for it does, until that is a quarter.  Who
publishes to it meanwhile, at this broker, is read no further, as long as the client reads.  One
that has taken nothing for `READS_US` hangs: nobody waits for it, and what it has no room for is
dropped.

Whoever publishes is never stopped for good: it waits at most `SHARE` times as long as it is free
to send, so that readers of less than a tenth of its speed lose something, and no client can slow
another down by more than that.  Publishers of other brokers do not wait: on a link are the
publications of all, so one reader would hold up everybody behind it.

| a message waits for a client that is behind | its publisher |
| --- | --- |
| the client reads | waits until it, and all it waits for, have caught up or are gone |
| ... and the publisher has waited its share | goes on, and may wait again later |
| the client hangs, or is the publisher itself | goes on |
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from shoal.mqtt.limits import MICROSECONDS
from shoal.mqtt.sessions.delivering.outgoing import ClientConnection, ClientOutlet
from shoal.mqtt.timers import Timers

# Who has taken nothing for so long does not read.
READS_US = 2 * MICROSECONDS
# How long a publisher waits at most at a time, how much longer than it sends, and what is too
# short to begin with.
LONGEST_US = MICROSECONDS
SHARE = 9
SHORTEST_US = MICROSECONDS // 20

PATIENCE_TIMER = "patience"


class Reader(Protocol):
    """A session; `took_us` is when its client last took something that waited."""

    client_id: str
    outlet: ClientOutlet | None
    took_us: int


class _Wait:
    """One publisher's: how long it may still wait, as of a time, and for whom it does."""

    __slots__ = ("left_us", "readers", "since_us")

    def __init__(self, now_us: int) -> None:
        self.left_us = LONGEST_US
        self.since_us = now_us
        self.readers: dict[Reader, None] = {}


class Patience:
    """Who waits for whom; `find` has the session of a client of this broker."""

    def __init__(self, timers: Timers, find: Callable[[str], Reader | None]) -> None:
        self._timers = timers
        self._find = find
        self._waits: dict[ClientConnection, _Wait] = {}
        # The clients that are behind, and who waits for them.
        self._behind: dict[Reader, dict[ClientConnection, None]] = {}

    @property
    def behind(self) -> Iterator[ClientConnection]:
        """The connections of clients that are behind: whether they read must be found out."""
        for session in self._behind:
            if session.outlet is not None:
                yield session.outlet.connection

    def sent(self, reader: Reader, publisher: str, now_us: int) -> None:
        """A message waits for a client that is behind."""
        waiting = self._behind.setdefault(reader, {})
        if publisher == reader.client_id or now_us - reader.took_us > READS_US:
            return
        session = self._find(publisher)
        if session is None or session.outlet is None:
            return
        connection = session.outlet.connection
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

    def caught_up(self, reader: Reader, now_us: int) -> None:
        """The client is not behind any more, or is gone."""
        for connection in self._behind.pop(reader, ()):
            readers = self._waits[connection].readers
            del readers[reader]
            if not readers:
                self.go_on(connection, now_us)

    def go_on(self, connection: ClientConnection, now_us: int) -> None:
        """A publisher has waited long enough."""
        wait = self._waits[connection]
        for reader in wait.readers:
            del self._behind[reader][connection]
        wait.readers.clear()
        wait.left_us -= now_us - wait.since_us
        wait.since_us = now_us
        connection.is_waiting = False
        self._timers.cancel((PATIENCE_TIMER, connection))

    def left(self, connection: ClientConnection, now_us: int) -> None:
        """A publisher is gone."""
        if connection in self._waits:
            self.go_on(connection, now_us)
            del self._waits[connection]
