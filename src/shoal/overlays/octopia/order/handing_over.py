"""What comes back to a broker that has left: it is handed over to somebody who stays.

Its links end one by one, each when all that went over it is settled.  If one is lost before, what
was sent there comes back, and no other may lead to those it was for.  Who sent it here is linked
until it is settled, and takes it over, as does any other who still is: it sends what is for this
cluster to those of its homes that are left or, from another cluster, enters this one anew.

Nothing is handed over to one that has left, too: it might come back at once.
"""

from __future__ import annotations

from collections.abc import Callable

from shoal.broker.effects import Effect, Send
from shoal.model import BrokerId
from shoal.overlays.octopia.messages import Notification
from shoal.overlays.octopia.order.giving_back import THERE_AND_BACK
from shoal.overlays.octopia.places.labels import Product
from shoal.overlays.octopia.ways.keeping import Publications, again
from shoal.overlays.octopia.ways.outputs import Outputs


class HandingOver:
    """At one broker; `is_usable` as `Routing` has it, `is_linked` whatever a broker has said."""

    def __init__(
        self,
        product: Product,
        broker: BrokerId,
        outputs: Outputs,
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
        """Whether somebody takes over what has no way to these clusters and regions."""
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
            # It must not take it for what a carrier gives back.
            far = hops + (2 if hops + 1 == THERE_AND_BACK else 1)
            self._send(taker, Notification(marked, far, 1 << self._cluster, ()), out)
        return True

    def _may_take_over(self, broker: BrokerId) -> bool:
        """Who enters this cluster here from another region need not have said anything."""
        region, cluster = self._product.position(broker)
        is_far = region != self._region and cluster != self._cluster
        return self._is_usable(broker) or (is_far and self._is_linked(broker))

    def _is_beside(self, broker: BrokerId) -> bool:
        return self._product.position(broker).cluster == self._cluster

    def _send(self, taker: BrokerId, message: Notification, out: list[Effect]) -> None:
        self._outputs.sent(taker, len(message.publications))
        out.append(Send(taker, message))
