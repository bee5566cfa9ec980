"""Sends the list of local sessions to a joining broker, or to all, a part at a time.

Each part states the number of parts, so the sessions of the list are fixed at the begin. A session
that begins or comes meanwhile is announced to all anyway; one that has gone by then is left out. A
broker that asks again meanwhile gets the list again afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from shoal.model import BrokerId
from shoal.mqtt.federation.controls import Control, Entered, OwnersKnown
from shoal.mqtt.federation.session_transfer.directory.announcing import (
    LISTED_PER_WORK,
    MOST_AS_ONE,
    ClientAnnouncements,
)
from shoal.mqtt.federation.session_transfer.directory.session_directory import SessionDirectory
from shoal.mqtt.federation.time_slices import TimeSlices
from shoal.mqtt.sessions.sessions import Sessions
from shoal.mqtt.timers import MqttTimers

LISTING_TIMER = "listing"
# Entries of the session directory that are as much work as a single announcement.
LOOKED_AT_PER_WORK = 100
# The number of brokers that get entries of the session directory at a time.
MOST_SEEKING = 16


class SessionListing:
    """The lists of one broker. `own` returns the announcement of a local client, or None; `send`
    sends a control to a broker.
    """

    def __init__(
        self,
        sessions: Sessions,
        homes: SessionDirectory,
        telling: ClientAnnouncements,
        timers: MqttTimers,
        own: Callable[[str], Entered | None],
        send: Callable[[str, Control, int], None],
    ) -> None:
        self._sessions = sessions
        self._homes = homes
        self._send = send
        self._telling = telling
        self._own = own
        # Separate from other state for a joining broker: the list lets it admit clients.
        self._turns = TimeSlices(timers, lambda: False, LISTING_TIMER)
        # The receivers of a list, and whether each has asked again.
        self._asked: dict[str, bool] = {}
        # The brokers to which sessions of silent brokers are being sent.
        self._seeking: set[str] = set()

    def tell(self, to: str, now_us: int) -> None:
        """Send the list of local clients to a broker, or to all."""
        if to in self._asked:
            self._asked[to] = True
        else:
            self._asked[to] = False
            self._turns.take(self._send_listing(to), now_us)

    def tell_owners(self, to: str, owners: Sequence[BrokerId], now_us: int) -> None:
        """Send a broker the sessions that these silent brokers own, as far as is known here.

        A question above the bound gets no answer: its broker asks another one later.
        """
        if to not in self._seeking and len(self._seeking) < MOST_SEEKING:
            self._seeking.add(to)
            self._turns.take(self._send_owners(to, owners), now_us)

    def left(self, broker: BrokerId, now_us: int) -> None:
        """Handle a broker that has left for good: others replace it as registrar."""
        if self._telling.left(broker):
            self._turns.take(self._announce_to_registrars(broker), now_us)

    def run_slice(self, now_us: int) -> None:
        """Run the next time slice."""
        self._turns.run_slice(now_us)

    def _send_listing(self, to: str) -> Iterator[int]:
        slices = list(self._slices()) or [()]
        for number, part in enumerate(slices):
            own = [each for each in map(self._own, part) if each is not None]
            yield self._telling.tell(to, own, number, len(slices), self._turns.now_us)
        if self._asked.pop(to):
            self.tell(to, self._turns.now_us)

    def _send_owners(self, to: str, owners: Sequence[BrokerId]) -> Iterator[int]:
        found: list[Entered] = []
        for number, about in enumerate(self._homes.owned_by(frozenset(owners)), 1):
            if about is not None:
                found.append(about)
            if len(found) == MOST_AS_ONE:
                self._send(to, OwnersKnown(tuple(found)), self._turns.now_us)
                found.clear()
                yield MOST_AS_ONE // LISTED_PER_WORK
            if not number % LOOKED_AT_PER_WORK:
                yield 1
        self._send(to, OwnersKnown(tuple(found), tuple(owners)), self._turns.now_us)
        self._seeking.remove(to)
        yield 1

    def _announce_to_registrars(self, left: BrokerId) -> Iterator[int]:
        for part in self._slices():
            own = [each for each in map(self._own, part) if each is not None]
            yield self._telling.announce_to_registrars(left, own, self._turns.now_us)

    def _slices(self) -> Iterator[Sequence[str]]:
        client_ids = self._sessions.client_ids()
        for start in range(0, len(client_ids), MOST_AS_ONE):
            yield client_ids[start : start + MOST_AS_ONE]
