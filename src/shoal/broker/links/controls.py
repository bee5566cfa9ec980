"""What the two ends of a link say to each other beside the messages of their brokers."""

from __future__ import annotations

import enum

import msgspec

from shoal.broker.links.outbox import Span
from shoal.broker.wire import Vocabulary
from shoal.model import BrokerId

# (incarnation of an end, a number of which it never uses one twice): never the same again.
SessionName = tuple[int, int]


class Control(msgspec.Struct, frozen=True, tag=lambda name: f"link {name}", array_like=True):
    """What the ends of a link say to each other; tags that no system's messages have."""


class Purpose(enum.Enum):
    """What a connection is for: a link of the overlay, or a courier (`shoal.clients.courier`)."""

    LINK = "link"
    COURIER = "courier"


class Hello(Control, frozen=True):
    """First on a connection, the dialling end first.

    `session` is the sender's part of the session that it is in, `other` the other end's, None
    without one; `handled` counts the messages it has handled in it.  When the other end is not in
    that session, the sender's part of the new one has the number `begins`.
    """

    network: str
    broker: BrokerId
    session: SessionName
    other: SessionName | None
    handled: int
    purpose: Purpose = Purpose.LINK
    begins: int = 0


class Refuse(Control, frozen=True):
    """Instead of a Hello, or last on a connection: why it ends."""

    reason: str


class Acknowledge(Control, frozen=True):
    """So many messages of this session are handled; those numbered so are settled, too."""

    handled: int
    settled: tuple[Span, ...] = ()


class Heartbeat(Control, frozen=True):
    """Asks for an Echo; `at_us` is the sender's clock."""

    at_us: int


class Echo(Control, frozen=True):
    at_us: int


CONTROLS: Vocabulary = (Hello, Refuse, Acknowledge, Heartbeat, Echo)
