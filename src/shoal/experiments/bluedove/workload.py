"""The evaluation's subscriptions and messages (IV-B), drawn by a seed.

Four attributes of length 1,000.  A subscription is a range of 250 on each; ranges lie around a hot
spot, in a normal distribution cut off at the ends, and the hot spots of the attributes are spread
evenly.  A message has a value on each: even over the whole length or, on adversely skewed
attributes, in the subscriptions' own distribution (IV-F).

>>> workload = Workload(Random(1), deviation=250.0, adverse=0)
>>> sorted(workload.message()) == list(ATTRIBUTES)
True
>>> workload.hot_spots
(125.0, 375.0, 625.0, 875.0)

Source: Li et al., BlueDove, sections IV-B and IV-F.
"""

from __future__ import annotations

from random import Random

from shoal.model import And, Filter, Operator, predicate

LENGTH = 1_000.0
RANGE = 250.0
ATTRIBUTES = ("a1", "a2", "a3", "a4")


class Workload:
    """An endless supply of filters and messages.

    deviation   of the ranges' middles around the hot spot of an attribute
    adverse     so many attributes have messages skewed like the subscriptions
    """

    def __init__(self, random: Random, *, deviation: float, adverse: int) -> None:
        self._random = random
        self._deviation = deviation
        self._adverse = adverse
        count = len(ATTRIBUTES)
        self.hot_spots = tuple((number + 0.5) * LENGTH / count for number in range(count))

    def filter(self) -> Filter:
        """A range on each attribute."""
        tests = []
        for name, hot_spot in zip(ATTRIBUTES, self.hot_spots, strict=True):
            middle = self._skewed(hot_spot)
            low = min(max(middle - RANGE / 2, 0.0), LENGTH - RANGE)
            tests.append(predicate(name, Operator.GE, low))
            tests.append(predicate(name, Operator.LT, low + RANGE))
        return Filter(And(tuple(tests)))

    def message(self) -> dict[str, float]:
        """A value on each attribute."""
        return {
            name: self._skewed(hot_spot)
            if number < self._adverse
            else self._random.random() * LENGTH
            for number, (name, hot_spot) in enumerate(zip(ATTRIBUTES, self.hot_spots, strict=True))
        }

    def _skewed(self, hot_spot: float) -> float:
        while True:
            value = self._random.gauss(hot_spot, self._deviation)
            if 0 <= value < LENGTH:
                return value
