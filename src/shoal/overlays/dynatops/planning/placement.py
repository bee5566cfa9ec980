"""Placement of users: at the broker whose users have the same topics, unless its load is high.

Or by the hash of the user's name: the baseline of placement by topics.

>>> served = {"B1": Served(frozenset({"sport", "news"}), 60), "B2": Served(frozenset(), 0)}
>>> best_broker(frozenset({"sport"}), served, load_weight=1.0)
'B1'
>>> best_broker(frozenset({"sport"}), served, load_weight=2.0)
'B2'

>>> ring = HashRing(["B1", "B2", "B3"])
>>> [ring.broker_of(f"u{number}") for number in range(4)]
['B3', 'B3', 'B1', 'B2']

Source: DYNATOPS, section 4, Algorithm 1; consistent hashing of users is ours.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterable, Mapping, Set
from typing import Generic, NamedTuple, TypeVar

from shoal.model import BrokerId, ClientId
from shoal.overlays.dynatops.structures.structure import hash_of

# A broker by its name or its number.
Broker = TypeVar("Broker", BrokerId, int)
# Of each broker on the ring of hashes: then loads differ by less than a fifth, as a rule.
_POINTS = 32


class Served(NamedTuple):
    """A broker's summary: its users' topics, and their number of subscriptions."""

    topics: Set[object]
    subscriptions: int


def similarity(wanted: Set[object], served: Set[object]) -> float:
    """Sim: the share of a user's topics that the broker has anyway; 1 for a user without topics.

    >>> similarity({"sport", "news"}, {"news"})
    0.5
    """
    if not wanted:
        return 1.0
    return sum(topic in served for topic in wanted) / len(wanted)


def utilities(
    wanted: Set[object], visible: Mapping[Broker, Served], load_weight: float
) -> dict[Broker, float]:
    """Util of each broker: similarity less its weighted share of the load.

    The share is of the visible brokers: the total is unknown, and the share of it would be tiny.
    """
    total = sum(each.subscriptions for each in visible.values()) or 1
    return {
        broker: similarity(wanted, each.topics) - load_weight * each.subscriptions / total
        for broker, each in visible.items()
    }


def best_broker(
    wanted: Set[object],
    visible: Mapping[Broker, Served],
    load_weight: float,
    present: Broker | None = None,
    least_gain: float = 0.0,
) -> Broker:
    """The broker with the highest utility; of equal ones the user's present one, then by name.

    With a `least_gain` a user stays at its present broker unless another is better by more.
    """
    found = utilities(wanted, visible, load_weight)
    best = min(found, key=lambda broker: (-found[broker], broker))
    if present in found and found[best] - found[present] <= least_gain:
        return present
    return best


class HashRing(Generic[Broker]):
    """Consistent hashing of users: if a broker comes or goes, only its own users are elsewhere."""

    def __init__(self, brokers: Iterable[Broker]) -> None:
        """ValueError if there are none."""
        points = sorted(
            (hash_of(f"{broker}/{point}"), broker) for broker in brokers for point in range(_POINTS)
        )
        if not points:
            raise ValueError("a ring has a broker at least")
        self._hashes = [hash for hash, _ in points]
        self._brokers: list[Broker] = [broker for _, broker in points]

    def broker_of(self, user: ClientId) -> Broker:
        """The broker with the next hash after the user's, round the ring."""
        found = bisect(self._hashes, hash_of(user))
        return self._brokers[found % len(self._brokers)]
