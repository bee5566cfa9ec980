"""Clients that were sent to another broker, until they have said all about what they got here.

A client that is told to use another server (MQTT 5, section 4.13) may have acknowledged what the
broker has not read yet.  So the broker reads on until the client closes, and keeps its session that
long from the broker where the client is next: what it has got is then not sent to it again.
"""

from __future__ import annotations

from collections.abc import Callable

from shoal.mqtt.federation.controls import Entered, Journey
from shoal.mqtt.limits import MICROSECONDS
from shoal.mqtt.sessions.delivering.outgoing import ClientConnection
from shoal.mqtt.sessions.session import Session
from shoal.mqtt.timers import Timers

# How long a client may take to read that it is sent away, and to close its connection; and how long
# from when it is elsewhere: then what it said last cannot be far.
REDIRECTED_US = 30 * MICROSECONDS
ELSEWHERE_US = MICROSECONDS

REDIRECTED_TIMER = "redirected"


class Redirecting:
    """Connections that are half closed.  `answer` takes a question for a session that was held."""

    def __init__(self, timers: Timers, answer: Callable[[Entered, int], None]) -> None:
        self._timers = timers
        self._answer = answer
        # By client, with the journey that had brought it here.
        self._connections: dict[str, tuple[Journey, ClientConnection]] = {}
        self._held: dict[str, Entered] = {}

    def add(self, session: Session, connection: ClientConnection, now_us: int) -> None:
        """A client was sent away."""
        stay = (session.client_id, session.entered_us)
        self._connections[session.client_id] = (stay, connection)
        self._timers.set((REDIRECTED_TIMER, stay), now_us + REDIRECTED_US)

    def holds(self, question: Entered, now_us: int) -> bool:
        """Whether a question for a client's session has to wait for the client's last words."""
        client_id = question.client_id
        if client_id not in self._connections:
            return False
        if client_id not in self._held:
            stay, _ = self._connections[client_id]
            self._timers.set((REDIRECTED_TIMER, stay), now_us + ELSEWHERE_US)
        self._held[client_id] = question
        return True

    def end(self, client_id: str, now_us: int) -> None:
        """The client takes too long, or is here again."""
        if client_id in self._connections:
            _, connection = self._connections[client_id]
            connection.hang_up(now_us)

    def ended(self, client_id: str, now_us: int) -> None:
        """All has been said: who asked for the session may have it."""
        stay, _ = self._connections.pop(client_id)
        self._timers.cancel((REDIRECTED_TIMER, stay))
        question = self._held.pop(client_id, None)
        if question is not None:
            self._answer(question, now_us)
