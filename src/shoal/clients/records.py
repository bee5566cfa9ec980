"""Rows of the trace that clients write by `Record` effects."""

from __future__ import annotations

import msgspec

from shoal.broker.happenings import Happening
from shoal.model import BrokerId, ClientId, SubscriptionId


class MigrationRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A finished migration, seen by the publisher: it published nothing from pause to resume."""

    publisher: ClientId
    source: BrokerId
    target: BrokerId
    path_hops: int
    paused_us: int
    resumed_us: int

    def happening(self) -> Happening:
        return Happening(
            at_us=self.resumed_us,
            kind="move",
            text=f"publisher {self.publisher} moved",
            why=f"paused for {(self.resumed_us - self.paused_us) / 1000:,.0f} ms",
            client=self.publisher,
            source=self.source,
            target=self.target,
        )


class ReturnRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A migration that failed, seen by the publisher: it is back where it was."""

    publisher: ClientId
    broker: BrokerId
    target: BrokerId
    paused_us: int
    resumed_us: int

    def happening(self) -> Happening:
        return Happening(
            at_us=self.resumed_us,
            kind="failed",
            text=f"publisher {self.publisher} did not move to {self.target}",
            why=f"the move failed; it publishes at {self.broker} again",
            client=self.publisher,
            source=self.broker,
        )


class SubscriberMoveRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A subscription has moved: from the order until its end at the source."""

    client: ClientId
    subscription: SubscriptionId
    source: BrokerId
    target: BrokerId
    asked_us: int
    moved_us: int

    def happening(self) -> Happening:
        return Happening(
            at_us=self.moved_us,
            kind="move",
            text=f"a subscription of {self.client} moved",
            why=f"complete after {(self.moved_us - self.asked_us) / 1000:,.0f} ms",
            client=self.client,
            source=self.source,
            target=self.target,
        )
