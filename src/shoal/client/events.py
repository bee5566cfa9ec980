"""What a client's session tells its client, and what ends its connection."""

from __future__ import annotations

from typing import NamedTuple

from shoal.mqtt.codec.packets import Publish
from shoal.mqtt.codec.reason_codes import ReasonCode


class SessionError(Exception):
    """The broker said or did what ends the connection; says what."""


class RefusedError(SessionError):
    """The broker does not want this connection; trying again does not help."""


class TakenOverError(SessionError):
    """Another client has connected under this one's name."""


class Connected(NamedTuple):
    """The broker has taken the client in."""

    client_id: str
    keep_alive_s: int
    session_present: bool = False


class Arrived(NamedTuple):
    """A message for these subscriptions (their numbers).

    Brokers of 3.1.1, and others that do not know such numbers, say none: those whose topic filters
    it matches.
    """

    packet: Publish
    subscriptions: tuple[int, ...]


class Done(NamedTuple):
    """A request is through, or has failed: with its own number, the code, and what was said."""

    number: int
    reason_code: ReasonCode
    reason: str


class Elsewhere(NamedTuple):
    """The broker asks the client to go to another one; "" when it does not say where."""

    server: str


Event = Connected | Arrived | Done | Elsewhere
