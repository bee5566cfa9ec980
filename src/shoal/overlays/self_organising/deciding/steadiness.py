"""Changes of a broker's costs and clients' traffic, beyond noise; links that may not return yet.

A broker on a busy machine hears of notifications late and in bursts, so it counts other interests
in each interval, and estimates contradict each other: brokers exchanged two links to and fro for
ever. So an exchange is undone only after a change at any broker of the cycle: of costs by more than
they vary, or of the traffic of the broker's own clients by more than chance and more than it
varies. Traffic that passes does not count, as each exchange changes it. Without a change a link may
return once, for another link than the one that replaced it, as better trees are found over such
steps. So brokers rest after a bounded number of exchanges. If costs are counted, not estimated
(`trails.py`), exchanges are undone freely: a count corrects an estimate.

Figures are running averages over intervals, with their variance. The reference is that of the last
change; when averages differ from it, this is the next change.

>>> steady = Steadiness()
>>> for interval in range(20):
...     steady.turn({"P": 50 + interval % 2}, {"B2": 10.0}, interval)
>>> steady.changed_us
0
>>> for interval in range(20, 40):
...     steady.turn({"P": 150}, {"B2": 10.0}, interval)
>>> 20 <= steady.changed_us < 40
True

Source: ours; Cost and Interest, section 4.2, exchanges links whenever that pays.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from shoal.model import BrokerId, ClientId

# Weight of the last interval in the averages.
WEIGHT = 0.25
# Standard deviations that exclude noise, and the part of all traffic that is a change.
DEVIATIONS, PART = 3, 4
# Returns of a link without a change; exchanged links that a broker remembers.
MOST_RETURNS = 1
MOST_REMOVED = 256

Figures = Mapping[str, tuple[float, float]]
Pair = tuple[BrokerId, BrokerId]


def _averaged(before: Figures, sample: Mapping[str, float], *, missing: float | None) -> Figures:
    """The averages with one more sample; keys without one have `missing`, or are left out."""
    found = {}
    for key in before.keys() | sample.keys() if missing is not None else sample.keys():
        value = sample.get(key, missing or 0.0)
        mean, variance = before.get(key, (value, 0.0))
        apart = value - mean
        found[key] = mean + WEIGHT * apart, (1 - WEIGHT) * (variance + WEIGHT * apart * apart)
    return {key: each for key, each in found.items() if each[0] > 1e-3 or missing is None}


class RemovedLink(msgspec.Struct, frozen=True, array_like=True):
    """How long ago an exchange removed a link, the link `instead`, and how often it has returned.

    >>> RemovedLink(5, ("A", "B"), 0).is_undone_by(("B", "A"))
    True
    >>> RemovedLink(5, ("A", "B"), 0).is_undone_by(("A", "C"))
    False
    """

    ago_us: int
    instead: Pair
    returns: int

    def is_undone_by(self, removed: Pair) -> bool:
        """Whether its return for that link would undo the exchange, or be one too many."""
        return self.returns >= MOST_RETURNS or _in_order(removed) == _in_order(self.instead)


class _Removal(NamedTuple):
    at_us: int
    instead: Pair


class Steadiness:
    """One broker's figures; `changed_us` is when they changed last."""

    def __init__(self) -> None:
        self.changed_us = 0
        self._traffic: Figures = {}
        self._costs: Figures = {}
        self._reference: tuple[Figures, Figures] | None = None
        # Links of cycles with this broker that were removed by an exchange; the returns of links.
        self._removed: OrderedDict[Pair, _Removal] = OrderedDict()
        self._returns: OrderedDict[Pair, int] = OrderedDict()

    def turn(
        self, traffic: Mapping[ClientId, int], costs: Mapping[BrokerId, float], now_us: int
    ) -> None:
        """An interval ends: its notifications by publisher, and the costs of messages."""
        self._traffic = _averaged(self._traffic, traffic, missing=0.0)
        self._costs = _averaged(self._costs, costs, missing=None)
        if self._reference is None or self._differs(*self._reference):
            self._reference = self._traffic, self._costs
            self.changed_us = now_us

    def _differs(self, traffic: Figures, costs: Figures) -> bool:
        for key in costs.keys() & self._costs.keys():
            mean, variance = costs[key]
            noise = DEVIATIONS * math.sqrt(variance) + 1e-9 * abs(mean)
            if abs(self._costs[key][0] - mean) > noise:
                return True
        changed = total = 0.0
        for key in traffic.keys() | self._traffic.keys():
            (before, varied), (now, varies) = (
                traffic.get(key, (0.0, 0.0)),
                self._traffic.get(key, (0.0, 0.0)),
            )
            total += before + now
            # The variance of a count is at least its mean.
            variance = max(varied, varies, before, now)
            if abs(now - before) > DEVIATIONS * math.sqrt(variance):
                changed += abs(now - before)
        return PART * changed > total

    # --- exchanged links ----------------------------------------------------------------------

    def exchanged(self, old: Pair, new: Pair, now_us: int) -> None:
        """One link was exchanged for another, on a cycle with this broker."""
        old, new = _in_order(old), _in_order(new)
        back = self._removed.pop(new, None)
        if back is not None:
            since = self._returns.pop(new, 0) if back.at_us > self.changed_us else 0
            self._returns[new] = since + 1
        self._removed[old] = _Removal(now_us, new)
        for remembered in (self._removed, self._returns):
            while len(remembered) > MOST_REMOVED:
                remembered.popitem(last=False)

    def removed(self, link: Pair, now_us: int) -> RemovedLink | None:
        """The exchange that removed a link, as far as this broker knows."""
        found = self._removed.get(_in_order(link))
        if found is None:
            return None
        returns = self._returns.get(_in_order(link), 0)
        return RemovedLink(max(0, now_us - found.at_us), found.instead, returns)

    def has_changed_within(self, ago_us: int, now_us: int) -> bool:
        """Whether this broker's figures have changed in the last time."""
        return now_us - self.changed_us < ago_us


def _in_order(link: Pair) -> Pair:
    return min(link, link[::-1])
