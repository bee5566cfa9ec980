"""The spans of one traced message at one broker."""

from __future__ import annotations

import msgspec

from shoal.model import BrokerId, ClientId

# States of a subscriber's span.
NO, SENT, DELIVERED, WAITING, DROPPED = "no", "sent", "delivered", "waiting", "dropped"


class EnteredSpan(msgspec.Struct, kw_only=True):
    """The message at its first broker; `settled_us` is when all of the network had handled it."""

    client: ClientId
    user: str
    qos: int
    at_us: int
    settled_us: int | None = None


class HopSpan(msgspec.Struct, kw_only=True):
    """The publication at one broker; `source` is the neighbour, empty at the first broker.

    It came at `at_us`, waited `waited_us` and was handled in `took_us`; `targets` are the next
    hops, and `deliveries` counts the broker's own clients among them (front ends).
    """

    source: BrokerId
    at_us: int
    waited_us: int
    took_us: int
    targets: list[BrokerId]
    deliveries: int


class ClientSpan(msgspec.Struct, kw_only=True):
    """One subscription of one client, whose topic filter matches.

    state     no: its content filter is not TRUE; sent; delivered (acknowledged, or written at QoS
              0); waiting, in the session's queue; dropped
    verdict   the part of the filter that decides, with the values
    why       why it waits or was dropped
    """

    client: ClientId
    filter: str
    qos: int
    at_us: int
    state: str
    verdict: str = ""
    why: str = ""
    ended_us: int | None = None


class TracedMessage(msgspec.Struct, kw_only=True):
    """One message at one broker; `key` is the same at all brokers."""

    key: str
    label: str
    publisher: ClientId
    topic: str
    published_us: int
    bytes: int
    attributes: dict[str, object]
    entered: EnteredSpan | None = None
    hops: list[HopSpan] = []
    clients: list[ClientSpan] = []
    # Subscribers that have no span: there are too many.
    left_out: int = 0


class TraceSample(msgspec.Struct, frozen=True, kw_only=True):
    """An operator's sample: one of `each` messages on these topics that match, until `until_us`."""

    topic: str
    where: str
    each: int
    until_us: int
