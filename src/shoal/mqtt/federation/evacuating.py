"""Evacuation: the sessions of a broker that leaves the network, or is drained, go to others.

The broker has redirected its clients already. A client that connects elsewhere takes its session
along (see `session_transfer`). For each session that is still here the leaving broker asks another
broker, in turn, to take it over, repeatedly. That broker acts as if the client had connected there
and disconnected at once: it requests the session, imports it, and keeps it for the rest of its
expiry interval.

| broker | hears or sees | does |
| --- | --- | --- |
| leaving broker | a second over, a session is here, not exported | Vacated, to the next broker |
| another broker | Vacated | Entered, requesting the session |
| another broker | the session has come | Entered; the expiry interval continues |
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

from shoal.model import BrokerId
from shoal.mqtt.access import ClientAdmission, ClientCredentials, Permissions
from shoal.mqtt.codec.packets import Connect
from shoal.mqtt.codec.reason_codes import ReasonCode
from shoal.mqtt.federation.controls import Vacated, encode_control
from shoal.mqtt.federation.session_transfer.session_transfer import SessionTransfer
from shoal.mqtt.front_end.network import RESERVED_CLIENT_IDS, FrontEnd
from shoal.mqtt.limits import MICROSECONDS
from shoal.mqtt.memory.journal import SessionJournal
from shoal.mqtt.notices import Party
from shoal.mqtt.sessions.session import Session
from shoal.mqtt.sessions.sessions import Sessions
from shoal.mqtt.timers import MqttTimers

# The interval of requests for one session; an answer takes less, unless a link loses it.
ASK_AGAIN_US = 3 * MICROSECONDS

# The time in which a redirected client is expected to fetch its session itself.
COMES_BY_ITSELF_US = 5 * MICROSECONDS

# The number of sessions that one time slice checks, some 4 ms.
MOST_AT_ONCE = 1_000

EVACUATING_TIMER = "evacuating"


class Evacuating:
    """One broker's evacuation. `permissions` returns those of a user whose client is not here."""

    def __init__(
        self,
        broker_id: BrokerId,
        sessions: Sessions,
        front_end: FrontEnd,
        timers: MqttTimers,
        session_transfer: SessionTransfer,
        permissions: Callable[[str, str], Permissions],
    ) -> None:
        self.journal: SessionJournal | None = None
        self._broker_id = broker_id
        self._sessions = sessions
        self._front_end = front_end
        self._timers = timers
        self._session_transfer = session_transfer
        self._permissions = permissions
        self._takers: Callable[[], Sequence[BrokerId]] = tuple
        self._asked = 0
        # The client identifiers that this round has still to check.
        self._left: Iterator[str] | None = None

    def begin(self, takers: Callable[[], Sequence[BrokerId]], now_us: int) -> None:
        """Begin to move all sessions to these brokers."""
        self._takers = takers
        self._left = None
        self.evacuate_some(now_us)

    def end(self) -> None:
        """Stop the evacuation."""
        self._timers.cancel((EVACUATING_TIMER, ()))

    def evacuate_some(self, now_us: int) -> None:
        """Check some of the sessions that are still here, and schedule the next round."""
        if self._left is None:
            self._left = iter(self._sessions.client_ids())
        takers, some = self._takers(), list(islice(self._left, MOST_AT_ONCE))
        for client_id in some:
            session = self._sessions.get(client_id)
            if session is not None:
                self._look_at(session, takers, now_us)
        if len(some) < MOST_AT_ONCE:
            self._left = None
        wait_us = ASK_AGAIN_US if self._left is None else 1  # after a time slice of other inputs
        self._timers.set((EVACUATING_TIMER, ()), now_us + wait_us)

    def _look_at(self, session: Session, takers: Sequence[BrokerId], now_us: int) -> None:
        if session.client_id.startswith(RESERVED_CLIENT_IDS):
            return  # the broker's own, which ends by itself
        if session.is_only_a_will:
            self._sessions.end(session, now_us)
        elif session.is_moving and _comes_by_itself(session, now_us):
            return
        elif session.going is None and session.session_writer is None and takers:
            taker = takers[self._asked % len(takers)]
            self._asked += 1
            self._front_end.send(taker, encode_control(self._vacated(session, now_us)), now_us)

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

    def on_control(self, control: Vacated, now_us: int) -> None:
        """Take over a session of a leaving broker."""
        client_id = control.client_id
        home = self._session_transfer.homes.entry(client_id)
        # A broker that was started on an older copy of its folder has forgotten later entries.
        is_elsewhere = (
            home is not None and home.broker != control.broker and home.at_us > control.entered_us
        )
        waiting = self._session_transfer.fetching.waiting
        if is_elsewhere or self._sessions.get(client_id) or client_id in waiting:
            return
        self._session_transfer.is_at(client_id, control.broker, control.entered_us, control.user)
        permissions = self._permissions(control.user, client_id)
        admission = ClientAdmission(permissions=permissions, user=control.user)
        newcomer = Newcomer(control, self._enter)
        connect = Connect(client_id, clean_start=False)
        self._session_transfer.must_wait(newcomer, connect, admission, now_us)

    def _enter(self, control: Vacated, now_us: int) -> None:
        """Install the imported session, if there was one."""
        session = self._sessions.get(control.client_id)
        if session is None:
            return
        session.expiry_interval_s = control.expiry_interval_s
        session.will = control.will
        self._session_transfer.entered(session, control.entered_us, now_us)
        if self.journal is not None:
            self.journal.entered(session)
        session.left_us = now_us - control.away_us
        self._sessions.restored(session, now_us)


def _comes_by_itself(session: Session, now_us: int) -> bool:
    """Whether the redirected client of a session is expected to fetch it.

    A session that ends with its connection is useless at another broker without its client.
    """
    away_us = 0 if session.left_us is None else now_us - session.left_us
    return not session.expiry_interval_s or away_us < COMES_BY_ITSELF_US


class Newcomer:
    """A placeholder for the connection of a client whose session is imported without it."""

    def __init__(self, control: Vacated, enter: Callable[[Vacated, int], None]) -> None:
        self.owner: Any = None
        self.credentials = ClientCredentials(client_id=control.client_id)
        # Any later CONNECT of the client itself wins.
        self.connect_us = control.entered_us
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
        """The client itself has connected, here or elsewhere, or the session does not come."""
        self.is_closed = True

    def send_redirect(self, server_reference: str, reason: str, now_us: int) -> None:
        """Do nothing: there is no client to redirect."""

    def finish_entry(self, admission: ClientAdmission, now_us: int) -> None:
        """The session has come, or will not come."""
        self._enter(self._control, now_us)

    def hang_up(self, now_us: int) -> None:
        """Do nothing: there is no client to read from."""

    def took(self, now_us: int) -> None:
        """Do nothing: there is no client to write to."""

    def grant(self, permissions: Permissions) -> None:
        """Do nothing: there is no client with permissions."""
