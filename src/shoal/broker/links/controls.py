"""What the two ends of a link say to each other beside the messages of their brokers."""

from __future__ import annotations

import enum

import msgspec

from shoal.broker.links.outbox import Span
from shoal.broker.wire import Vocabulary, WireError
from shoal.model import BrokerId

# No control is as long; to read a longer one would hold a broker up, as it is of small parts.
MOST_CONTROL_BYTES = 1_048_576
_TAG = "link "

# (incarnation of an end, a number of which it never uses one twice): never the same again.
SessionName = tuple[int, int]


class Control(msgspec.Struct, frozen=True, tag=lambda name: f"{_TAG}{name}", array_like=True):
    """What the ends of a link say to each other; tags that no system's messages have."""


class Purpose(enum.Enum):
    """What a connection is for: a link of the overlay, a courier (`shoal.clients.courier`), only to
    see how far the other broker is, or to ask whether it takes the sender in as a new member.
    """

    LINK = "link"
    COURIER = "courier"
    PROBE = "probe"
    JOIN = "join"


class Hello(Control, frozen=True):
    """First on a connection, the dialling end first.

    `protocol` is the one that the sender speaks (`protocol.py`).
    `session` is the sender's part of the session that it is in, `other` the other end's, None
    without one; `handled` counts the messages it has handled in it.  When the other end is not in
    that session, the sender's part of the new one has the number `begins`.

    `ends`: the link is only to be settled, and then to end.  `opened_us` is of a link that outlives
    restarts: when it was opened on purpose, as a broker takes it up then from one that it did not
    know; 0 if it always was.
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


class Refuse(Control, frozen=True):
    """Instead of a Hello, or last on a connection: why it ends.

    `has_ended`: the link that the other end means has ended for good.
    """

    reason: str
    has_ended: bool = False


class Acknowledge(Control, frozen=True):
    """So many messages of this session are handled; those numbered so are settled, too."""

    handled: int
    settled: tuple[Span, ...] = ()


class Stores(Control, frozen=True):
    """Whether the sender's disk takes what it must keep.  While it does not, the sender settles
    nothing that it could lose, and the receiver keeps copies (`shoal.broker.links.outbox`).
    """

    stores: bool


class Heartbeat(Control, frozen=True):
    """Asks for an Echo; `at_us` is the sender's clock."""

    at_us: int


class Echo(Control, frozen=True):
    at_us: int


class Ends(Control, frozen=True):
    """The sender's broker wants the link to end; see `shoal.broker.links.ending`.

    If all `is_recalled` that it has sent, it waits for none of it to be settled.
    """

    is_recalled: bool = False


class Lasts(Control, frozen=True):
    """The link outlives restarts from now on; `opened_us` is as in `Hello`, the later one holds."""

    opened_us: int


class Rests(Control, frozen=True):
    """All that the sender sent is settled there and here; it sends nothing until it hears more."""


class Over(Control, frozen=True):
    """The link has ended."""


class Whereabouts(msgspec.Struct, frozen=True):
    """Where a broker is, as it said at `at_us`, 0 for ever; or that it has left the network.

    It has when it leaves; `is_gone` when it has handed over all that it had, too.  `peers`, `admin`
    and those for clients are addresses, empty where it does not listen.  Of a broker that an
    operator has declared dead, the `successor` has its place.
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

    @property
    def doors(self) -> dict[str, str]:
        """Where clients connect, by the kind of listener."""
        kinds = ("mqtt", "mqtts", "websocket", "wss")
        return {kind: text for kind in kinds if (text := getattr(self, kind))}


class Place(Control, frozen=True):
    """Where some broker of the network is, as far as the sender knows."""

    of: Whereabouts


def check_control(body: bytes) -> None:
    """WireError for the body of a frame that is a control, and longer than any."""
    # The tag comes first, behind the version and the lengths of the message and of the tag.
    if len(body) > MOST_CONTROL_BYTES and _TAG.encode() in body[: 11 + len(_TAG)]:
        raise WireError(f"a control of {len(body)} bytes, more than {MOST_CONTROL_BYTES}")


CONTROLS: Vocabulary = (
    *(Hello, Refuse, Acknowledge, Heartbeat, Echo),
    *(Ends, Rests, Over, Lasts, Place, Stores),
)
