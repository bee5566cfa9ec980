"""The data of the network: publications, subscriptions, advertisements.

Identifiers are plain strings under their own names, unique in a network.  A publication is
named by its publisher and that publisher's own sequence number; the message identifier that a
broker gives it on the way (see `MessageId`) is a header, not part of it.

>>> Publication(publisher="UA-EWR", sequence=0, published_us=5, attributes={"dep_delay": 41}).key
('UA-EWR', 0)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from shoal.model.filters import Filter
from shoal.model.values import Value, check_value

BrokerId = str
ClientId = str
SubscriptionId = str
AdvertisementId = str
Attributes = Mapping[str, Value]

# A publication is matched by every broker on its way; wider records belong in the payload.
MAX_ATTRIBUTES = 256


class MessageId(NamedTuple):
    """Names one publication message: prefixed by its first broker, then counted there.

    The counter runs per publisher (relocation paper, 4.1: an incrementing counter prefixed with
    the first broker's ID), so that the messages of a trace session are consecutive.
    """

    broker: BrokerId
    publisher: ClientId
    number: int

    def __str__(self) -> str:
        return f"{self.broker}-{self.publisher}-M{self.number}"


class Publication(msgspec.Struct, frozen=True, gc=False, kw_only=True, array_like=True):
    """One event: attributes, who published it, its place in that publisher's order, and when.

    `body` is what the publisher sends besides; brokers carry it without looking at it.
    `assured`: the publisher waits to hear that it has arrived.  `again`: it was on its way before,
    and may have arrived.  `traced`: brokers keep spans of it for its story.
    """

    publisher: ClientId
    sequence: int
    published_us: int
    attributes: Attributes
    body: bytes = b""
    assured: bool = False
    again: bool = False
    traced: bool = False

    @property
    def key(self) -> tuple[ClientId, int]:
        return self.publisher, self.sequence


class Pace(msgspec.Struct, frozen=True, array_like=True):
    """How often a subscription wants a publication of a key: at most every `every_us`, the newest.

    A key is a topic, with the values of the expressions `by`, as texts.
    """

    every_us: int
    by: tuple[str, ...] = ()


class Subscription(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A client's interest in the publications that `filter` matches.

    With a `pace` the subscriber needs only some of them.
    """

    id: SubscriptionId
    client: ClientId
    filter: Filter
    pace: Pace | None = None


class Advertisement(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A publisher's promise: each of its publications matches one of its advertisements."""

    id: AdvertisementId
    publisher: ClientId
    filter: Filter


def check_attributes(attributes: Mapping[str, object], where: str = "publication") -> None:
    """Raise ValueError, naming `where` and the attribute, unless a publication may carry these."""
    if len(attributes) > MAX_ATTRIBUTES:
        raise ValueError(f"{where}: {len(attributes)} attributes, more than {MAX_ATTRIBUTES}")
    for name, value in attributes.items():
        if not isinstance(name, str) or not name:
            raise ValueError(f"{where}: attribute name {name!r} is not a non-empty string")
        check_value(value, f"{where}: attribute {name!r}")
