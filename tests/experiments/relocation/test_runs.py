"""Runs as tasks: the paper's set-up as scenarios, one file each, made once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shoal.experiments.relocation import runs
from shoal.experiments.relocation.grid import (
    BASELINE,
    BROKERS,
    DELAY,
    LOAD,
    POP,
    SCALES,
    RelocationSetting,
    RunSpec,
    grid,
)
from shoal.experiments.relocation.loads import at_one_office, service_of
from shoal.experiments.relocation.runs import StudyRun, parameters_of, scenario_of, study_run
from shoal.experiments.run_files import read_workload
from shoal.experiments.scenarios.scenario import (
    BalancedTree,
    ConstantSection,
    GeographySection,
    Matrix,
    Service,
)
from shoal.experiments.studies import runs as kernel
from tests.experiments.relocation.summaries import spec
from tests.experiments.test_run_files import write_workload

BROKER_ROWS = [{"broker": f"B{number}", "rank": number} for number in range(BROKERS["cluster"])]


def tiny(setting: RelocationSetting = BASELINE, **changes: Any) -> RunSpec:
    """Half a minute of one publisher on the cluster."""
    one = spec(setting, testbed="cluster", **changes)
    return msgspec.structs.replace(one, duration_us=30_000_000, publications=30)


def tiny_workload(folder: Path) -> Path:
    publisher = {
        "publisher": "P",
        "advertisement_id": "P/a",
        "advertisement": "symbol = 'P'",
        "broker": "B3",
    }
    subscriptions = [
        {
            "subscription": f"s{number}",
            "client": f"c{number}",
            "broker": f"B{broker}",
            "filter": f"symbol = 'P' AND price >= {price}",
            "place": "B3",
        }
        for number, (broker, price) in enumerate([(60, 0), (61, 5), (4, 9)])
    ]
    events = [
        {
            "publisher": "P",
            "sequence": number,
            "time_us": number,
            "replay_us": number * 1_000_000,
            "attributes": {"symbol": "P", "price": number % 10},
        }
        for number in range(30)
    ]
    return write_workload(
        folder / tiny().workload,
        brokers=BROKER_ROWS,
        publishers=[publisher],
        subscriptions=subscriptions,
        events=events,
    ).parent


def task(one: RunSpec, folder: Path, inputs: dict[str, str] | None = None) -> StudyRun:
    return study_run(one, folder / "workloads", folder / "runs", inputs or {}, None, 1)


def test_a_run_leaves_a_file_and_is_done(tmp_path: Path) -> None:
    tiny_workload(tmp_path / "workloads")
    run = task(tiny(), tmp_path)
    assert (run.name, run.is_done) == ("quotes/grid/cluster-clustered-16/baseline", False)
    run()
    assert run.is_done
    assert run.summary is not None
    metrics = run.summary.metrics
    assert metrics["expected"] == 30 + 15 + 3
    assert metrics["lost"] == metrics["duplicated"] == metrics["migrations"] == 0
    assert metrics["message_rate_per_s"] > 0
    assert [path.name for path in (tmp_path / "runs").rglob("*.*")] == ["baseline.json"]


def test_a_run_of_something_else_is_not_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny_workload(tmp_path / "workloads")
    run = task(tiny(), tmp_path, {"workloads": "one"})
    run()
    assert task(tiny(), tmp_path, {"workloads": "one"}).is_done
    assert not task(tiny(), tmp_path, {"workloads": "two"}).is_done
    longer = msgspec.structs.replace(tiny(), duration_us=31_000_000)
    assert not task(longer, tmp_path, {"workloads": "one"}).is_done
    monkeypatch.setattr(kernel, "VERSION", "another")
    assert not task(tiny(), tmp_path, {"workloads": "one"}).is_done


@pytest.mark.parametrize("setting", [BASELINE, POP, LOAD])
def test_a_summary_does_not_depend_on_the_loop(tmp_path: Path, setting: RelocationSetting) -> None:
    tiny_workload(tmp_path / "workloads")
    run = task(tiny(setting), tmp_path)
    run()
    assert run.summary == run.measure_with(whole=True)


def test_a_probe_does_not_depend_on_the_loop(tmp_path: Path) -> None:
    tiny_workload(tmp_path / "workloads")
    probe = msgspec.structs.replace(tiny(study="probe", probe=3), duration_us=20_000_000)
    run = task(probe, tmp_path)
    run()
    assert run.summary == run.measure_with(whole=True)


def test_a_broken_file_is_not_done(tmp_path: Path) -> None:
    run = task(tiny(), tmp_path)
    Path(run.file).parent.mkdir(parents=True)
    Path(run.file).write_text('{"spec": {"study"')
    assert not run.is_done


def test_a_probe_puts_the_publisher_elsewhere(tmp_path: Path) -> None:
    tiny_workload(tmp_path / "workloads")
    stands = []
    for probe in (0, 1):
        summary = task(tiny(study="probe", probe=probe), tmp_path).measure()
        stands.append(summary.stands["P"])
    assert [stand.broker for stand in stands] == ["B3", "B4"]
    assert [stand.deliveries for stand in stands] == [48, 48]
    assert stands[0].messages != stands[1].messages


def test_scenarios_have_the_papers_set_up(tmp_path: Path) -> None:
    wide = scenario_of(spec(LOAD), tmp_path, None, 1)
    assert wide.topology == BalancedTree(fan_out=2)
    assert isinstance(wide.underlay, GeographySection)
    assert isinstance(scenario_of(spec(LOAD), tmp_path, tmp_path / "rtt", 1).underlay, Matrix)
    cluster = scenario_of(spec(DELAY, testbed="cluster"), tmp_path, tmp_path / "rtt", 7)
    assert isinstance(cluster.underlay, ConstantSection)
    assert (wide.seed, cluster.seed) == (1, 7)
    assert (wide.parameters.weight, wide.parameters.priority.value) == (100, "load")
    assert (wide.system, scenario_of(spec(POP), tmp_path, None, 1).system) == ("grape", "pop")


def test_thresholds_are_set_as_in_the_paper() -> None:
    low = RelocationSetting(system="grape", priority="delay", weight=100, threshold=10)
    assert parameters_of(low)["grape"]["trace_session_length"] == 10
    pop = RelocationSetting(system="pop", threshold=50)
    papers_way = {"most_busy_percent": 100}
    assert parameters_of(pop) == {"pop": {"threshold": 50, "window_publications": 25} | papers_way}
    assert parameters_of(POP) == {"pop": papers_way}
    assert parameters_of(RelocationSetting(system="pop", knows_room=True)) == {"pop": {}}
    assert parameters_of(BASELINE) == {}


def test_round_trips_are_part_of_the_key(tmp_path: Path) -> None:
    rtt = tmp_path / "rtt.csv"
    keys = set()
    for text in ("src,dst,rtt_ms\n0,1,5\n", "src,dst,rtt_ms\n0,1,6\n"):
        rtt.write_text(text)
        made = runs.study_runs("quotes", SCALES["small"], tmp_path, tmp_path, {}, rtt, 1)
        keys.add(made[0].key)
    assert len(keys) == 2


def test_costs_of_loads_keep_a_broker_with_everything_busy() -> None:
    loaded = [run for run in grid("quotes", SCALES["small"]) if run.study == "load"]
    for run in loaded:
        costs = service_of(run, 283)
        searched_us = 20 * 20 * costs.matching_per_subscription_ns / 1_000
        work_us = 20 * (costs.processing_us + costs.matching_us + searched_us)
        assert work_us / 1_000_000 == pytest.approx(run.busy / 100, rel=0.01)
    assert service_of(spec(LOAD), 283) == Service(publication_bytes=283)


def test_the_main_office_has_all_high_rated_subscribers(tmp_path: Path) -> None:
    write_workload(tmp_path)
    workload = read_workload(tmp_path)
    table = pq.read_table(tmp_path / "subscriptions.parquet")
    classes = ["high", "low"] * len(table)
    column = table.schema.get_field_index("rate_class")
    named = table.set_column(column, "rate_class", pa.array(classes[: len(table)]))
    pq.write_table(named, tmp_path / "subscriptions.parquet")
    moved = at_one_office(workload, tmp_path).subscriptions
    high = {row.broker for row in moved[::2]}
    assert len(high) == 1
    assert [row.broker for row in moved[1::2]] == [
        row.broker for row in workload.subscriptions[1::2]
    ]
    assert [row.filter for row in moved] == [row.filter for row in workload.subscriptions]
