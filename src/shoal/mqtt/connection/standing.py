"""How one network connection stands: what it keeps, and what may be asked about it.

What happens on it, and what comes of that, is `connection.py`'s.
"""

from __future__ import annotations

from typing import Any

from shoal.mqtt.access import Credentials
from shoal.mqtt.codec.decoder import Decoder
from shoal.mqtt.connection.connecting import Terms
from shoal.mqtt.connection.entering import Entering
from shoal.mqtt.connection.holding import Held
from shoal.mqtt.connection.house import House
from shoal.mqtt.connection.serving import Serving
from shoal.mqtt.connection.states import State
from shoal.mqtt.connection.unfinished import Unfinished
from shoal.mqtt.notices import Party
from shoal.mqtt.sessions.session import Session


class Standing:
    """Of one network connection.  `owner` is the driver's own."""

    __slots__ = (
        "_decoder",
        "_entering",
        "_held",
        "_house",
        "_is_lost",
        "_serving",
        "_waits_for_end",
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

    def __init__(self, house: House, now_us: int, known: Credentials) -> None:
        """`known` is what its transport knows."""
        self.owner: Any = None
        self.state = State.WAITING
        # What is agreed once a CONNECT has come.
        self.terms: Terms | None = None
        # What the client has said about itself; without its password once it is let in.
        self.credentials = known
        self.last_received_us = now_us
        self._house = house
        self._decoder = Decoder(None, house.limits.maximum_packet_size)
        # From its CONNECT until it is let in; and from then on.
        self._entering: Entering | None = None
        self._serving: Serving | None = None
        # Whether the driver wants nothing taken for now.
        self.is_held = False
        # Whether its client is about to be sent elsewhere: it gets the answers it is owed first.
        self.is_moving = False
        # Whether what its client advertises is not known everywhere yet.
        self.is_spreading = False
        # Whether it waits for clients that read more slowly than it sends (see `patience`).
        self.is_waiting = False
        # Whether it waits because its client publishes faster than it may (see `rates`).
        self.is_over_rate = False
        self._held = Held(house)
        # Where the bytes of a packet are counted whose end has not come.
        self._waits_for_end: Unfinished | None = None
        self._is_lost = False

    @property
    def session(self) -> Session | None:
        """The client's, once it is let in."""
        return None if self._serving is None else self._serving.session

    @property
    def client_id(self) -> str | None:
        """The client's, once it is let in."""
        return None if self._serving is None else self._serving.session.client_id

    @property
    def party(self) -> Party:
        """Who it is, for an operator."""
        session, said = self.session, self.credentials
        user = said.certificate or said.username
        if session is not None:
            return Party(session.client_id, session.user or user, said.address)
        return Party(said.client_id, user, said.address)

    @property
    def is_closed(self) -> bool:
        """Whether no more is said on it; what was said last is still to be written."""
        return self.state is State.CLOSED or self.state is State.REDIRECTED

    @property
    def is_redirected(self) -> bool:
        """Whether it is read until its client closes, though nothing more is written."""
        return self.state is State.REDIRECTED

    @property
    def wants_reading(self) -> bool:
        """False while nothing more should be read.

        The answer to the CONNECT is still out, or too much is held.
        """
        if self.state is State.CONNECTED:
            return self._held.has_room
        return self.state is not State.ADMISSION

    @property
    def must_wait(self) -> bool:
        """Whether what the client sends is not taken now, since it is owed too many answers, or
        not everybody has heard what it promises, or the driver says so.
        """
        if self.is_held or self.is_moving or self.is_spreading:
            return True
        if self.is_waiting or self.is_over_rate:
            return True
        house = self._house
        if house.is_held or house.spreading.is_on or house.is_sharing:
            return True
        if self._serving is None:
            return False
        door = self._house.door
        if door is not None and door.promising.is_unheard(self._serving.session.client_id):
            return True
        # A publication that waits has all wait that was said behind it.
        if self._held.packets and self._serving.session.holds_publications:
            return True
        return self._serving.incoming.is_full

    @property
    def holds(self) -> bool:
        """Whether something waits for `take_held`."""
        return self.state is State.CONNECTED and bool(self._held.packets)

    @property
    def is_through(self) -> bool:
        """Whether all that came is taken, and more may be read: nobody need look after it."""
        return self.state is State.CONNECTED and not self._held.packets

    @property
    def follows(self) -> bool:
        """Whether the client goes where it is sent."""
        return self.terms is not None and self.terms.follows

    @property
    def owes(self) -> bool:
        """Whether the client waits for the answer to a publication."""
        return self._serving is not None and self._serving.incoming.owes
