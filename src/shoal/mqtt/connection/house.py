"""What a connection asks of the broker that it leads to (see `broker_clients`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from shoal.model import Filter
from shoal.mqtt.access import Admission, Credentials, Permissions
from shoal.mqtt.codec.packets import Connect, Will
from shoal.mqtt.connection.connecting import Terms
from shoal.mqtt.connection.effects import ClientEffect
from shoal.mqtt.connection.rates import Rates
from shoal.mqtt.connection.unfinished import Unfinished
from shoal.mqtt.door.network import Door
from shoal.mqtt.limits import Limits
from shoal.mqtt.messages import Message
from shoal.mqtt.sessions.delivering.outgoing import ClientConnection, ClientOutlet
from shoal.mqtt.sessions.session import Session
from shoal.mqtt.sessions.sessions import Sessions
from shoal.mqtt.sessions.spreading import Spreading
from shoal.mqtt.sessions.subscribing import Subscribing
from shoal.mqtt.statistics import Statistics


class Guest(NamedTuple):
    """A client that is let in: what it said and is granted, and the way out to it.

    `promises` are what it advertises.
    """

    connect: Connect
    client_id: str
    user: str
    terms: Terms
    promises: tuple[Filter, ...]
    outlet: ClientOutlet


class House(Protocol):
    """One broker, as its clients' connections see it."""

    limits: Limits
    statistics: Statistics
    sessions: Sessions
    subscribing: Subscribing
    door: Door | None
    # Whether nothing is to be taken from any client for now, and how many bytes wait meanwhile.
    is_held: bool
    held_bytes: int
    # Packets whose ends have not come, of clients and of those that are not let in yet.
    unfinished: Unfinished
    unfinished_strangers: Unfinished
    # How fast clients may publish.
    rates: Rates
    # While a message is handed to many, nothing is taken either.
    spreading: Spreading

    @property
    def is_sharing(self) -> bool:
        """Whether a message is still being handed to members of groups: nothing is taken."""

    def take_effects(self) -> list[ClientEffect]:
        """What is to be done since this was last asked."""

    # --- clients come and go ------------------------------------------------------------------

    def new_client_id(self) -> str:
        """A client identifier for one that has none."""

    def admit(self, credentials: Credentials) -> Admission | None:
        """Whether a client may connect; None if that is known later."""

    def no_room_for(self, client_id: str, user: str, will: Will | None) -> str:
        """Why there can be no session for a client, or no will; empty if there can, or is."""

    def must_wait(
        self, connection: ClientConnection, connect: Connect, admission: Admission, now_us: int
    ) -> bool:
        """Whether the client's session has to come from another broker first."""

    def enter(self, guest: Guest, now_us: int) -> tuple[Session, bool]:
        """Let a client in; its session, and whether it was there before."""

    def let_expire(self, connection: ClientConnection, at_us: int) -> None:
        """End a connection at this time (see `Connection.expire`)."""

    def check_subscriptions(self, session: Session, permissions: Permissions, now_us: int) -> None:
        """Take back the subscriptions that a client that comes again may not have any more."""

    def left(
        self,
        connection: ClientConnection,
        session: Session | None,
        now_us: int,
        *,
        with_will: bool,
        is_moving: bool,
    ) -> None:
        """A connection ended; it has a session if its client was let in.

        `is_moving`: it was sent to another broker, and its session is to come there.
        """

    def redirected(self, connection: ClientConnection, session: Session, now_us: int) -> bool:
        """A client was sent to another broker; whether what it still says matters."""

    def hung_up(self, session: Session, now_us: int) -> None:
        """It has said all, or takes too long."""

    # --- publications and subscriptions -------------------------------------------------------

    def reason_to_refuse(self, now_us: int) -> str:
        """Why publications above QoS 0 are refused; empty while they are not."""

    def publish(self, message: Message, now_us: int) -> int:
        """A client published; how many subscriptions it was for, as far as that is known."""

    def publish_soon(self, message: Message, now_us: int) -> None:
        """As `publish`, for what nobody waits for; with what comes next, until `settle`."""

    def settle(self) -> None:
        """Deliver what was published, before anything else happens."""

    def may_publish_again(self, key: tuple[str, int]) -> bool:
        """Whether a publication can go out a second time."""

    def when_known(self, answer: Callable[[int], None], now_us: int) -> None:
        """Answer when what clients have subscribed to so far is known to every broker."""
