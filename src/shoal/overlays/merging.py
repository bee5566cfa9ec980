"""What a broker asks for in the place of its own clients: the unions of their subscriptions.

With covering the parts of a union need not be told, and to all other brokers the union is a
subscription like any other, whose client is nobody.  It has one name wherever it is known, so links
may come and go, brokers leave and tables turn as without it.  Its name says what it asks for: a
broker that starts again finds the rows that it had elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import NamedTuple

import msgspec

from shoal.matching import Merging
from shoal.model import BrokerId, ClientId, Filter, Subscription, SubscriptionId

# Who has subscribed to a union: nothing is delivered for it.
NOBODY: ClientId = ""


class MergedChange(NamedTuple):
    """Unions that there are now, and unions that there are no more."""

    new: tuple[Subscription, ...]
    gone: tuple[SubscriptionId, ...]


NO_CHANGE = MergedChange((), ())


class OwnMerging:
    """One broker's unions, of the subscriptions that its own clients have."""

    def __init__(self, broker: BrokerId) -> None:
        self._broker = broker
        self._merging: Merging[SubscriptionId] = Merging()
        self._by_filter: dict[Filter, Subscription] = {}

    @property
    def subscriptions(self) -> Iterable[Subscription]:
        """All unions that there are."""
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
    """ValueError for merging alone: a union is told beside its parts where nothing covers them."""
    if merging and not covering:
        raise ValueError("merging: it needs covering = true")


def unions(
    subscriptions: Iterable[tuple[Subscription, BrokerId]],
) -> list[tuple[Subscription, BrokerId]]:
    """The unions that there are when these have subscribed at these brokers."""
    found: dict[BrokerId, OwnMerging] = {}
    for subscription, home in subscriptions:
        found.setdefault(home, OwnMerging(home)).add(subscription)
    return [(each, home) for home, merging in found.items() for each in merging.subscriptions]
