"""Independent checkers: they see requests and deliveries, but no broker state.

`check_deliveries` compares a run's deliveries with the naive truth over the global picture: no
loss, no duplicate, no delivery without a subscription, each publisher's order kept. Each system's
own oracle checks brokers' tables (`shoal.overlays.system`).

A subscription takes a while to reach the publishers.  Within `settle_us` of the moment it is
made or taken back, a delivery is allowed and not required.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from shoal.matching import matches
from shoal.model import (
    ClientId,
    Publication,
    Subscription,
    SubscriptionId,
)
from shoal.simulation.trace import DeliveryEvent, Published

PublicationKey = tuple[ClientId, int]
DeliveryKey = tuple[PublicationKey, SubscriptionId]


class TimedSubscription(msgspec.Struct, frozen=True, kw_only=True):
    """A subscription, and when its client made it and took it back (None: never), in µs."""

    subscription: Subscription
    from_us: int
    until_us: int | None = None


class CheckerVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """Errors, publication and subscription by name; all empty without an error."""

    required: int
    lost: tuple[DeliveryKey, ...]
    duplicates: tuple[DeliveryKey, ...]
    phantoms: tuple[DeliveryKey, ...]
    out_of_order: tuple[DeliveryKey, ...]

    def __bool__(self) -> bool:
        """True when all is well."""
        return not (self.lost or self.duplicates or self.phantoms or self.out_of_order)


class CheckerTally(NamedTuple):
    """Number of deliveries of each pair, and those behind a later one of the same publisher."""

    counts: Counter[DeliveryKey]
    out_of_order: list[DeliveryKey]


def tally(deliveries: Iterable[DeliveryEvent]) -> CheckerTally:
    """Count deliveries, which must be in the order they reached their subscribers."""
    counts: Counter[DeliveryKey] = Counter()
    out_of_order = []
    newest: dict[tuple[SubscriptionId, ClientId], int] = {}
    for delivery in deliveries:
        publisher, sequence = delivery.publication.key
        for subscription_id in delivery.subscriptions:
            key = (delivery.publication.key, subscription_id)
            counts[key] += 1
            if newest.get((subscription_id, publisher), -1) > sequence:
                out_of_order.append(key)
            newest[subscription_id, publisher] = sequence
    return CheckerTally(counts, out_of_order)


def check_deliveries(
    publications: Iterable[Publication],
    subscriptions: Sequence[TimedSubscription],
    deliveries: Sequence[DeliveryEvent],
    settle_us: int,
    *,
    handed: Mapping[PublicationKey, Published] | None = None,
    excused: Callable[[Published, TimedSubscription], bool] = lambda published, timed: False,
) -> CheckerVerdict:
    """Judge deliveries, which must be in the order they reached their subscribers.

    A publication counts from when it was published; with `handed`, from when its publisher handed
    it over, and one that it never handed over need not arrive, as need none that is `excused`.
    """
    counts, out_of_order = tally(deliveries)
    clients = {timed.subscription.id: timed.subscription.client for timed in subscriptions}
    misled = {
        (delivery.publication.key, subscription_id)
        for delivery in deliveries
        for subscription_id in delivery.subscriptions
        if delivery.client != clients.get(subscription_id)
    }
    required: set[DeliveryKey] = set()
    allowed: set[DeliveryKey] = set()
    for publication in publications:
        row = Published(publication, "", publication.published_us)
        if handed is not None:
            if publication.key not in handed:
                continue
            row = handed[publication.key]
        for timed in subscriptions:
            # True if it held then is sooner said than whether its filter matches.
            if not _is_within(timed, row.at_us, settle_us):
                continue
            if not matches(timed.subscription.filter, publication.attributes):
                continue
            key = (publication.key, timed.subscription.id)
            allowed.add(key)
            if _is_within(timed, row.at_us, -settle_us) and not excused(row, timed):
                required.add(key)
    return CheckerVerdict(
        required=len(required),
        lost=tuple(sorted(required - counts.keys())),
        duplicates=tuple(sorted(key for key, count in counts.items() if count > 1)),
        phantoms=tuple(sorted((counts.keys() - allowed) | misled)),
        out_of_order=tuple(out_of_order),
    )


def _is_within(timed: TimedSubscription, published_us: int, margin_us: int) -> bool:
    """Return whether the subscription, made longer by a margin at both ends, held at that time."""
    if published_us < timed.from_us - margin_us:
        return False
    return timed.until_us is None or published_us < timed.until_us + margin_us
