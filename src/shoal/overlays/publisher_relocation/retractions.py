"""Deferred retractions: subscriptions that neighbours have retracted during a move.

The paper removes them when the update of a move passes (3.3). Here they are kept until the complete
message has passed, which follows the last publication from the source; while several publishers
move to the same neighbour, until the last of the moves completes.
"""

from __future__ import annotations

from shoal.broker.effects import Effect
from shoal.model import BrokerId, ClientId, SubscriptionId
from shoal.overlays.tree.propagation import Propagation


class Retractions:
    """The deferred retractions of one broker."""

    def __init__(self, propagation: Propagation) -> None:
        self._propagation = propagation
        # By neighbour and subscription: the publishers whose moves it is kept for.
        self._kept: dict[tuple[BrokerId, SubscriptionId], set[ClientId]] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def keep(
        self, neighbour: BrokerId, subscription_id: SubscriptionId, moving: set[ClientId]
    ) -> None:
        """The neighbour retracts a subscription while these publishers move to it."""
        entry = self._propagation.tables.subscriptions.get(subscription_id)
        if entry is not None and entry.last_hop == neighbour:
            self._kept[neighbour, subscription_id] = moving

    def undo(self, neighbour: BrokerId, subscription_id: SubscriptionId) -> None:
        """The neighbour wants the subscription again."""
        self._kept.pop((neighbour, subscription_id), None)

    def complete(self, publisher: ClientId, out: list[Effect]) -> None:
        """The move is complete: remove subscriptions kept for it alone."""
        for key, moving in list(self._kept.items()):
            moving.discard(publisher)
            if not moving:
                del self._kept[key]
                neighbour, subscription_id = key
                self._propagation.remove_subscription(subscription_id, neighbour, out)

    def forget(self, neighbour: BrokerId) -> None:
        """The link to the neighbour has changed: its retractions are void."""
        for key in [key for key in self._kept if key[0] == neighbour]:
            del self._kept[key]
