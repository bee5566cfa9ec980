"""Releases a session of a client at another broker, or one that another broker requests.

A requested session is exported (see `exporting`). A session whose client was admitted elsewhere to
another session ends. A broker without the session passes the request on, or answers that there is
none.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from shoal.model import BrokerId
from shoal.mqtt.federation.controls import Control, Entered, SessionState
from shoal.mqtt.federation.session_transfer.directory.session_directory import SessionOwner
from shoal.mqtt.federation.session_transfer.exporting import SessionExport
from shoal.mqtt.federation.session_transfer.takeovers import drop_if_late
from shoal.mqtt.sessions.session import Session
from shoal.mqtt.sessions.sessions import Sessions

# The bound of passing a request on along the session's way.
MOST_PASSED = 32


class SessionRelease:
    """The releases of one broker. `send` sends a control to a broker."""

    def __init__(
        self,
        broker_id: BrokerId,
        sessions: Sessions,
        giving: SessionExport,
        send: Callable[[str, Control, int], None],
    ) -> None:
        self._broker_id = broker_id
        self._sessions = sessions
        self._giving = giving
        self._send = send

    def is_asked_for(self, session: Session, question: Entered, now_us: int) -> None:
        """Handle a request for a session that is here, or exported and still kept."""
        transfer = (question.client_id, question.at_us)
        move = self._giving.get(session.client_id)
        if move is None:
            released = self._sessions.close_connection(session.client_id, now_us)
            if released is not None:
                self._giving.give(released, question.broker, transfer, now_us)
            elif question.must_send_session == self._broker_id:
                self._send(question.broker, SessionState(transfer, False), now_us)
            return
        assert move.target is not None
        if move.target != (question.broker, transfer):  # two requests of one microsecond
            self._giving.ask_for(move, question, now_us)
        elif move.is_restored:
            self._giving.give(session, question.broker, transfer, now_us)

    def is_elsewhere(self, session: Session, control: Entered, now_us: int) -> None:
        """Handle a client admitted elsewhere: to this session, or to another."""
        move = self._giving.get(session.client_id)
        if control.began_us == session.began_us:
            if move is None:
                # The journal had lost the transfer: export the messages again.
                released = self._sessions.close_connection(session.client_id, now_us)
                if released is not None:
                    transfer = (control.client_id, control.at_us)
                    self._giving.give(released, control.broker, transfer, now_us)
        elif move is not None:
            assert move.target is not None
            if move.target[0] != control.broker:
                self.over(session, now_us)
        else:
            drop_if_late(session, max(control.at_us, control.began_us), now_us)
            released = self._sessions.close_connection(session.client_id, now_us)
            if released is not None:
                self._sessions.replace(released, now_us)

    def pass_on(self, question: Entered, home: SessionOwner | None, now_us: int) -> None:
        """Pass on a request for a session that is not here.

        If all brokers believe that it is at another one, the request would circle forever; at the
        bound it is dropped, and its client is refused.
        """
        if home is not None and home.broker != question.broker:
            if question.passed < MOST_PASSED:
                on = msgspec.structs.replace(
                    question, must_send_session=home.broker, passed=question.passed + 1
                )
                self._send(home.broker, on, now_us)
        else:
            transfer = (question.client_id, question.at_us)
            self._send(question.broker, SessionState(transfer, False), now_us)

    def over(self, session: Session, now_us: int) -> None:
        """End an exported session whose client was admitted to another one."""
        session.will = None
        self._sessions.end(session, now_us)
