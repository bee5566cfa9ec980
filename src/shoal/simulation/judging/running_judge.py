"""Judges deliveries of a run part by part, so that a run need not keep them.

Deliveries are known when a broker makes them, and count in the order they reach their subscribers;
those under way wait here. A delivery of a publication that is not the publisher's newest at a
subscription is late or a duplicate: its key is kept, and `duplicates` tells the two apart, from the
keys of all deliveries, in a second reading.

Memory: a number for each pair of subscription and publisher with a delivery, the deliveries under
way, and the keys of those that were not newest.

>>> judge = RunningJudge({}, frozenset())
>>> judge.duplicates([])
0
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from shoal.matching import matches
from shoal.model import ClientId, Filter, SubscriptionId
from shoal.simulation.trace import DeliveryEvent

# Publisher, sequence, subscription.
DeliveredKey = tuple[ClientId, int, SubscriptionId]


class RunningJudge:
    """Counts of one run.

    filters      of all subscriptions
    conflated    subscriptions with keys that may overtake each other: never out of order
    delivered    deliveries, one for each subscription
    out_of_order those behind a later publication of the same publisher
    phantoms     those that their subscription's filter does not match
    suspects     keys of those that were not newest
    """

    def __init__(
        self, filters: Mapping[SubscriptionId, Filter], conflated: Collection[SubscriptionId]
    ) -> None:
        self._filters = filters
        self._conflated = conflated
        self._under_way: list[DeliveryEvent] = []
        self._last: dict[tuple[SubscriptionId, ClientId], int] = {}
        self._highest: dict[tuple[SubscriptionId, ClientId], int] = {}
        self.delivered = self.out_of_order = self.phantoms = 0
        self.suspects: set[DeliveredKey] = set()

    def take(self, deliveries: Iterable[DeliveryEvent], until_us: float) -> None:
        """Add deliveries, in the order they were made, and count those before a time (µs).

        Every later call has only deliveries that arrive at that time or after it.
        """
        # The sort is stable: equal times keep the order in which brokers made them.
        waiting = sorted([*self._under_way, *deliveries], key=lambda each: each.delivered_us)
        arrived = bisect_left(waiting, until_us, key=lambda each: each.delivered_us)
        for delivery in waiting[:arrived]:
            self._count(delivery)
        self._under_way = waiting[arrived:]

    def _count(self, delivery: DeliveryEvent) -> None:
        publisher, sequence = delivery.publication.key
        attributes = delivery.publication.attributes
        for subscription in delivery.subscriptions:
            self.delivered += 1
            self.phantoms += not matches(self._filters[subscription], attributes)
            pair = subscription, publisher
            last = self._last.get(pair, -1)
            self._last[pair] = sequence
            # A pair without a delivery out of order has no row in `_highest`.
            highest = max(last, self._highest.get(pair, -1))
            if highest >= sequence:
                self._highest[pair] = highest
                self.suspects.add((publisher, sequence, subscription))
                self.out_of_order += last > sequence and subscription not in self._conflated

    def duplicates(self, delivered: Iterable[DeliveredKey]) -> int:
        """Number of deliveries that had come before, from the keys of all deliveries."""
        counts = Counter(key for key in delivered if key in self.suspects)
        return counts.total() - len(counts)
