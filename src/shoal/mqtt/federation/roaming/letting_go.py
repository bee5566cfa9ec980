"""What a broker does with a session that it has, or had, once its client is, or asks, elsewhere.

One that is asked for is given (see `giving`).  One whose client was let in elsewhere to another
session is over.  Who is asked and does not have it asks where it went, or says that there is none.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from shoal.model import BrokerId
from shoal.mqtt.federation.controls import Control, Entered, SessionState
from shoal.mqtt.federation.roaming.giving import Giving
from shoal.mqtt.federation.roaming.takeovers import drop_if_late
from shoal.mqtt.federation.roaming.whereabouts.homes import Home
from shoal.mqtt.sessions.session import Session
from shoal.mqtt.sessions.sessions import Sessions

# How often a session may have gone on since somebody heard where it is.
MOST_PASSED = 32


class LettingGo:
    """One broker's part.  `say` sends a word to a broker."""

    def __init__(
        self,
        broker_id: BrokerId,
        sessions: Sessions,
        giving: Giving,
        say: Callable[[str, Control, int], None],
    ) -> None:
        self._broker_id = broker_id
        self._sessions = sessions
        self._giving = giving
        self._say = say

    def is_asked_for(self, session: Session, question: Entered, now_us: int) -> None:
        """Another broker wants a session that is here, or was given and is still kept."""
        journey = (question.client_id, question.at_us)
        move = self._giving.get(session.client_id)
        if move is None:
            let_go = self._sessions.let_go(session.client_id, now_us)
            if let_go is not None:
                self._giving.give(let_go, question.broker, journey, now_us)
            elif question.asked == self._broker_id:
                self._say(question.broker, SessionState(journey, False), now_us)
            return
        assert move.target is not None
        if move.target != (question.broker, journey):  # two may have asked in one microsecond
            self._giving.ask_for(move, question, now_us)
        elif move.is_restored:
            self._giving.give(session, question.broker, journey, now_us)

    def is_elsewhere(self, session: Session, control: Entered, now_us: int) -> None:
        """The client of a session here was let in elsewhere: with that session, or another."""
        move = self._giving.get(session.client_id)
        if control.began_us == session.began_us:
            if move is None:
                # The journal had lost that it went there: what it has is offered again.
                let_go = self._sessions.let_go(session.client_id, now_us)
                if let_go is not None:
                    journey = (control.client_id, control.at_us)
                    self._giving.give(let_go, control.broker, journey, now_us)
        elif move is not None:
            assert move.target is not None
            if move.target[0] != control.broker:
                self.over(session, now_us)
        else:
            drop_if_late(session, control.at_us, now_us)
            let_go = self._sessions.let_go(session.client_id, now_us)
            if let_go is not None:
                self._sessions.replace(let_go, now_us)

    def pass_on(self, question: Entered, home: Home | None, now_us: int) -> None:
        """This broker was asked for a session that it does not have.

        Where all believe that it is at another, the question would go round for ever; nobody
        answers it, so its client is refused.
        """
        if home is not None and home.broker != question.broker:
            if question.passed < MOST_PASSED:
                on = msgspec.structs.replace(
                    question, asked=home.broker, passed=question.passed + 1
                )
                self._say(home.broker, on, now_us)
        else:
            journey = (question.client_id, question.at_us)
            self._say(question.broker, SessionState(journey, False), now_us)

    def over(self, session: Session, now_us: int) -> None:
        """A session that was given is over: its client has been let in to another."""
        session.will = None
        self._sessions.end(session, now_us)
