"""Messages between brokers of topic-connected overlays, beside those of all systems with views."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from shoal.broker.wire import Vocabulary
from shoal.model import BrokerId
from shoal.overlays.dynatops.messages import OF_VIEWS, TopicMessage, UserArriving

Link = tuple[BrokerId, BrokerId]


class LinksSaid(TopicMessage, frozen=True):
    """From the hub to another: the links, which replace those announced before."""

    links: tuple[Link, ...]


class Stop(msgspec.Struct, frozen=True, array_like=True):
    """A broker of a tree; `before` is the number of the stop it is reached from, a smaller one.

    `number`: of those that the entry has sent there in this view, the first of these publications,
    as they were sent, is that one; -1: they are not for this broker.
    """

    broker: BrokerId
    before: int
    number: int


class AlongPath(UserArriving, frozen=True):
    """Publications of one publisher on their way along a tree, whose first stop is the receiver.

    Their numbers are consecutive; `first` is that of the first of them as they were sent, from
    which the place of each follows, however they are batched.
    """

    stops: tuple[Stop, ...]
    first: int


MESSAGES: Vocabulary = (*OF_VIEWS, LinksSaid, AlongPath)


def named(message: LinksSaid | AlongPath) -> Iterator[BrokerId]:
    """The brokers that a message names; all are members of its view."""
    match message:
        case LinksSaid():
            for link in message.links:
                yield from link
        case AlongPath():
            yield message.entry
            for stop in message.stops:
                yield stop.broker
