"""The sessions of a broker that leaves the network, or is drained, go to others.

It has sent its clients away by then.  Whoever comes back elsewhere takes its session along, as ever
(see `roaming`); for each that is still here the broker asks another one to take it over, again and
again, each time the next.  That one takes it as if its client had connected there, and gone at
once: it asks for it, is given it, and keeps it for as long as it would have been kept.

| broker | hears or sees | does |
| --- | --- | --- |
| leaves | a second over, a session is here and goes nowhere | Vacated, to the next broker |
| another | Vacated | Entered, asking for it |
| another | the session has come | Entered; time goes on for it |
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

from shoal.model import BrokerId
from shoal.mqtt.access import Admission, Credentials, Permissions
from shoal.mqtt.codec.packets import Connect
from shoal.mqtt.codec.reason_codes import ReasonCode
from shoal.mqtt.door.network import Door
from shoal.mqtt.federation.controls import Vacated, encode_control
from shoal.mqtt.federation.roaming.roaming import Roaming
from shoal.mqtt.limits import MICROSECONDS
from shoal.mqtt.memory.journal import Journal
from shoal.mqtt.notices import Party
from shoal.mqtt.sessions.session import Session
from shoal.mqtt.sessions.sessions import Sessions
from shoal.mqtt.timers import Timers

# A session that has come is there a good deal sooner; a question may get lost with a link.
ASK_AGAIN_US = 3 * MICROSECONDS

# Whoever was sent elsewhere takes its session along; who does not come in this time, does not.
COMES_BY_ITSELF_US = 5 * MICROSECONDS

# Sessions that are looked at before others have their turn, some 4 ms.
MOST_AT_ONCE = 1_000

EVACUATING_TIMER = "evacuating"


class Evacuating:
    """One broker's part.  `permissions` says what a user may do whose client is not here."""

    def __init__(
        self,
        broker_id: BrokerId,
        sessions: Sessions,
        door: Door,
        timers: Timers,
        roaming: Roaming,
        permissions: Callable[[str, str], Permissions],
    ) -> None:
        self.journal: Journal | None = None
        self._broker_id = broker_id
        self._sessions = sessions
        self._door = door
        self._timers = timers
        self._roaming = roaming
        self._permissions = permissions
        self._takers: Callable[[], Sequence[BrokerId]] = tuple
        self._asked = 0
        # Whose sessions are still to be looked at in this round.
        self._left: Iterator[str] | None = None

    def begin(self, takers: Callable[[], Sequence[BrokerId]], now_us: int) -> None:
        """No session stays at this broker, and these can take them."""
        self._takers = takers
        self._left = None
        self.due(now_us)

    def end(self) -> None:
        """Sessions may stay."""
        self._timers.cancel((EVACUATING_TIMER, ()))

    def due(self, now_us: int) -> None:
        """Ask for some of what is still here; in a while, for what is here then."""
        if self._left is None:
            self._left = iter(self._sessions.client_ids())
        takers, some = self._takers(), list(islice(self._left, MOST_AT_ONCE))
        for client_id in some:
            session = self._sessions.get(client_id)
            if session is not None:
                self._look_at(session, takers, now_us)
        if len(some) < MOST_AT_ONCE:
            self._left = None
        wait_us = ASK_AGAIN_US if self._left is None else 1  # others have their turn before that
        self._timers.set((EVACUATING_TIMER, ()), now_us + wait_us)

    def _look_at(self, session: Session, takers: Sequence[BrokerId], now_us: int) -> None:
        if session.is_only_a_will:
            self._sessions.end(session, now_us)
        elif session.is_moving and _comes_by_itself(session, now_us):
            return
        elif session.going is None and session.outlet is None and takers:
            taker = takers[self._asked % len(takers)]
            self._asked += 1
            self._door.send(taker, encode_control(self._vacated(session, now_us)), now_us)

    def _vacated(self, session: Session, now_us: int) -> Vacated:
        away_us = 0 if session.left_us is None else max(0, now_us - session.left_us)
        return Vacated(
            session.client_id,
            self._broker_id,
            session.entered_us,
            session.user,
            session.expiry_interval_s,
            away_us,
            session.will,
        )

    def hear(self, control: Vacated, now_us: int) -> None:
        """Another broker leaves, and this one is to take a session over."""
        client_id = control.client_id
        home = self._roaming.homes.entry(client_id)
        is_elsewhere = home is not None and home.at_us > control.entered_us
        waiting = self._roaming.fetching.waiting
        if is_elsewhere or self._sessions.get(client_id) or client_id in waiting:
            return
        self._roaming.is_at(client_id, control.broker, control.entered_us, control.user)
        permissions = self._permissions(control.user, client_id)
        admission = Admission(permissions=permissions, user=control.user)
        newcomer = Newcomer(control, self._enter)
        connect = Connect(client_id, clean_start=False)
        self._roaming.must_wait(newcomer, connect, admission, now_us)

    def _enter(self, control: Vacated, now_us: int) -> None:
        """The session has come, if there was one."""
        session = self._sessions.get(control.client_id)
        if session is None:
            return
        session.expiry_interval_s = control.expiry_interval_s
        session.will = control.will
        self._roaming.entered(session, now_us)
        if self.journal is not None:
            self.journal.entered(session)
        session.left_us = now_us - control.away_us
        self._sessions.restored(session, now_us)


def _comes_by_itself(session: Session, now_us: int) -> bool:
    """Whether the client of a session, which was sent elsewhere, is expected there.

    One that ends with its connection is of no use to another broker without the client.
    """
    away_us = 0 if session.left_us is None else now_us - session.left_us
    return not session.expiry_interval_s or away_us < COMES_BY_ITSELF_US


class Newcomer:
    """Stands where the connection of a client would, whose session comes without it."""

    def __init__(self, control: Vacated, enter: Callable[[Vacated, int], None]) -> None:
        self.owner: Any = None
        self.credentials = Credentials(client_id=control.client_id)
        self.party = Party(control.client_id, None, None)
        self.is_waiting = self.is_over_rate = self.is_moving = self.is_spreading = (
            self.is_closed
        ) = False
        self.follows = self.owes = False
        self._control = control
        self._enter = enter

    def disconnect(
        self, reason_code: ReasonCode, reason: str, now_us: int, server_reference: str | None = None
    ) -> None:
        """The client itself has come, here or elsewhere, or the session does not."""
        self.is_closed = True

    def go_elsewhere(self, server_reference: str, reason: str, now_us: int) -> None:
        """There is nobody to send."""

    def go_on(self, admission: Admission, now_us: int) -> None:
        """The session has come, or will not."""
        self._enter(self._control, now_us)

    def hang_up(self, now_us: int) -> None:
        """There is nobody to take anything from."""

    def took(self, now_us: int) -> None:
        """There is nobody to write to."""

    def grant(self, permissions: Permissions) -> None:
        """There is nobody whose rights could change."""
