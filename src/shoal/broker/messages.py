"""Messages between brokers, and between a broker and its clients.

Every message is an immutable struct with a tag, so that a wire can encode it; none can be part of a
cycle of references, so Python's collector does not look at them (`gc=False`). Publications travel
in batches (a batch of one is fine); the header of a batch's member was put there by its first
broker and does not change on the way.

Messages between a client and its brokers about a move are in `shoal.clients.messages`; messages of
one system are in that system's folder.
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

# A message is decoded in one go: so many publications with the most attributes take 90 ms; a driver
# joins no more than some 1,500.
MOST_CARRIED = 4_096
# The bound of other messages sent as one: the receiver handles them in time slices.
MOST_TOGETHER = 256


class Message(msgspec.Struct, frozen=True, gc=False, tag=True, array_like=True):
    """Base of all messages; on a wire a list of its tag and its fields.

    A message that `carries` has publications. One that `introduces` is sent when a link has come
    up, before publications may use it. One that `joins` holds no others up, so that several may be
    sent and handled as one (`Together`). One that `is_awaited` is acknowledged like publications:
    its sender learns when all its effects are handled, or lost with a link. One that `confirms`
    reports that publications have arrived at the sender's clients: it is sent when a kill of the
    sender does not lose them. `copied` names the field of a message that has copies of publications
    and does not carry them: drivers take it for a control message, and count its copies.
    """

    carries: ClassVar[bool] = False
    copied: ClassVar[str] = ""
    introduces: ClassVar[bool] = False
    joins: ClassVar[bool] = False
    is_awaited: ClassVar[bool] = False
    confirms: ClassVar[bool] = False

    @property
    def brings(self) -> tuple[Filter, ...]:
        """Its filters, which may be large."""
        return ()


# --- between brokers and from clients ---------------------------------------------------------


class Advertise(Message, frozen=True):
    """`moves` counts the publisher's moves so far: the message with the higher count holds.

    In systems that answer with matching subscriptions it `is_awaited`.
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
    """Several messages as one, in order; all join, and all have the same `introduces`."""

    messages: tuple[Message, ...]

    @property
    def introduces(self) -> bool:  # type: ignore[override]
        return self.messages[0].introduces

    @property
    def is_awaited(self) -> bool:  # type: ignore[override]
        return any(each.is_awaited for each in self.messages)


# --- publications -----------------------------------------------------------------------------


class RoutedPublication(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A publication with the headers of its first broker.

    `mark` is that broker's information for its system on the way, None for most.
    """

    publication: Publication
    message_id: MessageId
    mark: MessageId | None = None


class Carrier(Message, frozen=True):
    """Base of messages that carry publications between brokers; all other fields are their route.

    Drivers meter, hold, join and keep carriers, and never read a route.
    """

    carries = True

    publications: Annotated[tuple[RoutedPublication, ...], msgspec.Meta(max_length=MOST_CARRIED)]

    @property
    def route(self) -> object:
        """Equal for carriers of one type whose publications may travel as one."""
        return self.with_publications(())

    def with_publications(self, publications: tuple[RoutedPublication, ...]) -> Self:
        """The same route with other publications."""
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
    """From a client, or from its driver in its place: the client and its requests have ended."""


class Rejected(Message, frozen=True):
    """To a client: a request was refused, and the reason."""

    reason: str
