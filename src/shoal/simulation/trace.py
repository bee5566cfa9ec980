"""Events in a simulated world that become rows."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from shoal.model import BrokerId, ClientId, Publication, SubscriptionId


class DeliveryEvent(msgspec.Struct, frozen=True, gc=False):
    """A publication reached a subscriber."""

    publication: Publication
    subscriptions: tuple[SubscriptionId, ...]
    client: ClientId
    broker: BrokerId
    delivered_us: int
    hops: int


class Published(msgspec.Struct, frozen=True):
    """A publisher handed a publication to the network, at this broker."""

    publication: Publication
    broker: BrokerId
    at_us: int


class RefusedEvent(NamedTuple):
    """A broker rejected a client's request."""

    client: ClientId
    reason: str
    at_us: int


class Trace:
    """Everything that happened and is worth a row, in the order it happened."""

    def __init__(self) -> None:
        self.published: list[Published] = []
        self.deliveries: list[DeliveryEvent] = []
        self.refused: list[RefusedEvent] = []
        self.records: list[msgspec.Struct] = []
