"""Control messages between the two ends of a link."""

from __future__ import annotations

import enum

import msgspec

from shoal.broker.links.outbox import Span
from shoal.broker.wire import Vocabulary, WireError
from shoal.model import BrokerId

# The bound of a control: decoding a longer one of small parts would block the broker.
MOST_CONTROL_BYTES = 1_048_576
_TAG = "link "

# (incarnation of an end, a number that it uses once): unique for ever.
SessionName = tuple[int, int]


class Control(msgspec.Struct, frozen=True, tag=lambda name: f"{_TAG}{name}", array_like=True):
    """Base of the controls of a link; no system's messages have their tags."""


class Purpose(enum.Enum):
    """The purpose of a connection: a link of the overlay, a forwarding channel
    (`shoal.clients.forwarding_channel`), a measurement of the distance, the question whether the
    other broker admits the sender as a new member, or which brokers it knows (`KnownBrokers`).
    """

    LINK = "link"
    FORWARDING_CHANNEL = "forwarding_channel"
    PROBE = "probe"
    JOIN = "join"
    BROKERS = "brokers"


class Hello(Control, frozen=True):
    """The first control on a connection, from the dialling end first.

    `protocol` is the sender's link protocol (`protocol.py`). `session` is the sender's part of its
    session's name, `other` the other end's, None without one; `handled` counts the messages it has
    handled in it. If the other end is not in that session, the sender's part of the new one has the
    number `begins`.

    `ends`: the link is only to be settled, and then to end. `opened_us`, of a link that outlives
    restarts, is when it was opened on purpose, so that a broker can take it up from one that it did
    not know; 0 if it was in the network file.
    """

    protocol: int
    network: str
    broker: BrokerId
    session: SessionName
    other: SessionName | None
    handled: int
    purpose: Purpose = Purpose.LINK
    begins: int = 0
    ends: bool = False
    opened_us: int | None = None


class RefuseConnection(Control, frozen=True):
    """Instead of a Hello, or last on a connection: the reason why it ends.

    `has_ended`: the link that the other end means has ended for good.
    """

    reason: str
    has_ended: bool = False


class Acknowledge(Control, frozen=True):
    """So many messages of this session are handled; those in these spans are settled, too."""

    handled: int
    settled: tuple[Span, ...] = ()


class Stores(Control, frozen=True):
    """Whether the sender's disk accepts records. While it does not, the sender settles nothing that
    it could lose, and the receiver keeps copies (`shoal.broker.links.outbox`).
    """

    stores: bool


class Heartbeat(Control, frozen=True):
    """Asks for an Echo; `at_us` is the sender's clock."""

    at_us: int


class Echo(Control, frozen=True):
    at_us: int


class Ends(Control, frozen=True):
    """The sender's broker wants the link to end; see `shoal.broker.links.ending`.

    If all its messages are recalled (`is_recalled`), it does not wait for their settling.
    """

    is_recalled: bool = False


class Lasts(Control, frozen=True):
    """The link outlives restarts; `opened_us` is as in `Hello`, the later one holds."""

    opened_us: int


class Rests(Control, frozen=True):
    """All the sender's messages are settled, here and there; it sends nothing until it gets
    more."""


class Over(Control, frozen=True):
    """The link has ended."""


class BrokerLocation(msgspec.Struct, frozen=True):
    """The addresses of a broker, as announced at `at_us`, 0 for the file; or that it has left.

    It `has_left` when it begins to leave; `is_gone` when it has handed over all its state. `peers`,
    `admin`, `log` and the others, for clients, are addresses, empty where it does not listen. A
    broker that an operator has declared dead has a `successor` in its place.
    """

    name: BrokerId
    at_us: int
    peers: str = ""
    mqtt: str = ""
    admin: str = ""
    has_left: bool = False
    mqtts: str = ""
    websocket: str = ""
    wss: str = ""
    is_gone: bool = False
    successor: BrokerId = ""
    log: str = ""

    @property
    def was_declared_dead(self) -> bool:
        """Whether it has left by an operator's word, not by its own."""
        return bool(self.successor)

    @property
    def front_ends(self) -> dict[str, str]:
        """The addresses for clients, by the kind of listener."""
        kinds = ("mqtt", "mqtts", "websocket", "wss")
        return {kind: text for kind in kinds if (text := getattr(self, kind))}


class LocationAnnounced(Control, frozen=True):
    """The addresses of some broker of the network, as far as the sender knows them."""

    of: BrokerLocation


class KnownBrokers(Control, frozen=True):
    """Answer to `Purpose.BROKERS`: all brokers that the sender knows, also those that have left."""

    of: tuple[BrokerLocation, ...]


def check_control(body: bytes) -> None:
    """Raise WireError for the body of a frame that is a control, and too long."""
    # The tag comes first, after the version and the lengths of the message and of the tag.
    if len(body) > MOST_CONTROL_BYTES and _TAG.encode() in body[: 11 + len(_TAG)]:
        raise WireError(f"a control of {len(body)} bytes, more than {MOST_CONTROL_BYTES}")


CONTROLS: Vocabulary = (
    *(Hello, RefuseConnection, Acknowledge, Heartbeat, Echo),
    *(Ends, Rests, Over, Lasts, LocationAnnounced, Stores, KnownBrokers),
)
