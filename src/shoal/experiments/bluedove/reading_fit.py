"""Readings of the paper's open points, and how many of its ratios each explains, by arithmetic.

The paper leaves open how ranges are drawn, and what a matcher takes for a message beside the
subscriptions that it searches. A reading is a drawing and two costs, in the time to search one
subscription:

    fixed      for a message, whatever is searched
    delivery   for each subscription that matches

The limit of a cluster is that of its busiest matcher, by arithmetic over a sample of subscriptions
and messages. Messages go to the least set of their candidates (amount), to any candidate (random),
or as a linear programme divides them (best): no policy does better, and adaptive forwarding, which
the paper's ratios are about, counts as that.

`drawing` beside those of `testbed.workload`:

    ring   hot spots from end to end, ranges of 250 around their middles wrap round the attribute's
           ends

Source: Li et al., BlueDove, sections IV-B to IV-F.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import product
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from shoal.experiments.bluedove.testbed.workload import LENGTH, NARROW, RANGE

FitDrawing = Literal["moved", "cut", "single", "ring"]
Forwarding = Literal["amount", "random", "best"]
Floats: TypeAlias = npt.NDArray[np.float64]

DRAWINGS: tuple[FitDrawing, ...] = ("moved", "cut", "single", "ring")
FIXED = (0, 250, 500, 1_000, 2_000)
DELIVERY = (0, 20)
# Subscriptions of the paper, of which a sample stands for all.
SUBSCRIPTIONS = 40_000
SAMPLE, MESSAGES = 4_000, 8_000
ATTRIBUTES = 4
CORES = 4
# Rounds of the division of messages, and how fast prices follow.
ROUNDS, RATE = 200, 0.1


class FitReading(NamedTuple):
    """A drawing of the ranges, and costs in searches of one subscription."""

    drawing: FitDrawing
    fixed: int = 0
    delivery: int = 0

    def in_words(self) -> str:
        """
        >>> FitReading("ring", 500, 5).in_words()
        'ring, 500 a message, 5 a delivery'
        """
        costs = [f"{self.fixed:,} a message"] if self.fixed else []
        costs += [f"{self.delivery} a delivery"] if self.delivery else []
        return ", ".join([self.drawing, *costs])


class PaperRatio(NamedTuple):
    """One ratio of the paper: what it is of, its figure, and the number as printed."""

    name: str
    figure: str
    printed: str

    @property
    def value(self) -> float:
        return float(self.printed)


RATIOS: Mapping[str, PaperRatio] = {
    "peers-5": PaperRatio("rate over peer-to-peer, 5", "6a", "3.5"),
    "peers-20": PaperRatio("rate over peer-to-peer, 20", "6a", "4.2"),
    "full-5": PaperRatio("rate over full replication, 5", "6a", "14"),
    "full-20": PaperRatio("rate over full replication, 20", "6a", "67"),
    "subscriptions-peers": PaperRatio("subscriptions over peer-to-peer", "6b", "4"),
    "subscriptions-full": PaperRatio("subscriptions over full replication", "6b", "30"),
    "amount": PaperRatio("adaptive over subscription amount", "7", "1.2"),
    "random": PaperRatio("adaptive over random", "7", "3.5"),
    "dimensions": PaperRatio("four dimensions over one", "11a", "5.5"),
    "deviation": PaperRatio("deviation 1,000 over 250", "11b", "0.6"),
    "adverse": PaperRatio("four adverse dimensions over none", "11c", "0.44"),
}


class RangeSample(NamedTuple):
    """Ranges, by attribute: those with `low` above `high` wrap round the ends."""

    low: Floats
    high: Floats

    def meets(self, attribute: int, low: float, high: float) -> npt.NDArray[np.bool_]:
        """The ranges that meet places from `low` up to `high`, which is not included."""
        starts, ends = self.low[attribute], self.high[attribute]
        plain = (starts < high) & (ends > low)
        wrapped = (starts < high) | (ends > low)
        found: npt.NDArray[np.bool_] = np.where(starts <= ends, plain, wrapped)
        return found

    def matching(self, places: Floats) -> npt.NDArray[np.int64]:
        """The number of subscriptions that match each message; `places` by attribute."""
        counts = []
        for message in places.T:
            inside = np.ones(self.low.shape[1], bool)
            for starts, ends, place in zip(self.low, self.high, message, strict=True):
                plain = (starts <= place) & (place < ends)
                wrapped = (starts <= place) | (place < ends)
                inside &= np.where(starts <= ends, plain, wrapped)
            counts.append(int(inside.sum()))
        return np.array(counts)


def hot_spots(drawing: FitDrawing) -> Floats:
    """The middle of each attribute's distribution.

    >>> hot_spots("ring").tolist()[::3], hot_spots("moved").tolist()[::3]
    ([0.0, 1000.0], [125.0, 875.0])
    """
    if drawing in ("cut", "ring"):
        return np.linspace(0.0, LENGTH, ATTRIBUTES)
    return (np.arange(ATTRIBUTES) + 0.5) * LENGTH / ATTRIBUTES


def cropped_normal(hot_spot: float, deviation: float, count: int, seed: int) -> Floats:
    """Values of a normal distribution that is cut off at the attribute's ends, in random order.

    They are its quantiles: a sample would need many more for busiest matchers to be like others.
    """
    places = np.linspace(0.0, LENGTH, 20_001)
    weights = np.exp(-0.5 * ((places - hot_spot) / deviation) ** 2)
    shares = np.concatenate([[0.0], np.cumsum((weights[1:] + weights[:-1]) / 2)])
    values = np.interp(_strata(count), shares / shares[-1], places)
    return np.random.default_rng([seed, 1]).permutation(values)


def _strata(count: int) -> Floats:
    return (np.arange(count) + 0.5) / count


def sample_ranges(drawing: FitDrawing, deviation: float, segments: int, seed: int) -> RangeSample:
    """A sample of subscriptions; `segments` bound the ranges of `single`."""
    middles = np.array(
        [
            cropped_normal(spot, deviation, SAMPLE, seed + number)
            for number, spot in enumerate(hot_spots(drawing))
        ]
    )
    if drawing == "cut":
        return RangeSample(
            np.maximum(middles - RANGE / 2, 0.0), np.minimum(middles + RANGE / 2, LENGTH)
        )
    if drawing == "ring":
        return RangeSample((middles - RANGE / 2) % LENGTH, (middles + RANGE / 2) % LENGTH)
    length, low, high = RANGE, np.zeros_like(middles), np.full_like(middles, LENGTH)
    if drawing == "single":
        width = LENGTH / segments
        length, low = NARROW, middles // width * width
        high = low + width
    starts = np.minimum(np.maximum(middles - length / 2, low), high - length)
    return RangeSample(starts, starts + length)


class ClusterSample(NamedTuple):
    """Subscriptions and messages as matchers of one cluster see them, in shares of all
    subscriptions.

    sets      the share at each matcher, by attribute
    owners    the matcher of each message, by attribute
    matched   the share that matches each message
    """

    sets: Floats
    owners: npt.NDArray[np.int64]
    matched: Floats


@cache
def cluster_sample(
    drawing: FitDrawing, matchers: int, deviation: float, adverse: int, seed: int
) -> ClusterSample:
    """A sample; messages are skewed like subscriptions on the first `adverse` attributes."""
    ranges = sample_ranges(drawing, deviation, matchers, seed)
    cuts = np.linspace(0.0, LENGTH, matchers + 1)
    sets = [
        [ranges.meets(attribute, *cuts[n : n + 2]).mean() for n in range(matchers)]
        for attribute in range(ATTRIBUTES)
    ]
    random = np.random.default_rng([seed, 2])
    places = np.array([random.permutation(_strata(MESSAGES)) * LENGTH for _ in range(ATTRIBUTES)])
    for number, spot in enumerate(hot_spots(drawing)[:adverse]):
        places[number] = cropped_normal(spot, deviation, MESSAGES, seed + 100 + number)
    owners = np.minimum((places // (LENGTH / matchers)).astype(np.int64), matchers - 1)
    return ClusterSample(np.array(sets), owners, ranges.matching(places) / SAMPLE)


def hot_spot_density(drawing: FitDrawing, deviation: float, seed: int = 1) -> float:
    """Subscriptions at the densest place over the mean of all places (IV-B), of the attribute with
    the most skew.
    """
    ranges = sample_ranges(drawing, deviation, 20, seed)
    places = np.linspace(0.0, LENGTH, 200, endpoint=False) + LENGTH / 400
    covers = np.array(
        [[ranges.meets(n, place, place).mean() for place in places] for n in range(ATTRIBUTES)]
    )
    return float((covers.max(axis=1) / covers.mean(axis=1)).max())


def largest_set(drawing: FitDrawing, deviation: float, seed: int = 1) -> float:
    """The greatest set of 20 matchers over the mean (IV-F), of the attribute with the most skew."""
    sets = cluster_sample(drawing, 20, deviation, 0, seed).sets
    return float((sets.max(axis=1) / sets.mean(axis=1)).max())


class ReadingLimits:
    """Limits of clusters under one reading, in messages for each search's time."""

    def __init__(self, reading: FitReading, seed: int = 1) -> None:
        self._reading = reading
        self._seed = seed

    def partitioned(
        self,
        matchers: int,
        forwarding: Forwarding = "best",
        *,
        attributes: Sequence[int] = range(ATTRIBUTES),
        deviation: float = 250.0,
        adverse: int = 0,
        subscriptions: float = SUBSCRIPTIONS,
    ) -> float:
        """A cluster whose searchable attributes are these."""
        found = cluster_sample(self._reading.drawing, matchers, deviation, adverse, self._seed)
        owners = found.owners[list(attributes)]
        sets = np.array([found.sets[each][found.owners[each]] for each in attributes])
        per_message = sets + self._reading.delivery * found.matched
        costs = self._reading.fixed + subscriptions * per_message
        if forwarding == "best":
            return CORES * MESSAGES / least_busiest(owners, costs, matchers)
        busy = np.zeros(matchers)
        if forwarding == "random":
            np.add.at(busy, owners.ravel(), costs.ravel() / len(attributes))
        else:
            least, columns = sets.argmin(axis=0), np.arange(sets.shape[1])
            np.add.at(busy, owners[least, columns], costs[least, columns])
        return float(CORES * MESSAGES / busy.max())

    def peers(self, matchers: int, subscriptions: float = SUBSCRIPTIONS) -> float:
        """Peer-to-peer by the attribute that suits it best: there is one candidate."""
        return max(
            self.partitioned(matchers, "amount", attributes=(each,), subscriptions=subscriptions)
            for each in range(ATTRIBUTES)
        )

    def replicated(self, matchers: int, subscriptions: float = SUBSCRIPTIONS) -> float:
        """Full replication: every matcher searches all."""
        matched = cluster_sample(self._reading.drawing, matchers, 250.0, 0, self._seed).matched
        each = 1 + self._reading.delivery * float(matched.mean())
        return CORES * matchers / (self._reading.fixed + each * subscriptions)

    def ratios(self) -> dict[str, float]:
        """Each of `RATIOS`, adaptive forwarding as the best division."""
        whole, few = self.partitioned(20), self.partitioned(5)
        amount = self.partitioned(20, "amount")
        return {
            "peers-5": few / self.peers(5),
            "peers-20": whole / self.peers(20),
            "full-5": few / self.replicated(5),
            "full-20": whole / self.replicated(20),
            "subscriptions-peers": self._most_subscriptions(whole, self._peers_with),
            "subscriptions-full": self._most_subscriptions(
                whole, lambda count: self.replicated(20, count)
            ),
            "amount": whole / amount,
            "random": whole / self.partitioned(20, "random"),
            "dimensions": whole / self.partitioned(20, "amount", attributes=(0,)),
            "deviation": self.partitioned(20, deviation=1_000.0) / whole,
            "adverse": self.partitioned(20, adverse=4) / whole,
        }

    def _peers_with(self, subscriptions: float) -> float:
        return self.peers(20, subscriptions)

    def _most_subscriptions(self, whole: float, other: Callable[[float], float]) -> float:
        """How many times another system's subscriptions a cluster bears at 100,000 messages/s, if
        its limit with all, `whole`, is the paper's 114,000.
        """
        rate = whole * 100 / 114
        own = _most_that(lambda count: self.partitioned(20, subscriptions=count) >= rate)
        others = _most_that(lambda count: other(count) >= rate)
        return own / others if others else math.inf


def least_busiest(owners: npt.NDArray[np.int64], costs: Floats, matchers: int) -> float:
    """The least work of the busiest matcher over all divisions of the messages, within 2 %.

    `owners` and `costs` have a row for each candidate of the messages. Prices of matchers rise with
    their work, and each message goes to its cheapest candidate; the mean of many rounds is close to
    the solution of the linear programme (multiplicative weights).

    >>> owners = np.array([[0, 0], [1, 1]])
    >>> round(least_busiest(owners, np.array([[1.0, 1.0], [1.0, 1.0]]), 2), 1)
    1.0
    """
    columns = np.arange(costs.shape[1])
    total, prices = np.zeros(matchers), np.full(matchers, 1.0 / matchers)
    for _ in range(ROUNDS):
        best = (prices[owners] * costs).argmin(axis=0)
        busy = np.zeros(matchers)
        np.add.at(busy, owners[best, columns], costs[best, columns])
        total += busy
        prices *= np.exp(RATE * busy / busy.max())
        prices /= prices.sum()
    return float(total.max() / ROUNDS)


def _most_that(holds: Callable[[float], bool]) -> float:
    """The greatest number of subscriptions that holds, to 1 %; 0 if not even one does.

    >>> 990 <= _most_that(lambda count: count <= 1_000) <= 1_000
    True
    """
    low, high = 1.0, 4.0 * SUBSCRIPTIONS
    if not holds(low):
        return 0.0
    if holds(float(SUBSCRIPTIONS)):
        low = float(SUBSCRIPTIONS)
    while high / low > 1.01:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


class ReadingScore(NamedTuple):
    """A reading's ratios beside the paper's.

    error   mean distance, as a factor: 1.1 is a tenth off on average
    met     ratios that print as the paper's
    """

    reading: FitReading
    ratios: dict[str, float]
    error: float
    met: int


def score(reading: FitReading, seed: int = 1) -> ReadingScore:
    """Compare one reading with all of the paper's ratios at once."""
    ratios = ReadingLimits(reading, seed).ratios()
    logs = [abs(math.log(ratios[name] / each.value)) for name, each in RATIOS.items()]
    met = sum(prints_as(ratios[name], each.printed) for name, each in RATIOS.items())
    return ReadingScore(reading, ratios, math.exp(sum(logs) / len(logs)), met)


def prints_as(value: float, printed: str) -> bool:
    """Whether a value prints as a text, with its digits.

    >>> prints_as(1.17, "1.2"), prints_as(1.14, "1.2"), prints_as(66.6, "67")
    (True, False, True)
    """
    half = 0.5 * 10.0 ** -len(printed.partition(".")[2])
    return abs(value - float(printed)) <= half


def best_readings(seed: int = 1) -> list[ReadingScore]:
    """For each drawing without costs, then the costs that explain most; the best fit first."""
    plain = [score(FitReading(drawing), seed) for drawing in DRAWINGS]
    fitted = [
        min(
            (
                score(FitReading(drawing, fixed, delivery), seed)
                for fixed, delivery in product(FIXED, DELIVERY)
            ),
            key=lambda each: each.error,
        )
        for drawing in DRAWINGS
    ]
    different = {each.reading: each for each in (*fitted, *plain)}
    return sorted(different.values(), key=lambda each: each.error)
