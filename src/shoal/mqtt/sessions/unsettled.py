"""Publications of QoS 2 whose client is not here to be answered while they are under way.

The broker started since, or the session came back to where they were published.  When the client
asks again, it is answered as `incoming` says.
"""

from __future__ import annotations

from shoal.mqtt.codec.reason_codes import ReasonCode
from shoal.mqtt.door.owed import Owed
from shoal.mqtt.messages import Message
from shoal.mqtt.sessions.session import Session


class _Nobody:
    """In the place of a connection."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def settled(self, owed: Owed) -> None:
        """When the client asks again, it is answered at once."""
        self._session.settled(owed.packet_id)
        self._session.has_received(owed.packet_id)

    def note(self, owed: Owed) -> None:
        self._session.note_unsettled(owed)


def owed_to_nobody(session: Session, packet_id: int, message: Message) -> Owed:
    """A publication from before the broker started."""
    owed = Owed(_Nobody(session), 2, packet_id, ReasonCode.SUCCESS, message.topic)
    owed.message = message
    session.owe(packet_id, owed)
    return owed


def take_over(session: Session, before: Session) -> None:
    """A session is back; `before` is what it was when it published here."""
    for packet_id, owed in before.unsettled.items():
        owed.incoming = _Nobody(session)
        session.owe(packet_id, owed)
