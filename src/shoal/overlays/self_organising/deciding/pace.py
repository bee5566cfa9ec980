"""Pace of broadcasts: one per interval while something changes, else exponential back-off (ours).

The paper's brokers broadcast in each interval, and requests follow broadcasts: together they are
most of the heuristic's traffic on a stable tree. Here a broadcast without a change doubles the time
to the next, up to `most` intervals, and announces that time: receivers keep the entry until then
(`neighbourhood.py`). A change is broadcast within an interval: of this broker's links, costs, known
brokers, or interest. Notifications arrive at random, so an interest counts as changed only if the
publishers of a quarter of the notifications have other rates than at the last broadcast, by more
than chance explains.

>>> pace = Pace(most=4)
>>> [pace.turn() for _ in range(9)]
[1, 2, 0, 4, 0, 0, 0, 4, 0]
>>> pace.stir(), pace.turn(), pace.turn()
(None, 1, 2)
>>> for _ in range(20):
...     pace.note("P")
>>> pace.turn(), pace.turn()
(1, 1)
"""

from __future__ import annotations

from collections.abc import Collection

from shoal.broker.effects import Costs
from shoal.model import BrokerId, ClientId

# Of more publishers in one interval nothing is noted.
MOST_PUBLISHERS = 4_096
# Standard deviations that exclude chance, and the part of all notifications that is a change.
DEVIATIONS, PART = 3, 4


class Pace:
    """One broker's: at least one broadcast in `most` intervals; with 1 in each, as in the paper."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._every = 1
        # Intervals to the next broadcast, unless something changes.
        self._left = 0
        self._is_stirred = True
        # Notifications by publisher in this interval, and in the interval of the last broadcast.
        self._noted: dict[ClientId, int] = {}
        self._told: dict[ClientId, int] = {}

    def stir(self) -> None:
        """Something has changed: the next interval ends with a broadcast."""
        self._is_stirred = True

    def note(self, publisher: ClientId) -> None:
        """There was a notification of this publisher's in which the broker is interested."""
        if self._most > 1 and (publisher in self._noted or len(self._noted) < MOST_PUBLISHERS):
            self._noted[publisher] = self._noted.get(publisher, 0) + 1

    def turn(self) -> int:
        """An interval ends: within how many the broadcast after this one comes; 0: none now."""
        noted, self._noted = self._noted, {}
        self._left -= 1
        has_changed = self._is_stirred or _differ(self._told, noted)
        if self._left > 0 and not has_changed:
            return 0
        self._every = 1 if has_changed else min(2 * self._every, self._most)
        self._left, self._is_stirred, self._told = self._every, False, noted
        return self._every


def _differ(told: dict[ClientId, int], noted: dict[ClientId, int]) -> bool:
    """Whether rates have changed; the variance of a difference of two counts is their sum."""
    changed, total = 0, 0
    for publisher in told.keys() | noted.keys():
        before, now = told.get(publisher, 0), noted.get(publisher, 0)
        total += before + now
        if (before - now) ** 2 > DEVIATIONS**2 * (before + now):
            changed += abs(before - now)
    return PART * changed > total


def differ(costs: Costs, told: Costs, neighbours: Collection[BrokerId]) -> bool:
    """Whether messages cost another sum than was broadcast, by a factor of more than two."""
    pairs = [(costs.here, told.here)]
    pairs += [(costs.links.get(each, 0.0), told.links.get(each, 0.0)) for each in neighbours]
    return any(max(pair) > 2 * min(pair) for pair in pairs)
