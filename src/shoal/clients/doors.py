"""What a client that stands for others and its broker say about these: a door, for MQTT's clients.

A system sees one client, whose subscriptions are those of all behind it.  One that moves clients by
what they get asks of publications that it has traced who had them; one that moves them by what they
want asks for that once, and is told of all that changes.  Nothing is said, or looked for, before.
Both are on one machine: none of this travels.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from shoal.broker.messages import Message
from shoal.model import ClientId, MessageId, SubscriptionId

# No session is longer: what a message is numbered beyond that is a peer's garbage.
MOST_BITS = 65_536


class StandsFor(Message, frozen=True):
    """From a client: there are others behind it, and it knows what each gets."""


class WhoHad(Message, frozen=True):
    """To a client that stands for others: who of these had which publications of a session?"""

    session: MessageId


class Had(Message, frozen=True):
    """From a client that stands for others: which publications of a session each of these had.

    The bits of `had` number them from the session's first; there are only clients that can be
    moved, and what somebody else there had is in `others`.  The session stands for `times` as many.
    `untold` is how many publications of other sessions that nobody has asked for each has had.
    `gone` are clients named before that have left, or want something else by now.
    """

    session: MessageId
    had: Mapping[ClientId, int]
    others: int = 0
    times: int = 1
    untold: Mapping[ClientId, int] = {}
    gone: tuple[ClientId, ...] = ()


class WhoWants(Message, frozen=True):
    """To a client that stands for others: what does each of these want, now and from now on?"""


class Wish(msgspec.Struct, frozen=True):
    """What one of them subscribes to now, by the subscriptions of its door; none if it has left.

    `since_us` is when it came.  Who `follows` is connected, and can be sent elsewhere.
    """

    client: ClientId
    subscriptions: tuple[SubscriptionId, ...]
    since_us: int = 0
    follows: bool = False


class Wants(Message, frozen=True):
    """From a client that stands for others: those that came, left or want something else."""

    wishes: tuple[Wish, ...]


class Stayed(Message, frozen=True):
    """From a client that stands for others: one of them was to go elsewhere, and is still here."""

    client: ClientId
