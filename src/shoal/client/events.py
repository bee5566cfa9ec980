"""Events of a client's session, and errors that end its connection."""

from __future__ import annotations

from typing import NamedTuple

from shoal.mqtt.codec.packets import Publish
from shoal.mqtt.codec.reason_codes import ReasonCode


class SessionError(Exception):
    """An error of the broker that ends the connection; with the reason."""


class RefusedError(SessionError):
    """The broker refuses this connection; retrying does not help."""


class TakenOverError(SessionError):
    """Another client has connected with this one's identifier."""


class Connected(NamedTuple):
    """The broker has accepted the client."""

    client_id: str
    keep_alive_s: int
    session_present: bool = False


class Arrived(NamedTuple):
    """A message for these subscriptions (their numbers).

    Brokers of 3.1.1, and others without subscription identifiers, send none: then these are the
    subscriptions with matching topic filters.
    """

    packet: Publish
    subscriptions: tuple[int, ...]


class Done(NamedTuple):
    """A request is complete, or has failed: with its number, the reason code and the reason."""

    number: int
    reason_code: ReasonCode
    reason: str


class ServerMoved(NamedTuple):
    """The broker redirects the client; "" when it does not say where."""

    server: str


Event = Connected | Arrived | Done | ServerMoved
