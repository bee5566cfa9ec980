"""At which broker a user should be: where others want the same, unless it has much to do already.

>>> served = {"B1": Served(frozenset({"sport", "news"}), 60), "B2": Served(frozenset(), 0)}
>>> best_broker(frozenset({"sport"}), served, load_weight=1.0)
'B1'
>>> best_broker(frozenset({"sport"}), served, load_weight=2.0)
'B2'

Source: DYNATOPS, section 4, Algorithm 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import NamedTuple, TypeVar

from shoal.model import BrokerId

# A broker by its name or its number.
Broker = TypeVar("Broker", BrokerId, int)


class Served(NamedTuple):
    """What a broker says of itself: its users' topics, and how many subscriptions they have."""

    topics: Set[object]
    subscriptions: int


def similarity(wanted: Set[object], served: Set[object]) -> float:
    """Sim: the share of what a user wants that the broker has anyway; 1 for who wants nothing.

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

    The share is of those that are visible: of all nobody knows, and it would be next to nothing.
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
