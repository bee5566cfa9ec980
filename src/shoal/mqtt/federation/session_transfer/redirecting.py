"""Redirected clients, until their last acknowledgements are read.

A client that is told to use another server (MQTT 5, section 4.13) may have acknowledged messages in
packets that the broker has not read yet. The broker therefore reads until the client closes, and
answers a request for its session afterwards: so the next broker does not send these messages again.
"""

from __future__ import annotations

from collections.abc import Callable

from shoal.mqtt.federation.controls import Entered, Transfer
from shoal.mqtt.limits import MICROSECONDS
from shoal.mqtt.sessions.delivering.outgoing import ClientConnection
from shoal.mqtt.sessions.session import Session
from shoal.mqtt.timers import MqttTimers

# The time for a client to read the redirect and to close its connection; and the time after it has
# connected elsewhere, when its last packets cannot be far.
REDIRECTED_US = 30 * MICROSECONDS
ELSEWHERE_US = MICROSECONDS

REDIRECTED_TIMER = "redirected"


class Redirecting:
    """Redirected connections. `answer` handles a request for a session that was held."""

    def __init__(self, timers: MqttTimers, answer: Callable[[Entered, int], None]) -> None:
        self._timers = timers
        self._answer = answer
        # By client, with the transfer of its entry here.
        self._connections: dict[str, tuple[Transfer, ClientConnection]] = {}
        self._held: dict[str, Entered] = {}

    def add(self, session: Session, connection: ClientConnection, now_us: int) -> None:
        """Add a redirected client."""
        stay = (session.client_id, session.entered_us)
        self._connections[session.client_id] = (stay, connection)
        self._timers.set((REDIRECTED_TIMER, stay), now_us + REDIRECTED_US)

    def holds(self, question: Entered, now_us: int) -> bool:
        """Whether a request for a client's session must wait for the client's last packets."""
        client_id = question.client_id
        if client_id not in self._connections:
            return False
        if client_id not in self._held:
            stay, _ = self._connections[client_id]
            self._timers.set((REDIRECTED_TIMER, stay), now_us + ELSEWHERE_US)
        self._held[client_id] = question
        return True

    def end(self, client_id: str, now_us: int) -> None:
        """Close the connection: the client takes too long, or is here again."""
        if client_id in self._connections:
            _, connection = self._connections[client_id]
            connection.hang_up(now_us)

    def ended(self, client_id: str, now_us: int) -> None:
        """The connection has ended: answer a held request for the session."""
        stay, _ = self._connections.pop(client_id)
        self._timers.cancel((REDIRECTED_TIMER, stay))
        question = self._held.pop(client_id, None)
        if question is not None:
            self._answer(question, now_us)
