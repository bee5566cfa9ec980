"""Handover of publications returned to a broker that has left, to a staying broker.

Its links end one by one, each when all publications over it are settled. If one is lost before
that, its publications are returned, and no other link may lead to their subscribers. Their sender
is linked until they are settled, and takes them over, as does any other linked broker: it sends
those for this cluster to the remaining edge brokers or, from another cluster, enters this one anew.

Nothing is handed over to a broker that has left, too: it might return it at once.
"""

from __future__ import annotations

from collections.abc import Callable

from shoal.broker.effects import Effect, Send
from shoal.model import BrokerId
from shoal.overlays.octopia.messages import Notification
from shoal.overlays.octopia.order.giving_back import THERE_AND_BACK
from shoal.overlays.octopia.places.labels import Product
from shoal.overlays.octopia.ways.keeping import Publications, again
from shoal.overlays.octopia.ways.outputs import OutputLoads


class HandingOver:
    """Handover at one broker that has left.

    `is_usable` as in `OctopiaRouting`, `is_linked` without regard to announcements.
    """

    def __init__(
        self,
        product: Product,
        broker: BrokerId,
        outputs: OutputLoads,
        is_usable: Callable[[BrokerId], bool],
        is_linked: Callable[[BrokerId], bool],
    ) -> None:
        self._product = product
        self._broker = broker
        self._region, self._cluster = product.position(broker)
        self._outputs = outputs
        self._is_usable = is_usable
        self._is_linked = is_linked

    def hand_over(
        self,
        publications: Publications,
        hops: int,
        owed: int,
        regions: tuple[int, ...],
        out: list[Effect],
    ) -> bool:
        """Hand publications without a path to these clusters and regions over.

        Returns False without a taker.
        """
        if self._broker in self._product:
            return False
        takers = filter(self._may_take_over, self._product.brokers)
        taker = min(takers, key=lambda each: not self._is_beside(each), default=None)
        if taker is None:
            return False
        marked = tuple(map(again, publications))
        if self._is_beside(taker):
            self._send(taker, Notification(marked, hops + 1, owed, regions), out)
            return True
        own = 1 << self._product.position(taker).cluster
        if owed:
            only = None if owed & own else ()
            self._send(taker, Notification(marked, hops + 1, owed & ~own, only), out)
        if regions:
            # The receiver must not take it for one that a carrier returns.
            far = hops + (2 if hops + 1 == THERE_AND_BACK else 1)
            self._send(taker, Notification(marked, far, 1 << self._cluster, ()), out)
        return True

    def _may_take_over(self, broker: BrokerId) -> bool:
        """Brokers that enter this cluster here from another region need no announcements."""
        region, cluster = self._product.position(broker)
        is_far = region != self._region and cluster != self._cluster
        return self._is_usable(broker) or (is_far and self._is_linked(broker))

    def _is_beside(self, broker: BrokerId) -> bool:
        return self._product.position(broker).cluster == self._cluster

    def _send(self, taker: BrokerId, message: Notification, out: list[Effect]) -> None:
        self._outputs.sent(taker, len(message.publications))
        out.append(Send(taker, message))
