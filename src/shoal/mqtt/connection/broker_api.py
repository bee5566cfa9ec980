"""The interface of a broker to its clients' connections (see `broker_clients`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from shoal.model import Filter
from shoal.mqtt.access import ClientAdmission, ClientCredentials, Permissions
from shoal.mqtt.codec.packets import Connect, WillFields
from shoal.mqtt.connection.connecting import ConnectionTerms
from shoal.mqtt.connection.effects import ClientEffect
from shoal.mqtt.connection.rates import RateLimits
from shoal.mqtt.connection.unfinished import Unfinished
from shoal.mqtt.front_end.network import FrontEnd
from shoal.mqtt.limits import MqttLimits
from shoal.mqtt.messages import PublishedMessage
from shoal.mqtt.sessions.delivering.outgoing import ClientConnection, ClientSessionWriter
from shoal.mqtt.sessions.session import Session
from shoal.mqtt.sessions.sessions import Sessions
from shoal.mqtt.sessions.sliced_fan_out import SlicedFanOut
from shoal.mqtt.sessions.subscribing import Subscribing
from shoal.mqtt.statistics import Statistics


class AdmittedClient(NamedTuple):
    """An admitted client: its CONNECT, the agreed terms, and the writer of its connection.

    `promises` are its advertisements.
    """

    connect: Connect
    client_id: str
    user: str
    terms: ConnectionTerms
    promises: tuple[Filter, ...]
    session_writer: ClientSessionWriter


class BrokerApi(Protocol):
    """One broker, as its clients' connections see it."""

    limits: MqttLimits
    statistics: Statistics
    sessions: Sessions
    subscribing: Subscribing
    front_end: FrontEnd | None
    # Whether the driver suspends input of all clients, and the bytes that wait meanwhile.
    is_held: bool
    held_bytes: int
    # Incomplete packets, of clients and of connections that are not admitted yet.
    unfinished: Unfinished
    unfinished_strangers: Unfinished
    # Publishing rates of clients.
    rates: RateLimits
    # Sliced fan-out; while it runs, connections hold their input.
    spreading: SlicedFanOut

    @property
    def is_sharing(self) -> bool:
        """Whether members of shared groups are still being chosen: connections hold their input."""

    def take_effects(self) -> list[ClientEffect]:
        """The effects since the last call."""

    # --- clients come and go ------------------------------------------------------------------

    def new_client_id(self) -> str:
        """An assigned client identifier."""

    def admit(self, credentials: ClientCredentials) -> ClientAdmission | None:
        """Whether a client may connect; None if the answer comes later."""

    def no_room_for(self, client_id: str, user: str, will: WillFields | None) -> str:
        """The reason to refuse a client a session or a will; empty if there is room."""

    def must_wait(
        self,
        connection: ClientConnection,
        connect: Connect,
        admission: ClientAdmission,
        now_us: int,
    ) -> bool:
        """Whether the client must wait until its session comes from another broker."""

    def enter(self, guest: AdmittedClient, now_us: int) -> tuple[Session, bool]:
        """Admit a client; returns its session, and whether the session was present."""

    def set_expiry(self, connection: ClientConnection, at_us: int) -> None:
        """Schedule the end of a connection (see `Connection.expire`)."""

    def check_subscriptions(self, session: Session, permissions: Permissions, now_us: int) -> None:
        """Remove the subscriptions that the permissions of a returning client do not allow."""

    def left(
        self,
        connection: ClientConnection,
        session: Session | None,
        now_us: int,
        *,
        with_will: bool,
        is_moving: bool,
    ) -> None:
        """Handle the end of a connection; it has a session if its client was admitted.

        `is_moving`: the client was redirected, and its session will move to the other broker.
        """

    def redirected(self, connection: ClientConnection, session: Session, now_us: int) -> bool:
        """Handle a redirect of a client; returns whether its last packets are to be read."""

    def on_hang_up(self, session: Session, now_us: int) -> None:
        """Handle the end of a redirected connection, or its timeout."""

    # --- publications and subscriptions -------------------------------------------------------

    def reason_to_refuse(self, now_us: int) -> str:
        """The reason to refuse publications above QoS 0; empty while there is none."""

    def publish(self, message: PublishedMessage, now_us: int) -> int:
        """Publish a client's message; returns the number of matching subscriptions, if known."""

    def publish_soon(self, message: PublishedMessage, now_us: int) -> None:
        """Publish at QoS 0, in a batch with later messages, until `settle`."""

    def settle(self) -> None:
        """Flush the batch: deliver gathered messages before any other input is handled."""

    def may_retransmit(self, key: tuple[str, int]) -> bool:
        """Whether a publication can be sent a second time."""

    def when_known(self, answer: Callable[[int], None], now_us: int) -> None:
        """Call `answer` when every broker knows the subscriptions made so far."""
