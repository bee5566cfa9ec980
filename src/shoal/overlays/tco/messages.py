"""What brokers of topic-connected overlays say to each other, beside what all in views do."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from shoal.broker.wire import Vocabulary
from shoal.model import BrokerId
from shoal.overlays.dynatops.messages import OF_VIEWS, Arriving, TopicMessage

Link = tuple[BrokerId, BrokerId]


class LinksSaid(TopicMessage, frozen=True):
    """From the hub to another: the links that there are to be, which replace those said before."""

    links: tuple[Link, ...]


class Stop(msgspec.Struct, frozen=True, array_like=True):
    """A broker of a tree; `before` is the number of the stop it is reached from, a smaller one.

    `number`: of those that the entry has sent there in this view, the first of these publications,
    as they were sent, is that one; -1: they are not for this broker.
    """

    broker: BrokerId
    before: int
    number: int


class Along(Arriving, frozen=True):
    """Publications of one publisher on their way along a tree, whose first stop is the receiver.

    Their numbers follow each other; `first` is that of the first of them as they were sent, from
    which each knows its place, whichever of them come together.
    """

    stops: tuple[Stop, ...]
    first: int


MESSAGES: Vocabulary = (*OF_VIEWS, LinksSaid, Along)


def named(message: LinksSaid | Along) -> Iterator[BrokerId]:
    """The brokers that a message speaks of; all are members of its view."""
    match message:
        case LinksSaid():
            for link in message.links:
                yield from link
        case Along():
            yield message.entry
            for stop in message.stops:
                yield stop.broker
