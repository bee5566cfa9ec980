"""Messages of a publisher and its brokers before and during a move.

All systems that move clients use them; the client's machine (`publisher.py`) answers. Names are
those of the relocation paper, sections 3.3 and 4.2.
"""

from __future__ import annotations

from collections.abc import Mapping

from shoal.broker.messages import Message
from shoal.broker.wire import Vocabulary
from shoal.model import Advertisement, BrokerId, MessageId

# --- ping times (4.2): requested, measured, reported ----------------------------------------------


class PingRequest(Message, frozen=True):
    """To a publisher: report your round trip to each of these brokers."""

    session: MessageId
    brokers: tuple[BrokerId, ...]


class PingTimes(Message, frozen=True):
    """From a publisher: its measured round trips, in µs."""

    session: MessageId
    round_trip_us: Mapping[BrokerId, int]


# --- moving a publisher (3.3) ------------------------------------------------------------------


class CannotMove(Message, frozen=True):
    """From a client that cannot move, so that it is not asked again."""


class Relocate(Message, frozen=True):
    """To a publisher: pause, and go to the last broker of `path` (which starts at this one)."""

    path: tuple[BrokerId, ...]


class Paused(Message, frozen=True):
    """To the source, behind the publisher's last publication there.

    `moves` counts the publisher's moves, this one included.
    """

    path: tuple[BrokerId, ...]
    moves: int


class MigrationAdvertisement(Message, frozen=True):
    """To the target: all advertisements of the publisher, and the path from its source."""

    path: tuple[BrokerId, ...]
    advertisements: tuple[Advertisement, ...]
    moves: int


class Resume(Message, frozen=True):
    """To a publisher, from the target: publish here.

    Unless `whole` the path from the source was broken: subscribers behind the break are out of
    reach.
    """

    moves: int
    whole: bool


MESSAGES: Vocabulary = (
    PingRequest,
    PingTimes,
    CannotMove,
    Relocate,
    Paused,
    MigrationAdvertisement,
    Resume,
)
