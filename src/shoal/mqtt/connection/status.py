"""The state of one network connection, and its properties for other parts.

`connection.py` has its transitions.
"""

from __future__ import annotations

from typing import Any

from shoal.mqtt.access import ClientCredentials
from shoal.mqtt.codec.decoder import Decoder
from shoal.mqtt.codec.packets import Disconnect
from shoal.mqtt.connection.broker_api import BrokerApi
from shoal.mqtt.connection.connecting import ConnectionTerms
from shoal.mqtt.connection.entering import ConnectionEntry
from shoal.mqtt.connection.holding import HeldPackets
from shoal.mqtt.connection.serving import Serving
from shoal.mqtt.connection.states import ConnectionState
from shoal.mqtt.connection.unfinished import Unfinished
from shoal.mqtt.notices import Party
from shoal.mqtt.sessions.session import Session


class ConnectionStatus:
    """The state of one network connection. `owner` belongs to the driver."""

    __slots__ = (
        "_broker_api",
        "_decoder",
        "_entering",
        "_held",
        "_is_lost",
        "_serving",
        "_waits_for_end",
        "connect_us",
        "credentials",
        "is_held",
        "is_moving",
        "is_over_rate",
        "is_spreading",
        "is_waiting",
        "last_received_us",
        "owner",
        "state",
        "terms",
    )

    def __init__(self, broker_api: BrokerApi, now_us: int, known: ClientCredentials) -> None:
        """`known` are the credentials of the transport."""
        self.owner: Any = None
        self.state = ConnectionState.WAITING
        # The agreed terms, after a CONNECT.
        self.terms: ConnectionTerms | None = None
        # The client's credentials; without the password after admission.
        self.credentials = known
        self.last_received_us = now_us
        # The time of its CONNECT; before, of its begin.
        self.connect_us = now_us
        self._broker_api = broker_api
        self._decoder = Decoder(None, broker_api.limits.maximum_packet_size)
        # From the CONNECT to admission; and after admission.
        self._entering: ConnectionEntry | None = None
        self._serving: Serving | None = None
        # Whether the driver suspends input.
        self.is_held = False
        # Whether its client is about to be redirected: owed acknowledgements go out first.
        self.is_moving = False
        # Whether the client's advertisements are not known everywhere yet.
        self.is_spreading = False
        # Whether it waits for slow subscribers of its publications (see `slow_consumers`).
        self.is_waiting = False
        # Whether it waits because its client is above its rate (see `rates`).
        self.is_over_rate = False
        self._held = HeldPackets(broker_api)
        # The counter of its incomplete packet.
        self._waits_for_end: Unfinished | None = None
        self._is_lost = False

    @property
    def session(self) -> Session | None:
        """The client's session, after admission."""
        return None if self._serving is None else self._serving.session

    @property
    def client_id(self) -> str | None:
        """The client's identifier, after admission."""
        return None if self._serving is None else self._serving.session.client_id

    @property
    def party(self) -> Party:
        """The client, for notices."""
        session, said = self.session, self.credentials
        user = said.certificate or said.username
        if session is not None:
            return Party(session.client_id, session.user or user, said.address)
        return Party(said.client_id, user, said.address)

    @property
    def is_closed(self) -> bool:
        """Whether nothing more is sent on it; earlier bytes are still written."""
        return self.state is ConnectionState.CLOSED or self.state is ConnectionState.REDIRECTED

    @property
    def is_redirected(self) -> bool:
        """Whether it is read until its client closes, though nothing more is written."""
        return self.state is ConnectionState.REDIRECTED

    @property
    def wants_reading(self) -> bool:
        """False while the driver should not read: too many bytes are held.

        A client without its CONNACK is read until it sends more than a DISCONNECT: so the broker
        notices that the client has hung up.
        """
        if self.is_entering:
            held, decoder = self._held.packets, self._decoder
            has_more = len(held) > 1 or (held and type(held[0]) is not Disconnect)
            return not (has_more or decoder.unfinished or decoder.failure)
        return self.state is not ConnectionState.CONNECTED or self._held.has_room

    @property
    def is_entering(self) -> bool:
        """Whether the answer to the client's CONNECT is outstanding."""
        return self.state is ConnectionState.ADMISSION

    @property
    def must_wait(self) -> bool:
        """Whether the client's packets are held: it is owed too many acknowledgements, its
        advertisements are not known everywhere, or the broker or the driver suspends input.
        """
        if self.is_held or self.is_moving or self.is_spreading:
            return True
        if self.is_waiting or self.is_over_rate:
            return True
        broker_api = self._broker_api
        if broker_api.is_held or broker_api.spreading.is_on or broker_api.is_sharing:
            return True
        if self._serving is None:
            return False
        front_end = self._broker_api.front_end
        if front_end is not None and front_end.promising.is_unheard(
            self._serving.session.client_id
        ):
            return True
        # A publication that waits holds all packets behind it.
        if self._held.packets and self._serving.session.holds_publications:
            return True
        return self._serving.incoming.is_full

    @property
    def holds(self) -> bool:
        """Whether packets wait for `take_held`."""
        return self.state is ConnectionState.CONNECTED and bool(self._held.packets)

    @property
    def is_through(self) -> bool:
        """Whether all packets are handled, and more may be read."""
        return self.state is ConnectionState.CONNECTED and not self._held.packets

    @property
    def follows(self) -> bool:
        """Whether the client accepts redirects."""
        return self.terms is not None and self.terms.follows

    @property
    def owes(self) -> bool:
        """Whether the client waits for an acknowledgement of a publication."""
        return self._serving is not None and self._serving.incoming.owes
