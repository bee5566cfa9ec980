"""What travels between brokers, and between a broker and its clients.

Every message is an immutable struct with a tag, so that a wire can encode it.  Publications
travel in batches (a batch of one is fine); the header a batch's member carries beside its
publication was put there by its first broker and does not change on the way.

What a publisher and its brokers say to each other when it is moved is here too, because every
client library speaks it; what only the brokers of one system say is in that system's folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Self

import msgspec

from shoal.model import (
    Advertisement,
    AdvertisementId,
    BrokerId,
    MessageId,
    Publication,
    Subscription,
    SubscriptionId,
)


class Message(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Base of all messages; on a wire a list of its tag and its fields.

    What `introduces` is said when a link has come up, before publications may go over it.
    """

    introduces: ClassVar[bool] = False


# --- between brokers and from clients ---------------------------------------------------------


class Advertise(Message, frozen=True):
    """`moves` counts the publisher's moves so far: of two words about it the later one holds."""

    introduces = True

    advertisement: Advertisement
    moves: int = 0


class Unadvertise(Message, frozen=True):
    introduces = True

    advertisement_id: AdvertisementId


class Subscribe(Message, frozen=True):
    introduces = True

    subscription: Subscription


class Unsubscribe(Message, frozen=True):
    introduces = True

    subscription_id: SubscriptionId


# --- brokers that come back tell their tables ---------------------------------------------------


class AdvertisementsSaid(Message, frozen=True):
    """To a neighbour: all advertisements from elsewhere are said, those not said are gone."""

    introduces = True


class SubscriptionsSaid(Message, frozen=True):
    """To a neighbour, who has said its advertisements: so are all subscriptions that follow them.

    It may send publications from now on.
    """

    introduces = True


class Preface(Message, frozen=True):
    """Base of what a system's brokers say about a link itself, which waits for no tables."""

    introduces = True


# --- publications -----------------------------------------------------------------------------


class RoutedPublication(msgspec.Struct, frozen=True, array_like=True):
    """A publication with the headers its first broker gave it.

    `mark` is what that broker's system says of it to the brokers on the way, None for most.
    """

    publication: Publication
    message_id: MessageId
    mark: MessageId | None = None


class Carrier(Message, frozen=True):
    """Base of whatever carries publications from broker to broker; all else in it is their route.

    Drivers meter, gate, join and keep carriers, and never look into a route.
    """

    publications: tuple[RoutedPublication, ...]

    @property
    def route(self) -> object:
        """Equal for carriers of one type whose publications may travel as one."""
        return self.with_publications(())

    def with_publications(self, publications: tuple[RoutedPublication, ...]) -> Self:
        """Other publications on the same route."""
        return msgspec.structs.replace(self, publications=publications)


class PublicationBatch(Carrier, frozen=True):
    """Publications on their way; `hops` counts the overlay links travelled so far."""

    hops: int

    @property
    def route(self) -> int:
        return self.hops

    def with_publications(self, publications: tuple[RoutedPublication, ...]) -> PublicationBatch:
        return PublicationBatch(publications, self.hops)


class Publish(Message, frozen=True):
    """From a publisher to its broker, in the publisher's order."""

    publications: tuple[Publication, ...]


# --- the publisher's ping times (4.2): asked, measured, told ----------------------------------


class PingRequest(Message, frozen=True):
    """To a publisher: tell me your round trip to each of these brokers."""

    session: MessageId
    brokers: tuple[BrokerId, ...]


class Ping(Message, frozen=True):
    """From any client to any broker; answered by a Pong."""

    session: MessageId


class Pong(Message, frozen=True):
    session: MessageId


class PingTimes(Message, frozen=True):
    """From a publisher: the round trips it measured, in µs."""

    session: MessageId
    round_trip_us: Mapping[BrokerId, int]


# --- moving a publisher (3.3) ------------------------------------------------------------------


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
    """To the target: all that the publisher advertises, and the path from its source."""

    path: tuple[BrokerId, ...]
    advertisements: tuple[Advertisement, ...]
    moves: int


class Resume(Message, frozen=True):
    """To a publisher, from the target: publish here from now on.

    Unless `whole` the path from the source was broken: what is behind the break is out of reach.
    """

    moves: int
    whole: bool


class Goodbye(Message, frozen=True):
    """From a client, or from its driver in its place: it is gone, and all it asked for here."""


class Rejected(Message, frozen=True):
    """To a client: a request was refused, and why."""

    reason: str
