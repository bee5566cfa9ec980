"""What travels between brokers, and between a broker and its clients.

Every message is an immutable struct with a tag, so that a wire can encode it; none can be part of a
cycle of references, so Python's collector does not look at them (`gc=False`).  Publications
travel in batches (a batch of one is fine); the header a batch's member carries beside its
publication was put there by its first broker and does not change on the way.

What a client and its brokers say to each other when it is moved is in `shoal.clients.messages`;
what the brokers of one system say is in that system's folder.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Self

import msgspec

from shoal.model import (
    Advertisement,
    AdvertisementId,
    Filter,
    MessageId,
    Publication,
    Subscription,
    SubscriptionId,
)

# What travels as one is read in one go.  So many publications with all the attributes that they can
# have take 90 ms; a driver joins no more than some 1,500.
MOST_CARRIED = 4_096
# So many other messages go together: whoever handles them cuts them into turns.
MOST_TOGETHER = 256


class Message(msgspec.Struct, frozen=True, gc=False, tag=True, array_like=True):
    """Base of all messages; on a wire a list of its tag and its fields.

    What `carries` has publications.  What `introduces` is said when a link has come up, before
    publications may go over it.  What `joins` holds nothing back, so that several of them may be
    sent and handled as one (`Together`).  What `is_awaited` is in custody as publications are:
    whoever asked for it is told when all that came of it is handled, or gone with a link.  What
    `confirms` says that publications have arrived at the sender's clients: it is sent once a kill
    of the sender does not lose them.
    """

    carries: ClassVar[bool] = False
    introduces: ClassVar[bool] = False
    joins: ClassVar[bool] = False
    is_awaited: ClassVar[bool] = False
    confirms: ClassVar[bool] = False

    @property
    def brings(self) -> tuple[Filter, ...]:
        """The filters that it brings, which may be large."""
        return ()


# --- between brokers and from clients ---------------------------------------------------------


class Advertise(Message, frozen=True):
    """`moves` counts the publisher's moves so far: of two words about it the later one holds.

    Where a system's brokers answer with what is wanted of it, it `is_awaited`.
    """

    introduces = True
    joins = True

    advertisement: Advertisement
    moves: int = 0
    is_awaited: bool = False  # type: ignore[misc]

    @property
    def brings(self) -> tuple[Filter, ...]:
        return (self.advertisement.filter,)


class Unadvertise(Message, frozen=True):
    introduces = True
    joins = True

    advertisement_id: AdvertisementId


class Subscribe(Message, frozen=True):
    introduces = True
    joins = True

    subscription: Subscription

    @property
    def brings(self) -> tuple[Filter, ...]:
        return (self.subscription.filter,)


class Unsubscribe(Message, frozen=True):
    introduces = True
    joins = True

    subscription_id: SubscriptionId


class Together(Message, frozen=True):
    """Several messages as one, in their order; all join, and `introduces` is one for all."""

    messages: tuple[Message, ...]

    @property
    def introduces(self) -> bool:  # type: ignore[override]
        return self.messages[0].introduces

    @property
    def is_awaited(self) -> bool:  # type: ignore[override]
        return any(each.is_awaited for each in self.messages)


# --- publications -----------------------------------------------------------------------------


class RoutedPublication(msgspec.Struct, frozen=True, gc=False, array_like=True):
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

    carries = True

    publications: Annotated[tuple[RoutedPublication, ...], msgspec.Meta(max_length=MOST_CARRIED)]

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

    carries = True

    publications: Annotated[tuple[Publication, ...], msgspec.Meta(max_length=MOST_CARRIED)]


# --- from and to clients ----------------------------------------------------------------------


class Ping(Message, frozen=True):
    """From any client to any broker; answered by a Pong."""

    session: MessageId


class Pong(Message, frozen=True):
    session: MessageId


class Goodbye(Message, frozen=True):
    """From a client, or from its driver in its place: it is gone, and all it asked for here."""


class Rejected(Message, frozen=True):
    """To a client: a request was refused, and why."""

    reason: str
