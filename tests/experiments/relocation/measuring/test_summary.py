"""Metrics of a run from its tables: the events, brokers and times that count."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from shoal.experiments.relocation.grid import BASELINE, PUBLISHING_FROM_US, RunSpec
from shoal.experiments.relocation.measuring.memory import PeakMemory
from shoal.experiments.relocation.measuring.summary import expected_deliveries, summarise
from shoal.experiments.run_files import RUN_TABLES, WorkloadFiles, read_workload
from shoal.experiments.runs.run_totals import RunTotals
from shoal.experiments.runs.runner import RunResult
from tests.experiments.relocation.summaries import spec
from tests.experiments.test_run_files import SUBSCRIPTION, event, write_workload

SECOND_US = 1_000_000
# A minute and a half of publishing, of which the last 30 s count as settled.
SPEC: RunSpec = msgspec.structs.replace(spec(BASELINE), duration_us=90 * SECOND_US)


@pytest.fixture
def workload(tmp_path: Path) -> WorkloadFiles:
    subscriptions = [
        SUBSCRIPTION,
        {**SUBSCRIPTION, "subscription": "s2", "client": "c2", "filter": "dep_delay > 5"},
    ]
    events = [event(0, 0, dep_delay=3), event(1, 10, dep_delay=9), event(2, 20)]
    return read_workload(write_workload(tmp_path, subscriptions=subscriptions, events=events))


def tables(**rows: list[tuple[Any, ...]]) -> dict[str, dict[str, list[Any]]]:
    found = {}
    for name, schema in RUN_TABLES.items():
        columns = list(zip(*rows.get(name, []), strict=True)) or [() for _ in schema.names]
        found[name] = {
            column: list(values) for column, values in zip(schema.names, columns, strict=True)
        }
    return found


def load(
    broker: str, since_s: int, arrived: int, left: int, control: int = 0, busy_us: int = 0
) -> tuple[Any, ...]:
    since_us = PUBLISHING_FROM_US + since_s * SECOND_US
    control_us = 10_000 * control
    return broker, since_us, arrived, left, control, control, busy_us, 2 * busy_us, control_us, 0


def delivery(since_s: int, took_us: int, hops: int) -> tuple[Any, ...]:
    at_us = PUBLISHING_FROM_US + since_s * SECOND_US
    return "P", since_s, "s1", "c1", "B1", at_us, at_us + took_us, hops


MEMORY = PeakMemory()
CHECKS = {"delivered": 5, "duplicates": 1, "phantoms": 0, "out_of_order": 0, "refused": 0}


def test_rates_are_those_of_the_last_third_over_all_brokers(workload: WorkloadFiles) -> None:
    rows = tables(
        load=[
            load("B1", -10, 900, 900),
            load("B1", 0, 600, 600, control=60),
            load("B1", 60, 63, 126, control=21, busy_us=SECOND_US),
            load("B2", 80, 63, 0),
            load("B2", 90, 900, 900),
        ]
    )
    metrics = summarise(
        SPEC, "", RunResult(tables=rows, checks=CHECKS, totals=RunTotals()), workload, MEMORY
    ).metrics
    assert metrics["message_rate_per_s"] == pytest.approx(2 * 63 / (63 * 30))
    assert metrics["messages_both_per_s"] == pytest.approx(4 * 63 / (63 * 30))
    assert metrics["input_utilisation"] == pytest.approx(1 / (63 * 30))
    assert metrics["matching_utilisation"] == pytest.approx((1 - 21 * 0.01) / (63 * 30))
    assert metrics["busiest_utilisation"] == pytest.approx(1 / 30)
    assert metrics["output_utilisation"] == pytest.approx(2 / (63 * 30))
    assert metrics["overhead"] == pytest.approx(2 * 21 / (4 * 63))
    assert metrics["overhead_whole"] == pytest.approx((120 + 42) / (1_200 + 252))


def test_delays_are_those_of_late_publications(workload: WorkloadFiles) -> None:
    rows = tables(
        deliveries=[delivery(0, 9_000, 9), delivery(61, 2_000, 2), delivery(89, 4_000, 4)]
    )
    summary = summarise(
        SPEC, "", RunResult(tables=rows, checks=CHECKS, totals=RunTotals()), workload, MEMORY
    )
    assert summary.metrics["delay_us"] == 3_000
    assert summary.metrics["hops"] == 3
    assert summary.metrics["delay_whole_us"] == 5_000
    assert [(one.since_us, one.delay_us) for one in summary.timeline] == [
        (0, 9_000.0),
        (30 * SECOND_US, None),
        (60 * SECOND_US, 3_000.0),
    ]


def test_selections_and_migrations_are_counted(workload: WorkloadFiles) -> None:
    rows = tables(
        selections=[
            ("P", "B1", 0, 1_000, 3_000, 8_000, 4, "B2", 9.0, 5.0, 70.0, 50.0, None, None),
            ("P", "B2", 0, 1_000, 2_000, 2_000, 4, "B2", 5.0, 5.0, None, None, None, None),
        ],
        migrations=[("P", "B1", "B2", 3, 8_500, 9_500)],
    )
    summary = summarise(
        SPEC, "", RunResult(tables=rows, checks=CHECKS, totals=RunTotals()), workload, MEMORY
    )
    assert summary.metrics["selection_us"] == 4_000
    assert summary.metrics["selection_without_pings_max_us"] == 2_000
    assert (summary.metrics["migrations"], summary.metrics["wait_us"]) == (1, 1_000)
    assert [one.delay_target_us for one in summary.selections] == [50.0, None]
    assert summary.migrations[0].path_hops == 3


def test_losses_are_judged_by_the_filters(workload: WorkloadFiles) -> None:
    assert expected_deliveries(workload) == 4
    summary = summarise(
        SPEC, "", RunResult(tables=tables(), checks=CHECKS, totals=RunTotals()), workload, MEMORY
    )
    assert (summary.metrics["expected"], summary.metrics["lost"]) == (4, 0)
    assert summary.metrics["duplicated"] == 1


def test_an_empty_run_has_no_averages(workload: WorkloadFiles) -> None:
    summary = summarise(
        SPEC, "", RunResult(tables=tables(), checks=CHECKS, totals=RunTotals()), workload, MEMORY
    )
    assert "delay_us" not in summary.metrics
    assert summary.metrics["message_rate_per_s"] == 0
    assert msgspec.json.decode(msgspec.json.encode(summary), type=type(summary)) == summary


def test_memory_of_tracing_is_a_share_of_routing_tables(workload: WorkloadFiles) -> None:
    memory = PeakMemory()
    memory.peak_bytes, memory.routing_bytes = 630, 6_300
    result = RunResult(tables=tables(), checks=CHECKS, totals=RunTotals())
    metrics = summarise(SPEC, "", result, workload, memory).metrics
    assert (metrics["memory_bytes"], metrics["memory_share"]) == (10, 0.1)
    assert metrics["routing_bytes"] == 100
