"""Messages of a client that stands for others, such as a front end for MQTT's, and its broker.

A system sees one client, whose subscriptions are those of all clients behind it. A system that
moves clients by their deliveries asks for the receivers of traced publications; one that moves them
by their subscriptions asks for these once, and gets all changes. Nothing is reported, or looked up,
before. Both are on one machine: these messages do not travel.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from shoal.broker.messages import Message
from shoal.model import ClientId, MessageId, SubscriptionId

# The bound of a session: a higher number is a peer's error.
MOST_BITS = 65_536


class StandsFor(Message, frozen=True):
    """From a client: it stands for others, and knows their deliveries."""


class WhoHad(Message, frozen=True):
    """To a client that stands for others: which of them got which publications of a session?"""

    session: MessageId


class DeliveriesReported(Message, frozen=True):
    """From a client that stands for others: the publications of a session that each of them got.

    The bits of `had` number them from the session's first; it has only clients that can be moved,
    and the deliveries to other clients are in `others`. The session stands for `times` as many.
    `untold` is each client's number of publications of other sessions that no one has asked for.
    `gone` are clients reported before that have left, or have changed their subscriptions.
    """

    session: MessageId
    had: Mapping[ClientId, int]
    others: int = 0
    times: int = 1
    untold: Mapping[ClientId, int] = {}
    gone: tuple[ClientId, ...] = ()


class WhoWants(Message, frozen=True):
    """To a client that stands for others: report their subscriptions, now and on changes."""


class Wish(msgspec.Struct, frozen=True):
    """The subscriptions of one of them, by those of its front end; none if it has left.

    `since_us` is when it came. A client that `follows` is connected, and can be redirected.
    """

    client: ClientId
    subscriptions: tuple[SubscriptionId, ...]
    since_us: int = 0
    follows: bool = False


class Wants(Message, frozen=True):
    """From a client that stands for others: clients that came, left or changed subscriptions."""

    wishes: tuple[Wish, ...]


class Stayed(Message, frozen=True):
    """From a client that stands for others: one of them was to move, and is still here."""

    client: ClientId
