"""Sessions that stay here, as their target has declined them, or has left the network."""

from __future__ import annotations

from collections.abc import Callable, Collection, MutableMapping

from shoal.model import BrokerId
from shoal.mqtt.federation.controls import Transfer
from shoal.mqtt.federation.session_transfer.directory.announcing import ClientAnnouncements
from shoal.mqtt.federation.session_transfer.directory.session_directory import SessionDirectory
from shoal.mqtt.federation.session_transfer.moves import SessionMove
from shoal.mqtt.sessions.session import Session
from shoal.mqtt.sessions.sessions import Sessions


class DeclinedSessions:
    """Those of one broker. `give` exports a session.

    `entered` has the time and the broker of each client's last connection, `left` the brokers that
    have left the network.
    """

    def __init__(
        self,
        broker_id: BrokerId,
        sessions: Sessions,
        homes: SessionDirectory,
        entered: MutableMapping[str, tuple[int, BrokerId]],
        left: Collection[BrokerId],
        telling: ClientAnnouncements,
    ) -> None:
        self.give: Callable[[Session, BrokerId, Transfer, int], None]
        self._broker_id = broker_id
        self._sessions = sessions
        self._homes = homes
        self._entered = entered
        self._left = left
        self._telling = telling

    def stay(self, move: SessionMove, now_us: int) -> None:
        """Keep a session, and announce it if other brokers expect it elsewhere."""
        session = move.session
        client_id = session.client_id
        assert move.target is not None
        broker, (_, at_us) = move.target
        known_us, known = self._entered.get(client_id, (0, ""))
        is_elsewhere = known != broker and known not in self._left
        home = self._homes.entry(client_id)
        if is_elsewhere and home is not None and (home.at_us, home.broker) == (known_us, known):
            # The session itself has gone on from the target: a new one would have ended this one.
            self.give(session, known, (client_id, known_us), now_us)
            return
        move.stay(now_us)
        session.going = None
        self._homes.pop(client_id)
        if known == broker or known in self._left:
            # Above the fencing token of that transfer, and of its entry there, below any later one.
            session.entered_us = max(at_us, known_us) + 1
            self._entered[client_id] = (session.entered_us, self._broker_id)
            self._telling.announce_all(self._telling.about(session), now_us)
        elif known == self._broker_id and known_us > session.entered_us:
            # This broker has requested it meanwhile, and others ignore older tokens.
            session.entered_us = known_us
            self._telling.announce_all(self._telling.about(session), now_us)
        self._sessions.restored(session, now_us)
