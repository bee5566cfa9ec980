"""Results of a study: medians over seeds with intervals, and differences from the reference.

Seeds are compared pair by pair, and the intervals are distribution-free (`shoal.report.chance`):
with fewer than six seeds there are none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import NamedTuple

from shoal.experiments.comparisons.design import Factor, Setting, label
from shoal.experiments.comparisons.runs import OUT_OF_ORDER, ComparedFigures
from shoal.report.chance import interval
from shoal.report.drawing import figures


class StudyMetric(NamedTuple):
    """A metric on the page: its column, its words, its unit, and how it is written.

    `short` is its heading in the table of all settings; empty if it is not in that.
    """

    column: str
    title: str
    unit: str
    show: Callable[[float | None], str]
    short: str = ""


METRICS = (
    StudyMetric(
        "message_rate_per_s", "Broker message rate", "messages/s", figures.quantity, "rate/s"
    ),
    StudyMetric("delay_mean_us", "Mean delivery delay", "ms", figures.milliseconds, "delay, ms"),
    StudyMetric("delay_p99_us", "99th percentile of the delay", "ms", figures.milliseconds),
    StudyMetric("hops_mean", "Mean hops", "", figures.quantity, "hops"),
    StudyMetric("transfers", "Transfers between brokers", "", figures.count, "transfers"),
    StudyMetric("messages", "Messages, whole run", "", figures.count, "messages"),
    StudyMetric("control_messages", "Control messages, whole run", "", figures.count),
    StudyMetric("control_bytes", "Bytes of control messages", "bytes", figures.count),
    StudyMetric("set_up_messages", "Control messages before publishing", "", figures.count),
    StudyMetric("whole_overhead", "Whole overhead", "", figures.percent),
    StudyMetric("input_utilisation", "Input utilisation", "", figures.percent),
    StudyMetric("output_utilisation", "Output utilisation", "", figures.percent),
    StudyMetric("migrations", "Publisher moves", "", figures.count),
    StudyMetric("subscriber_moves", "Subscription moves", "", figures.count),
)
WRONG = ("lost", "duplicated", "phantom", OUT_OF_ORDER)


class Spread(NamedTuple):
    """The median of a metric over seeds, and its interval of 95 %; None with too few seeds."""

    median: float
    low: float | None
    high: float | None


class Change(NamedTuple):
    """The median of the relative differences from the reference, seed by seed, with its interval.

    `is_sure`: the interval has no 0; None with too few seeds.
    """

    median: float
    low: float | None
    high: float | None
    seeds: int

    @property
    def is_sure(self) -> bool | None:
        if self.low is None or self.high is None:
            return None
        return not self.low <= 0 <= self.high


class Cell(NamedTuple):
    """All seeds of one setting."""

    setting: Setting
    by_seed: Mapping[int, ComparedFigures]

    def spread(self, column: str) -> Spread | None:
        """None if no seed has the metric."""
        values = [
            value for run in self.by_seed.values() if (value := run.metrics.get(column)) is not None
        ]
        if not values:
            return None
        return Spread(median(values), *(interval(values) or (None, None)))

    def wrong(self) -> dict[str, int]:
        """Deliveries of all seeds that are wrong, by kind."""
        return {
            kind: sum(int(run.metrics.get(kind) or 0) for run in self.by_seed.values())
            for kind in WRONG
        }

    def change(self, reference: Cell, column: str) -> Change | None:
        """None if the metric is missing or 0 in all seeds that both have."""
        relative = []
        for seed, run in self.by_seed.items():
            other = reference.by_seed.get(seed)
            before = other.metrics.get(column) if other else None
            after = run.metrics.get(column)
            if before and after is not None:
                relative.append((after - before) / before)
        if not relative:
            return None
        low, high = interval(relative) or (None, None)
        return Change(median(relative), low, high, len(relative))


def cells(found: Sequence[ComparedFigures], settings: Sequence[Setting]) -> list[Cell]:
    """One cell for each setting with at least one finished run, in the settings' order."""
    by_label: dict[str, dict[int, ComparedFigures]] = {label(each): {} for each in settings}
    for run in found:
        if label(run.setting) in by_label:
            by_label[label(run.setting)][run.seed] = run
    return [
        Cell(setting, dict(sorted(by_label[label(setting)].items())))
        for setting in settings
        if by_label[label(setting)]
    ]


def reference_of(cell: Cell, all_cells: Sequence[Cell], factor: Factor) -> Cell | None:
    """The cell that differs in the first factor only, and has its first value there.

    A factor that the reference leaves out does not distinguish them. None for the reference itself
    and if its runs are not done.
    """
    if cell.setting.get(factor.key) == factor.values[0]:
        return None
    for other in all_cells:
        rest = {key: value for key, value in other.setting.items() if key != factor.key}
        if other.setting.get(factor.key) == factor.values[0] and all(
            cell.setting.get(key, value) == value for key, value in rest.items()
        ):
            return other
    return None
