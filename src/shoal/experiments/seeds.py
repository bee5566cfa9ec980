"""One scenario with several seeds: of each run the figures by which settings are compared.

A seed decides a scenario's random parts: the links of a random topology, drawn latencies, faults,
brokers' draws. Runs of other settings with the same seeds are compared pair by pair
(`shoal.report.chance`). `shoal.pipeline.summaries` defines the figures.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import msgspec

from shoal.experiments.runner import RunResult, run_scenario
from shoal.experiments.scenario import Scenario
from shoal.experiments.trace_tables import Tables


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
    tables, checks = result.tables, result.checks
    deliveries = tables["deliveries"]
    count = len(deliveries["hops"])
    delays_us = sum(deliveries["delivered_us"]) - sum(deliveries["published_us"])
    rate, overhead = _load(tables, window_us)
    return SeedFigures(
        seed=checks["seed"],
        delivered=checks["delivered"],
        wrong=checks["duplicates"] + checks["phantoms"] + checks["out_of_order"],
        message_rate_per_s=rate,
        delay_mean_us=delays_us / count if count else None,
        hops_mean=sum(deliveries["hops"]) / count if count else None,
        message_overhead=overhead,
        migrations=len(tables["migrations"]["publisher"]),
        subscriber_moves=len(tables["subscriber_moves"]["subscription"]),
        exchanges=list(tables["proposals"]["outcome"]).count("done"),
    )


def _load(tables: Tables, window_us: int) -> tuple[float, float]:
    """Messages per second and broker in the windows with publications; the share of control."""
    times_us = tables["publications"]["published_us"]
    if not times_us:
        return 0.0, 0.0
    first, last = min(times_us) // window_us, max(times_us) // window_us
    load = tables["load"]
    counted = [
        place
        for place, start_us in enumerate(load["window_start_us"])
        if first <= start_us // window_us <= last
    ]

    def total(name: str) -> int:
        column: Sequence[Any] = load[name]
        return sum(column[place] for place in counted)

    period_s = (last + 1 - first) * window_us / 1_000_000
    messages = total("messages_in") + total("messages_out")
    control = total("control_in") + total("control_out")
    rate = total("messages_in") / period_s / len(tables["brokers"]["broker"])
    return rate, control / messages if messages else 0.0


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
    return figures_of(run_scenario(scenario), scenario.trace.window_us)
