"""Responses and overheads over thresholds, on figures with known answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shoal.experiments.relocation.grid import BASELINE, THRESHOLDS, RelocationSetting
from shoal.experiments.relocation.judges.thresholds import (
    greatest_overhead,
    lowest_threshold_is_worst,
    overhead_by_threshold,
    response_grows,
    response_us,
)
from shoal.experiments.relocation.measuring.summary import Moment, RunSummary
from tests.experiments.relocation.judges.evidence import evidence, value
from tests.experiments.relocation.summaries import spec, summary


def moments(delays: Sequence[float | None]) -> tuple[Moment, ...]:
    return tuple(
        Moment(
            since_us=number * 30_000_000,
            message_rate_per_s=1,
            overhead=0,
            delay_us=delay,
            hops=1,
        )
        for number, delay in enumerate(delays)
    )


def test_a_response_ends_when_the_delay_is_down() -> None:
    assert response_us(moments([10, 10, 10, 5, 5, 5, 5, 5])) == 90_000_000
    assert response_us(moments([5, 5, 5, 5, 5, 5])) == 0
    assert response_us(moments([10, 10, None, 5, 6, 5, 5, 5, 5])) == 90_000_000
    assert response_us(moments([10, 5])) is None


def test_a_delay_that_never_comes_close_to_its_mean_has_no_response() -> None:
    assert response_us(moments([10, 9, 1, 9, 1, 9])) is None


def thresholds(system: Any, falls_at: list[int], overheads: list[float]) -> list[RunSummary]:
    found = []
    for threshold, falls, overhead in zip(THRESHOLDS, falls_at, overheads, strict=True):
        setting = RelocationSetting(system=system, threshold=threshold)
        rows = {"timeline": moments([10.0] * falls + [5.0] * (20 - falls))}
        found.append(
            summary(
                spec(setting, study="threshold"), rows, overhead_whole=overhead, hops=1 / threshold
            )
        )
    return found


def test_thresholds_are_judged() -> None:
    grape_runs = thresholds("grape", [1, 2, 3, 4, 9], [0.5, 0.4, 0.3, 0.2, 0.1])
    baseline = summary(spec(BASELINE, study="threshold"), hops=0.05)
    given = evidence(*grape_runs, baseline, *thresholds("pop", [5, 4, 3, 2, 1], [0.1] * 5))
    assert value(response_grows("grape")(given)) == 1
    assert value(response_grows("pop")(given)) == 0
    assert value(overhead_by_threshold("grape", rising=False)(given)) == 1
    assert value(overhead_by_threshold("grape", rising=True)(given)) == 0
    assert value(greatest_overhead("grape")(given)) == 0.5
    assert value(lowest_threshold_is_worst("hops", above_baseline=True)(given)) == 2
    assert value(lowest_threshold_is_worst("hops", above_baseline=False)(given)) == 5
    assert lowest_threshold_is_worst("hops", above_baseline=True)(evidence()) is None
