"""Subscriptions that neighbours have taken back while publications may be on their way to them.

The paper removes them when the update of a move passes (3.3).  Here they are kept until the
complete message has passed, which follows the last publication from the source; while several
publishers move to the same neighbour, until the last of the moves completes.
"""

from __future__ import annotations

from shoal.broker.effects import Effect
from shoal.model import BrokerId, ClientId, SubscriptionId
from shoal.overlays.tree.propagation import Propagation


class Retractions:
    """What one broker keeps of what its neighbours have taken back."""

    def __init__(self, propagation: Propagation) -> None:
        self._propagation = propagation
        # By neighbour and subscription: the publishers whose moves it is kept for.
        self._kept: dict[tuple[BrokerId, SubscriptionId], set[ClientId]] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def keep(
        self, neighbour: BrokerId, subscription_id: SubscriptionId, moving: set[ClientId]
    ) -> None:
        """The neighbour takes a subscription back while these publishers move to it."""
        entry = self._propagation.tables.subscriptions.get(subscription_id)
        if entry is not None and entry.last_hop == neighbour:
            self._kept[neighbour, subscription_id] = moving

    def undo(self, neighbour: BrokerId, subscription_id: SubscriptionId) -> None:
        """The neighbour wants the subscription again."""
        self._kept.pop((neighbour, subscription_id), None)

    def complete(self, publisher: ClientId, out: list[Effect]) -> None:
        """Nothing more comes of this move: remove what was kept for it alone."""
        for key, moving in list(self._kept.items()):
            moving.discard(publisher)
            if not moving:
                del self._kept[key]
                neighbour, subscription_id = key
                self._propagation.remove_subscription(subscription_id, neighbour, out)

    def forget(self, neighbour: BrokerId) -> None:
        """The link to the neighbour has changed: what it said no longer counts."""
        for key in [key for key in self._kept if key[0] == neighbour]:
            del self._kept[key]
