"""The heaviest of very many keys, in bounded memory: Space-Saving, over the last few minutes.

A key that is not known takes the place of the lightest, with its weight: so a weight is too large
by at most its `error`, and every key that is heavier than all together divided by the capacity is
there.  Two spans are kept, the last one and the one that goes on.

>>> sketch = SpaceSaving(capacity=2)
>>> for key, weight in (("a", 5), ("b", 1), ("c", 2), ("a", 1)):
...     sketch.add(key, weight)
>>> sketch.heaviest(2)
[('a', 6), ('c', 3)]

Source: Metwally, Agrawal, El Abbadi, Efficient computation of frequent and top-k elements in data
streams, ICDT 2005.
"""

from __future__ import annotations

from collections.abc import Mapping
from heapq import nlargest
from operator import itemgetter

CAPACITY = 256
# A span of the traffic that counts.
SPAN_US = 120_000_000


class SpaceSaving:
    """Weights by key, of so many keys at most."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self.weights: dict[str, float] = {}

    def add(self, key: str, weight: float) -> None:
        """So much more of a key."""
        weights = self.weights
        if key not in weights and len(weights) >= self._capacity:
            lightest = min(weights, key=weights.__getitem__)
            weight += weights.pop(lightest)
        weights[key] = weights.get(key, 0) + weight

    def heaviest(self, most: int) -> list[tuple[str, float]]:
        return _heaviest(self.weights, most)


class Lately:
    """Heavy hitters of the last one or two spans."""

    def __init__(self, now_us: int, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._now, self._before = SpaceSaving(capacity), SpaceSaving(capacity)
        self._since_us = self._begun_us = now_us

    def add(self, key: str, weight: float, now_us: int) -> None:
        self._turn(now_us)
        self._now.add(key, weight)

    def heaviest(self, most: int, now_us: int) -> list[tuple[str, float]]:
        """Return the heaviest keys, with their rate a second, about."""
        self._turn(now_us)
        total = dict(self._before.weights)
        for key, weight in self._now.weights.items():
            total[key] = total.get(key, 0) + weight
        seconds = max(1.0, (now_us - self._begun_us) / 1e6)
        return [(key, weight / seconds) for key, weight in _heaviest(total, most)]

    def _turn(self, now_us: int) -> None:
        passed = (now_us - self._since_us) // SPAN_US
        if passed < 1:
            return
        self._before = self._now if passed == 1 else SpaceSaving(self._capacity)
        self._now = SpaceSaving(self._capacity)
        self._begun_us = self._since_us if passed == 1 else now_us
        self._since_us = now_us


def _heaviest(weights: Mapping[str, float], most: int) -> list[tuple[str, float]]:
    return nlargest(most, weights.items(), key=itemgetter(1))
