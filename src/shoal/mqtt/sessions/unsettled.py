"""Unsettled QoS 2 publications without a connection to acknowledge.

The broker has restarted, or the session came back to its former broker. A repeated publication of
the client is answered by `incoming`.
"""

from __future__ import annotations

from shoal.mqtt.codec.reason_codes import ReasonCode
from shoal.mqtt.front_end.pending_acks import OwedAck
from shoal.mqtt.messages import PublishedMessage
from shoal.mqtt.sessions.session import Session


class _NoConnection:
    """A placeholder for the missing connection."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def settled(self, owed: OwedAck) -> None:
        """Record the settling; a repeated publication is then answered at once."""
        self._session.settled(owed.packet_id)
        self._session.has_received(owed.packet_id)

    def note(self, owed: OwedAck) -> None:
        self._session.note_unsettled(owed)


def owed_without_connection(session: Session, packet_id: int, message: PublishedMessage) -> OwedAck:
    """Restore an unsettled publication after a restart."""
    owed = OwedAck(_NoConnection(session), 2, packet_id, ReasonCode.SUCCESS, message.topic)
    owed.message = message
    session.owe(packet_id, owed)
    return owed


def take_over(session: Session, before: Session) -> None:
    """Take over the unsettled publications of `before`, the session's former copy here."""
    for packet_id, owed in before.unsettled.items():
        owed.incoming = _NoConnection(session)
        session.owe(packet_id, owed)
