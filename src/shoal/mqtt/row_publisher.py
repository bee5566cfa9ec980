"""Publishes numbered rows, each once, also when the broker is killed between them.

It stands for an MQTT client of this broker that publishes at QoS 2 and has no connection: its
session is in the journal, and so are the packet identifiers of its publications, with their
effects. A row's number gives its packet identifier, so that a row that comes again after a restart
is known. The caller remembers on disk how many rows are done, and releases them only then.

>>> clients = BrokerClients("B1", now_us=0)
>>> rows = RowPublisher(clients, "query", "", now_us=1)
>>> rows.publish(0, PublishedMessage("a/b", b"hi", rows.client_id, 2, qos=1), now_us=2)
>>> rows.has(0), rows.has(1), rows.is_settled(0)
(True, False, True)
>>> rows.release_but(range(1, 5))
>>> rows.has(0)
False
"""

from __future__ import annotations

from collections.abc import Container

from shoal.mqtt.broker_clients import BrokerClients
from shoal.mqtt.front_end.network import RESERVED_CLIENT_IDS
from shoal.mqtt.limits import NEVER_S
from shoal.mqtt.messages import PublishedMessage
from shoal.mqtt.sessions.unsettled import owed_without_connection

PREFIX = f"{RESERVED_CLIENT_IDS}rows/"
_PACKET_IDS = 65_535
# Rows that are published and not released; far fewer than there are packet identifiers.
MOST_OPEN = 4_000


class RowPublisher:
    """The publisher of one name at one broker; its session may be there from an earlier run."""

    def __init__(self, clients: BrokerClients, name: str, user: str, now_us: int) -> None:
        self.client_id = f"{PREFIX}{name}"
        self._clients = clients
        session = clients.sessions.get(self.client_id)
        if session is None:
            session = clients.sessions.add(self.client_id)
            session.give_to(user)
            session.expiry_interval_s = NEVER_S
            session.entered_us = session.began_us = session.left_us = now_us
            if clients.journal is not None:
                clients.journal.entered(session)
                clients.journal.left(session, now_us)
        self._session = session

    def has(self, row: int) -> bool:
        """Whether a row was published, and is not released."""
        return _packet_id(row) in self._session.received

    def is_settled(self, row: int) -> bool:
        """Whether a published row needs nothing more; it is so on disk after the next flush."""
        return _packet_id(row) not in self._session.unsettled

    def publish(self, row: int, message: PublishedMessage, now_us: int) -> None:
        """Publish a row that was not published yet."""
        session, packet_id = self._session, _packet_id(row)
        session.remember((packet_id,))
        session.published += 1
        self._clients.publish(message, now_us, assured=True)
        front_end, key = self._clients.front_end, message.key
        if front_end is None or key is None:
            session.has_received(packet_id)
            return
        owed = owed_without_connection(session, packet_id, message)
        front_end.owe(key[1], owed)
        session.note_unsettled(owed)

    def release_but(self, rows: range) -> None:
        """Release all rows but these: they are known to be done, or are of an earlier batch."""
        kept: Container[int] = {_packet_id(each) for each in rows[:MOST_OPEN]}
        for packet_id in tuple(self._session.received):
            if packet_id not in kept:
                self._session.release(packet_id)

    def end(self, now_us: int) -> None:
        """End the session: all rows are done."""
        if self._clients.sessions.get(self.client_id) is self._session:
            self._clients.sessions.end(self._session, now_us)


def _packet_id(row: int) -> int:
    return row % _PACKET_IDS + 1
