"""Rows of the trace that clients write by `Record` effects."""

from __future__ import annotations

import msgspec

from shoal.model import BrokerId, ClientId, SubscriptionId


class MigrationRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A finished migration, seen by the publisher: it published nothing from pause to resume."""

    publisher: ClientId
    source: BrokerId
    target: BrokerId
    path_hops: int
    paused_us: int
    resumed_us: int


class ReturnRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A migration that failed, seen by the publisher: it is back where it was."""

    publisher: ClientId
    broker: BrokerId
    target: BrokerId
    paused_us: int
    resumed_us: int


class SubscriberMoveRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A subscription has moved: from the order until its end at the source."""

    client: ClientId
    subscription: SubscriptionId
    source: BrokerId
    target: BrokerId
    asked_us: int
    moved_us: int
