"""One scenario with several seeds: of each run the figures by which settings are compared.

A seed decides a scenario's random parts: the links of a random topology, drawn latencies, faults,
brokers' draws. Runs of other settings with the same seeds are compared pair by pair
(`shoal.report.chance`). `shoal.pipeline.summaries` defines the figures.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from shoal.experiments.runs.runner import RunResult, run_scenario
from shoal.experiments.runs.trace_sinks import ParquetSink
from shoal.experiments.scenarios.scenario import Scenario


class SeedFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Results of one seed's run; `wrong` counts duplicates, phantoms, and deliveries out of
    order.
    """

    seed: int
    delivered: int
    wrong: int
    message_rate_per_s: float
    delay_mean_us: float | None
    hops_mean: float | None
    message_overhead: float
    migrations: int
    subscriber_moves: int
    exchanges: int


def figures_of(result: RunResult, window_us: int) -> SeedFigures:
    """Return the figures of a run with load windows of so many µs."""
    totals, checks = result.totals, result.checks
    rate, overhead = totals.load(window_us)
    return SeedFigures(
        seed=checks["seed"],
        delivered=checks["delivered"],
        wrong=checks["duplicates"] + checks["phantoms"] + checks["out_of_order"],
        message_rate_per_s=rate,
        delay_mean_us=totals.delay_mean_us,
        hops_mean=totals.hops_mean,
        message_overhead=overhead,
        migrations=totals.rows["migrations"],
        subscriber_moves=totals.rows["subscriber_moves"],
        exchanges=totals.outcomes["done"],
    )


def other_seeds(scenario: Scenario, seeds: int) -> Iterator[SeedFigures]:
    """The figures of the seeds after the scenario's own, of `seeds` in all; on all cores."""
    scenarios = [
        msgspec.structs.replace(scenario, seed=scenario.seed + number) for number in range(1, seeds)
    ]
    if not scenarios:
        return
    workers = min(len(scenarios), os.cpu_count() or 1)
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        yield from pool.map(_run, scenarios)


def _run(scenario: Scenario) -> SeedFigures:
    # On disk, and not in the memory of as many processes as there are cores.
    with TemporaryDirectory() as folder:
        result = run_scenario(scenario, sink=ParquetSink(Path(folder)))
        return figures_of(result, scenario.trace.window_us)
