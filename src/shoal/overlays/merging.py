"""Unions of a broker's own subscriptions, which it forwards in place of the parts.

With covering the parts of a union need not be forwarded, and to all other brokers the union is a
subscription like any other, with an empty client. It has one name everywhere, so link changes,
leaves and turns of tables need no special case. Its name is derived from its filter: a restarted
broker finds the rows that it had elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import NamedTuple

import msgspec

from shoal.matching import Merging
from shoal.model import BrokerId, ClientId, Filter, Subscription, SubscriptionId

# The client of a union: nothing is delivered for it.
NOBODY: ClientId = ""


class MergedChange(NamedTuple):
    """New unions, and removed ones."""

    new: tuple[Subscription, ...]
    gone: tuple[SubscriptionId, ...]


NO_CHANGE = MergedChange((), ())


class OwnMerging:
    """One broker's unions, of its own clients' subscriptions."""

    def __init__(self, broker: BrokerId) -> None:
        self._broker = broker
        self._merging: Merging[SubscriptionId] = Merging()
        self._by_filter: dict[Filter, Subscription] = {}

    @property
    def subscriptions(self) -> Iterable[Subscription]:
        """All present unions."""
        return self._by_filter.values()

    def add(self, subscription: Subscription) -> MergedChange:
        """A client here has subscribed."""
        return self._change(*self._merging.add(subscription.id, subscription.filter))

    def remove(self, ids: Iterable[SubscriptionId]) -> MergedChange:
        """Clients here have unsubscribed."""
        return self._change(*self._merging.remove(*ids))

    def _change(self, new: Iterable[Filter], gone: Iterable[Filter]) -> MergedChange:
        left = tuple(self._by_filter.pop(filter).id for filter in gone)
        made = tuple(self._subscription(filter) for filter in new)
        self._by_filter.update((each.filter, each) for each in made)
        return MergedChange(made, left)

    def _subscription(self, filter: Filter) -> Subscription:
        said = blake2b(msgspec.msgpack.encode(filter.expression), digest_size=8).hexdigest()
        return Subscription(id=f"{self._broker}/union/{said}", client=NOBODY, filter=filter)


def check_merging(*, covering: bool, merging: bool) -> None:
    """ValueError for merging without covering: a union would be sent beside its parts."""
    if merging and not covering:
        raise ValueError("merging: it needs covering = true")


def unions(
    subscriptions: Iterable[tuple[Subscription, BrokerId]],
) -> list[tuple[Subscription, BrokerId]]:
    """The unions of these subscriptions at these brokers."""
    found: dict[BrokerId, OwnMerging] = {}
    for subscription, home in subscriptions:
        found.setdefault(home, OwnMerging(home)).add(subscription)
    return [(each, home) for home, merging in found.items() for each in merging.subscriptions]
