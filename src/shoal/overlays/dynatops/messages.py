"""What brokers on a structured overlay say to each other.

What is about topics belongs to a view, and goes along its ways; what is about views does not.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from shoal.broker.messages import Carrier, Message
from shoal.broker.wire import Vocabulary
from shoal.model import BrokerId, ClientId, Filter
from shoal.overlays.dynatops.view import Age, View

# --- who is there, over links -----------------------------------------------------------------


class MembersMessage(Message, frozen=True):
    """Base of what is said about views."""


class Introduction(MembersMessage, frozen=True):
    """When a link has come up: when the sender started, and the latest view it has heard of.

    `knows` is when the receiver started, as the sender knows it so far: maybe an earlier life.
    """

    life: int
    view: View | None
    knows: int | None = None


class ViewSaid(MembersMessage, frozen=True):
    """A view that may be news."""

    view: View


class JoinWanted(MembersMessage, frozen=True):
    """To a member, which sees to it that the manager hears it."""

    broker: BrokerId
    life: int


class LeaveRequest(MembersMessage, frozen=True):
    """To the manager: the sender has nothing under way any more, and is to be done without."""


class StayWanted(MembersMessage, frozen=True):
    """To all: the sender wanted to leave, and stays."""


class EndWanted(MembersMessage, frozen=True):
    """The sender needs this link no more, and sends nothing over it until it hears more."""


class EndRefused(MembersMessage, frozen=True):
    """The sender still needs this link."""


class LinkLost(MembersMessage, frozen=True):
    """To the manager: in this view the sender has no link to a member (any more).

    `had_been_up`: what was in it is lost, so that nothing may follow over it in this view.
    """

    age: Age
    broker: BrokerId
    had_been_up: bool


# --- what is wanted, along the ways of a view -------------------------------------------------


class Row(msgspec.Struct, frozen=True, array_like=True):
    """What clients of a broker want, by the number that broker gave it."""

    id: int
    filter: Filter


class TopicMessage(Message, frozen=True):
    """Base of what is said in one view, beside publications."""

    age: Age


class Interest(TopicMessage, frozen=True):
    """What a home wants, and wants no more; its changes have numbers that grow.

    `is_all`: with this the target knows all it must know of the home in this view.  `asks`: the
    home wants to hear that it is known (`Known`).
    """

    home: BrokerId
    targets: tuple[BrokerId, ...]
    number: int
    added: tuple[Row, ...] = ()
    removed: tuple[int, ...] = ()
    is_all: bool = False
    asks: bool = True


class Known(TopicMessage, frozen=True):
    """To a home: everything up to this number is known here."""

    home: BrokerId
    broker: BrokerId
    number: int


class TopicCount(msgspec.Struct, frozen=True, array_like=True):
    """Of a topic, since the last report: how many publications, and the homes that got some."""

    topic: str
    publications: int
    homes: tuple[BrokerId, ...]


class Counted(TopicMessage, frozen=True):
    """To the manager: what a root has counted."""

    manager: BrokerId
    topics: tuple[TopicCount, ...]


class Between(TopicMessage, frozen=True):
    """Base of what one broker says to another about changing places."""

    target: BrokerId
    broker: BrokerId


class Costly(Between, frozen=True):
    """What this broker costs; 0 also from one that nobody can help."""

    cost: float


class SwapAsked(Between, frozen=True):
    """If we two changed places, what would that change for topics that you want, and I do not?

    These are those that I want.
    """

    topics: tuple[str, ...]


class SwapAnswered(Between, frozen=True):
    """So much; and these of your topics I want, too."""

    common: tuple[str, ...]
    change: float


class SwapWanted(Between, frozen=True):
    """To the manager: this broker and another should change places, for so much less."""

    other: BrokerId
    gain: float
    price: float


class Summary(TopicMessage, frozen=True):
    """To another broker of the cluster: the topics that a broker's users want; how many, in all."""

    broker: BrokerId
    target: BrokerId
    topics: tuple[str, ...]
    subscriptions: int


# --- publications -----------------------------------------------------------------------------


class ViewCarrier(Carrier, frozen=True):
    """Base of what carries publications of an entry's clients in one view.

    `life` is the entry's.
    """

    age: Age
    entry: BrokerId
    life: int


OfView = TopicMessage | ViewCarrier


class ToRoot(ViewCarrier, frozen=True):
    """Publications of an entry's clients, on their way to the root of their topics.

    `again`: they may have arrived in an earlier view.  `in_turn`: homes let them wait for their
    turn, and the entry wants to hear which homes those are (`Bound`).
    """

    root: BrokerId
    hops: int
    again: bool
    in_turn: bool = False


class Arriving(ViewCarrier, frozen=True):
    """Base of what carries publications to homes, of `total` that get them."""

    total: int
    hops: int
    again: bool


class ToHomes(Arriving, frozen=True):
    """Publications on their way from their root to these homes; `in_turn` as in `ToRoot`."""

    targets: tuple[BrokerId, ...]
    in_turn: bool = False


class BoundFor(msgspec.Struct, frozen=True, array_like=True):
    """Publications that go to the same homes."""

    homes: tuple[BrokerId, ...]
    numbers: tuple[tuple[ClientId, int], ...]


class Bound(TopicMessage, frozen=True):
    """From a root to an entry: to which homes publications go that wait there for their turn."""

    entry: BrokerId
    found: tuple[BoundFor, ...]


class HomeTurn(TopicMessage, frozen=True):
    """From an entry to a home: a publisher's next publications there, in their order."""

    entry: BrokerId
    life: int
    home: BrokerId
    publisher: ClientId
    numbers: tuple[int, ...]


class Arrived(TopicMessage, frozen=True):
    """To an entry: these have arrived at a home, of `total`; at none if that is 0."""

    confirms = True

    entry: BrokerId
    home: BrokerId
    total: int
    numbers: tuple[tuple[ClientId, int], ...]


# What brokers of any system say that agree on views, and what only those on a structure do.
OF_VIEWS: Vocabulary = (
    Introduction,
    ViewSaid,
    JoinWanted,
    LeaveRequest,
    StayWanted,
    EndWanted,
    EndRefused,
    LinkLost,
    Interest,
    Known,
    Arrived,
)
MESSAGES: Vocabulary = (
    *OF_VIEWS,
    Counted,
    Summary,
    ToRoot,
    ToHomes,
    Costly,
    SwapAsked,
    SwapAnswered,
    SwapWanted,
    Bound,
    HomeTurn,
)


def named(message: OfView) -> Iterator[BrokerId]:
    """The brokers that a message of a view speaks of; all are its members."""
    match message:
        case ToRoot():
            yield from (message.entry, message.root)
        case ToHomes():
            yield from (message.entry, *message.targets)
        case Interest():
            yield from (message.home, *message.targets)
        case Known():
            yield from (message.home, message.broker)
        case Arrived() | HomeTurn():
            yield from (message.entry, message.home)
        case Bound():
            yield message.entry
            for each in message.found:
                yield from each.homes
        case Summary():
            yield from (message.broker, message.target)
        case SwapWanted():
            yield from (message.broker, message.target, message.other)
        case Between():
            yield from (message.broker, message.target)
        case Counted():
            yield message.manager
            for topic in message.topics:
                yield from topic.homes
