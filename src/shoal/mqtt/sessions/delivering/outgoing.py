"""One message on its way to one client, and what a session sees of that client's connection."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from shoal.mqtt.access import Admission, Credentials, Permissions
from shoal.mqtt.codec.reason_codes import ReasonCode
from shoal.mqtt.messages import Message
from shoal.mqtt.notices import Party


class Outgoing(msgspec.Struct, eq=False):
    """One message on its way to one client.  `released`: QoS 2, and the client has it.

    `serial` is its number in the journal, 0 if it is not written there; `is_held` says that a
    `Diversion` holds it back.
    """

    message: Message
    qos: int
    retain: bool
    identifiers: tuple[int, ...]
    packet_id: int = 0
    released: bool = False
    serial: int = 0
    is_held: bool = False


class ClientConnection(Protocol):
    """The network connection of a client (see `connection`); `owner` is the driver's own."""

    owner: Any
    credentials: Credentials
    # Whether it waits for clients that read more slowly than it sends (see `patience`).
    is_waiting: bool
    # Whether it waits because its client publishes faster than it may (see `rates`).
    is_over_rate: bool
    # Whether its client is about to be sent elsewhere: nothing more is taken from it.
    is_moving: bool
    # Whether what its client advertises is not known everywhere yet: what it publishes waits.
    is_spreading: bool

    @property
    def party(self) -> Party:
        """Who it is, for an operator."""

    @property
    def is_closed(self) -> bool:
        """Whether no more is said on it."""

    @property
    def follows(self) -> bool:
        """Whether the client goes where it is sent."""

    @property
    def owes(self) -> bool:
        """Whether the client waits for the answer to a publication."""

    def disconnect(
        self, reason_code: ReasonCode, reason: str, now_us: int, server_reference: str | None = None
    ) -> None:
        """End it, with a word to the client."""

    def go_elsewhere(self, server_reference: str, reason: str, now_us: int) -> None:
        """Send the client to another broker, where what it has here comes."""

    def go_on(self, admission: Admission, now_us: int) -> None:
        """The client's session has come, or will not: let the client in."""

    def hang_up(self, now_us: int) -> None:
        """Take no more from a client that was sent away."""

    def took(self, now_us: int) -> None:
        """Some of what was written has gone out to the client."""

    def grant(self, permissions: Permissions) -> None:
        """From now on the client may do this."""


class ClientOutlet(Protocol):
    """The way out to a client that is there (see `outlet`)."""

    version: int
    # How many publications above QoS 0 may be in flight.
    window: int
    # False while what can wait must wait.
    writable: bool

    @property
    def connection(self) -> ClientConnection:
        """Which it is the way out of."""

    def send_now(
        self, message: Message, retain: bool, identifiers: tuple[int, ...], now_us: int
    ) -> None:
        """Send at QoS 0."""

    def send_many(self, written: list[bytes], numbers: list[int]) -> bool:
        """Send publications of QoS 0 by their numbers in a list; False, and nothing sent, if not
        possible."""

    def send_outgoing(self, outgoing: Outgoing, now_us: int, duplicate: bool) -> bool:
        """Send above QoS 0; False if it is too large for the client."""

    def send_release(self, packet_id: int, reason_code: ReasonCode) -> None:
        """Send a PUBREL."""

    @property
    def has_more(self) -> bool:
        """Whether the session is to be pumped again when what is gathered is taken."""

    def pump_again(self) -> None:
        """The session has more to do, when others have had their turn."""
