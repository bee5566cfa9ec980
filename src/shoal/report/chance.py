"""Tests whether one run is better than another by more than chance, over the same seeds.

Each seed gives a pair of figures, and their relative difference. The median of these is the
setting's effect; its interval comes from their order alone (the sign test turned round), so nothing
is assumed about their distribution. With fewer than six seeds no interval of 95 % exists.

>>> interval([3.0, 1.0, 2.0, 5.0, 4.0, 6.0])
(1.0, 6.0)
>>> interval([1.0, 2.0, 3.0]) is None
True

Source: distribution-free confidence intervals for the median, e.g. Conover, Practical
Nonparametric Statistics, section 3.2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import comb
from statistics import median
from typing import Any, NamedTuple

from shoal.report.drawing import figures
from shoal.report.inputs import ReportRun

CONFIDENCE = 0.95
FEWEST_SEEDS = 6
NO_CHANCE = 'the scenario leaves nothing to chance (`topology.kind = "random"` does)'
# Figures that judge runs; less is better.
JUDGED: Mapping[str, str] = {
    "message_rate_per_s": "the broker message rate",
    "delay_mean_us": "the mean delivery delay",
}
# Costs of rearranging, each with its unit.
PRICES: Mapping[str, str] = {
    "migrations": "publisher moves",
    "subscriber_moves": "subscription moves",
    "exchanges": "links exchanged",
}


class Difference(NamedTuple):
    """Of one figure: the pairs' relative differences, in the order of seeds, and derived figures.

    `low` and `high` bound the median with 95 %; None with too few seeds.
    """

    column: str
    before: float
    after: float
    relative: tuple[float, ...]
    low: float | None
    high: float | None

    @property
    def median(self) -> float:
        return median(self.relative)

    @property
    def is_fixed(self) -> bool:
        """Return whether the seed decides nothing of it."""
        return len(set(self.relative)) == 1

    @property
    def is_by_chance(self) -> bool | None:
        """None where too few seeds can tell."""
        if self.low is None or self.high is None:
            return None
        return self.low <= 0 <= self.high


def interval(values: Sequence[float]) -> tuple[float, float] | None:
    """Bounds of the median with 95 %: as many values are cut off at each end as that allows."""
    ordered, count = sorted(values), len(values)
    cut, outside = -1, 0.0
    while cut + 1 < count / 2:
        outside += 2 * comb(count, cut + 1) / 2**count
        if outside > 1 - CONFIDENCE:
            break
        cut += 1
    return None if cut < 0 else (ordered[cut], ordered[count - 1 - cut])


def paired(run: ReportRun, reference: ReportRun) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """The reference's and the run's figures of the seeds that both have."""
    before = {row["seed"]: row for row in reference.seeds}
    return [(before[row["seed"]], row) for row in run.seeds if row["seed"] in before]


def differences(run: ReportRun, reference: ReportRun) -> list[Difference]:
    """Of each figure that runs are judged by; none without two seeds that both have."""
    pairs = paired(run, reference)
    found = []
    for column in JUDGED:
        values = [
            (before[column], after[column])
            for before, after in pairs
            if before[column] and after[column] is not None
        ]
        if len(values) < 2:
            continue
        relative = tuple((after - before) / before for before, after in values)
        bounds = interval(relative) or (None, None)
        before = median(each for each, _ in values)
        found.append(
            Difference(column, before, median(each for _, each in values), relative, *bounds)
        )
    return found


def verdicts(run: ReportRun, reference: ReportRun) -> list[str]:
    """Return better or worse by more than chance, by how much, at which price; empty without
    seeds.
    """
    found = differences(run, reference)
    if not found:
        return []
    count = max(len(each.relative) for each in found)
    return [
        f"{run.name} {_verdict(found, count)} {reference.name} (over {figures.count(count)} seeds)",
        *(_said(each) for each in found),
        _price(run),
        _proof(run, reference),
    ]


def _verdict(found: Sequence[Difference], count: int) -> str:
    if not any(any(each.relative) for each in found):
        return "is in no seed different from"
    if all(each.is_fixed for each in found):
        return f"differs in every seed by the same, as {NO_CHANCE}, from"
    if any(each.is_by_chance is None for each in found):
        return f"cannot be judged, which takes {FEWEST_SEEDS} seeds, against"
    sure = [each for each in found if not each.is_by_chance]
    better = [_amount(each) for each in sure if each.median < 0]
    worse = [_amount(each) for each in sure if each.median > 0]
    if better and worse:
        words = f"is better in {' and '.join(better)} but worse in {' and '.join(worse)}"
    elif better or worse:
        words = f"is {'better' if better else 'worse'} in {' and '.join(better or worse)}"
    else:
        return "differs by no more than chance explains from"
    return f"{words}, by more than chance, than"


def _amount(each: Difference) -> str:
    return f"{JUDGED[each.column]} ({_percent(each.median)})"


def _said(each: Difference) -> str:
    what = JUDGED[each.column]
    is_time = each.column.endswith("_us")
    unit = "ms" if is_time else "messages/s"
    before, after = (
        figures.milliseconds(value) if is_time else figures.quantity(value)
        for value in (each.before, each.after)
    )
    between = ""
    if not each.is_fixed and each.low is not None and each.high is not None:
        between = f"; with 95 % confidence {_percent(each.low)} to {_percent(each.high)}"
    return (
        f"{what} changes by {_percent(each.median)} ({before} → {after} {unit}; medians{between})"
    )


def _percent(share: float) -> str:
    """A change with its sign."""
    return f"{'+' if share > 0 else ''}{figures.percent(share)}"


def _price(run: ReportRun) -> str:
    """Return the cost of rearranging, in medians."""
    costs = [
        f"{figures.count(int(amount)) if amount % 1 == 0 else figures.quantity(amount)} {words}"
        for column, words in PRICES.items()
        if (amount := median(row[column] for row in run.seeds))
    ]
    overhead = median(row["message_overhead"] for row in run.seeds)
    costs.append(f"{figures.percent(overhead)} of all messages are control messages")
    return f"the price: {', '.join(costs)} (medians)"


def _proof(run: ReportRun, reference: ReportRun) -> str:
    """Return whether every seed of both delivered the same."""
    rows = [*run.seeds, *reference.seeds]
    wrong = sum(row["wrong"] for row in rows)
    delivered = sorted({row["delivered"] for row in rows})
    if wrong:
        return f"{figures.count(wrong)} deliveries are wrong: doubled, phantoms or out of order"
    if len(delivered) > 1:
        low, high = figures.count(delivered[0]), figures.count(delivered[-1])
        return f"one seed delivers {low}, another {high}: some lose messages"
    return f"every seed delivers the same {figures.count(delivered[0])}, none wrong"
