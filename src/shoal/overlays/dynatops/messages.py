"""Messages between brokers on a structured overlay.

Messages about topics belong to a view, and take its paths; messages about views do not.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from shoal.broker.messages import Carrier, Message
from shoal.broker.wire import Vocabulary
from shoal.model import BrokerId, ClientId, Filter
from shoal.overlays.dynatops.structures.geography import Coordinates
from shoal.overlays.dynatops.view import Age, View

# --- membership, over links -------------------------------------------------------------------


class MembersMessage(Message, frozen=True):
    """Base of messages about views."""


class Introduction(MembersMessage, frozen=True):
    """When a link has come up: when the sender started, and the latest view that it knows.

    `knows` is when the receiver started, as the sender knows it so far: maybe an earlier
    incarnation. `coordinates` are the sender's.
    """

    life: int
    view: View | None
    knows: int | None = None
    coordinates: Coordinates | None = None


class ViewSaid(MembersMessage, frozen=True):
    """A view that may be news."""

    view: View


class JoinWanted(MembersMessage, frozen=True):
    """To a member, which forwards it to the manager; with the joining broker's coordinates."""

    broker: BrokerId
    life: int
    coordinates: Coordinates | None = None


class LeaveRequest(MembersMessage, frozen=True):
    """To the manager: the sender has nothing in transit, and wants to leave."""


class StayWanted(MembersMessage, frozen=True):
    """To all: the sender wanted to leave, and stays."""


class EndWanted(MembersMessage, frozen=True):
    """The sender does not need this link any more, and sends nothing over it until it receives
    more.
    """


class EndRefused(MembersMessage, frozen=True):
    """The sender still needs this link."""


class LinkLost(MembersMessage, frozen=True):
    """To the manager: in this view the sender has no link to a member (any more).

    `had_been_up`: messages in it are lost, so that nothing may follow over it in this view.
    """

    age: Age
    broker: BrokerId
    had_been_up: bool


# --- subscriptions, along the paths of a view -------------------------------------------------


class TopicRow(msgspec.Struct, frozen=True, array_like=True):
    """A filter of a broker's clients, with that broker's number for it."""

    id: int
    filter: Filter


class TopicMessage(Message, frozen=True):
    """Base of messages in one view, beside publications."""

    age: Age


class TopicInterest(TopicMessage, frozen=True):
    """Filters of a home, added and removed; its changes have increasing numbers.

    `is_all`: with this the target has all that it needs of the home in this view. `asks`: the home
    wants a confirmation (`KnownTopics`).
    """

    home: BrokerId
    targets: tuple[BrokerId, ...]
    number: int
    added: tuple[TopicRow, ...] = ()
    removed: tuple[int, ...] = ()
    is_all: bool = False
    asks: bool = True


class RowsWanted(TopicMessage, frozen=True):
    """To all: `broker` lacks the rows of the view before, and needs all filters anew."""

    broker: BrokerId
    targets: tuple[BrokerId, ...]


class HandedRow(msgspec.Struct, frozen=True, array_like=True):
    """A filter of a home's clients, as a root knows it."""

    home: BrokerId
    row: TopicRow


class RowsHandedOver(TopicMessage, frozen=True):
    """To the broker at the position that `broker` had: the rows that it knew there as a root.

    `is_all`: no further ones follow.
    """

    broker: BrokerId
    target: BrokerId
    rows: tuple[HandedRow, ...]
    is_all: bool


class KnownTopics(TopicMessage, frozen=True):
    """To a home: everything up to this number is known here."""

    home: BrokerId
    broker: BrokerId
    number: int


class TopicCount(msgspec.Struct, frozen=True, array_like=True):
    """Of a topic, since the last report: its number of publications, and the homes that got
    some.
    """

    topic: str
    publications: int
    homes: tuple[BrokerId, ...]


class CountsReported(TopicMessage, frozen=True):
    """To the manager: the counts of a root.

    `spent` is the number of messages that the root has sent for views since its last report.
    """

    manager: BrokerId
    topics: tuple[TopicCount, ...]
    spent: int = 0


class Between(TopicMessage, frozen=True):
    """Base of messages between two brokers about changing places."""

    target: BrokerId
    broker: BrokerId


class Costly(Between, frozen=True):
    """The cost of this broker; 0 also if no swap can reduce it."""

    cost: float


class SwapAsked(Between, frozen=True):
    """A request for the change that a swap of both brokers makes in topics of the receiver alone.

    It contains the sender's topics.
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


class TopicSummary(TopicMessage, frozen=True):
    """To another broker of the cluster: the topics of a broker's users, and their number in
    total.
    """

    broker: BrokerId
    target: BrokerId
    topics: tuple[str, ...]
    subscriptions: int


# --- publications -----------------------------------------------------------------------------


class ViewCarrier(Carrier, frozen=True):
    """Base of carriers of publications of an entry's clients in one view.

    `life` is the entry's incarnation.
    """

    age: Age
    entry: BrokerId
    life: int


OfView = TopicMessage | ViewCarrier


class ToRoot(ViewCarrier, frozen=True):
    """Publications of an entry's clients, on their way to the root of their topics.

    `first_view` is the earlier view in which they were first sent, if they were. `in_turn`: homes
    hold them until their turn, and the entry needs the names of those homes (`EntryBound`).
    """

    root: BrokerId
    hops: int
    first_view: Age | None = None
    in_turn: bool = False


class UserArriving(ViewCarrier, frozen=True):
    """Base of carriers of publications to homes, `total` in number; `first_view` as in `ToRoot`."""

    total: int
    hops: int
    first_view: Age | None


class ToHomes(UserArriving, frozen=True):
    """Publications on their way from their root to these homes; `in_turn` as in `ToRoot`."""

    targets: tuple[BrokerId, ...]
    in_turn: bool = False


class BoundFor(msgspec.Struct, frozen=True, array_like=True):
    """Publications with the same homes."""

    homes: tuple[BrokerId, ...]
    numbers: tuple[tuple[ClientId, int], ...]


class EntryBound(TopicMessage, frozen=True):
    """From a root to an entry: the homes at which publications wait until their turn."""

    entry: BrokerId
    found: tuple[BoundFor, ...]


class HomeTurn(TopicMessage, frozen=True):
    """From an entry to a home: a publisher's next publications there, in their order."""

    entry: BrokerId
    life: int
    home: BrokerId
    publisher: ClientId
    numbers: tuple[int, ...]


class PublicationArrived(TopicMessage, frozen=True):
    """To an entry: these have arrived at a home, of `total`; at none if that is 0."""

    confirms = True

    entry: BrokerId
    home: BrokerId
    total: int
    numbers: tuple[tuple[ClientId, int], ...]


# Messages of all systems that agree on views, and those of systems on a structure.
OF_VIEWS: Vocabulary = (
    Introduction,
    ViewSaid,
    JoinWanted,
    LeaveRequest,
    StayWanted,
    EndWanted,
    EndRefused,
    LinkLost,
    TopicInterest,
    KnownTopics,
    PublicationArrived,
    RowsWanted,
    RowsHandedOver,
)
MESSAGES: Vocabulary = (
    *OF_VIEWS,
    CountsReported,
    TopicSummary,
    ToRoot,
    ToHomes,
    Costly,
    SwapAsked,
    SwapAnswered,
    SwapWanted,
    EntryBound,
    HomeTurn,
)


def named(message: OfView) -> Iterator[BrokerId]:
    """The brokers that a message of a view names; all are its members."""
    match message:
        case ToRoot():
            yield from (message.entry, message.root)
        case ToHomes():
            yield from (message.entry, *message.targets)
        case TopicInterest():
            yield from (message.home, *message.targets)
        case KnownTopics():
            yield from (message.home, message.broker)
        case RowsWanted():
            yield from (message.broker, *message.targets)
        case RowsHandedOver():
            yield from (message.broker, message.target)
            yield from (row.home for row in message.rows)
        case PublicationArrived() | HomeTurn():
            yield from (message.entry, message.home)
        case EntryBound():
            yield message.entry
            for each in message.found:
                yield from each.homes
        case TopicSummary():
            yield from (message.broker, message.target)
        case SwapWanted():
            yield from (message.broker, message.target, message.other)
        case Between():
            yield from (message.broker, message.target)
        case CountsReported():
            yield message.manager
            for topic in message.topics:
                yield from topic.homes
