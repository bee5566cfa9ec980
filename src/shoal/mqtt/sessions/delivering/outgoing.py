"""A message for one client, and the interface of a client's connection to its session."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from shoal.mqtt.access import ClientAdmission, ClientCredentials, Permissions
from shoal.mqtt.codec.reason_codes import ReasonCode
from shoal.mqtt.messages import PublishedMessage
from shoal.mqtt.notices import Party


class Outgoing(msgspec.Struct, eq=False):
    """A message for one client. `released`: the client has acknowledged it by PUBREC.

    `serial` is its number in the journal, 0 without one; `is_held`: a `Diversion` holds it. `via`
    names the matching subscriptions if their conflation is still to decide (see `conflating`).
    """

    message: PublishedMessage
    qos: int
    retain: bool
    identifiers: tuple[int, ...]
    packet_id: int = 0
    released: bool = False
    serial: int = 0
    is_held: bool = False
    via: tuple[str, ...] = ()


class ClientConnection(Protocol):
    """The network connection of a client (see `connection`); `owner` belongs to the driver."""

    owner: Any
    credentials: ClientCredentials
    # The time of its CONNECT.
    connect_us: int
    # Whether it waits for slow subscribers of its publications (see `slow_consumers`).
    is_waiting: bool
    # Whether it waits because its client is above its rate (see `rates`).
    is_over_rate: bool
    # Whether its client is about to be redirected: its input is suspended.
    is_moving: bool
    # Whether its client's advertisements are not known everywhere: its publications wait.
    is_spreading: bool

    @property
    def party(self) -> Party:
        """The client, for notices."""

    @property
    def is_closed(self) -> bool:
        """Whether nothing more is sent on it."""

    @property
    def follows(self) -> bool:
        """Whether the client accepts redirects."""

    @property
    def owes(self) -> bool:
        """Whether the client waits for an acknowledgement of a publication."""

    def disconnect(
        self, reason_code: ReasonCode, reason: str, now_us: int, server_reference: str | None = None
    ) -> None:
        """End it, with a reason for the client."""

    def send_redirect(self, server_reference: str, reason: str, now_us: int) -> None:
        """Redirect the client to another broker; its session follows it there."""

    def finish_entry(self, admission: ClientAdmission, now_us: int) -> None:
        """Admit the client: its session has come, or will not come."""

    def hang_up(self, now_us: int) -> None:
        """Stop reading from a redirected client."""

    def took(self, now_us: int) -> None:
        """Note that the client has read some of the bytes."""

    def grant(self, permissions: Permissions) -> None:
        """Install new permissions of the client."""


class ClientSessionWriter(Protocol):
    """The session writer of a connected client (see `session_writer`)."""

    version: int
    # The in-flight window: publications above QoS 0.
    window: int
    # False while new publications must wait in the session.
    writable: bool

    @property
    def connection(self) -> ClientConnection:
        """The connection to which it writes."""

    def send_now(
        self, message: PublishedMessage, retain: bool, identifiers: tuple[int, ...], now_us: int
    ) -> None:
        """Send at QoS 0."""

    def send_many(self, written: list[bytes], numbers: list[int]) -> bool:
        """Send publications of QoS 0 by their positions in a list; False, and nothing sent, if not
        possible."""

    def send_outgoing(self, outgoing: Outgoing, now_us: int, duplicate: bool) -> bool:
        """Send above QoS 0; False if it is too large for the client."""

    def send_release(self, packet_id: int, reason_code: ReasonCode) -> None:
        """Send a PUBREL."""

    @property
    def has_more(self) -> bool:
        """Whether the session is to be pumped again after the driver takes the gathered bytes."""

    def pump_again(self) -> None:
        """Have the session pumped again after a time slice of other inputs."""
