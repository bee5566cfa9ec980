"""The evaluation's runs, as small as they can be, and what is concluded from results."""

from __future__ import annotations

from pathlib import Path
from random import Random

import msgspec
import numpy as np
import pytest

from shoal.experiments.bluedove import runs, saturation
from shoal.experiments.bluedove.claims import ENGINE, LINEAR, Evidence, judge_all
from shoal.experiments.bluedove.grid import (
    SCALES,
    SYSTEMS,
    DataFile,
    data_name,
    engine_name,
    grid,
    rate_name,
)
from shoal.experiments.bluedove.runs import (
    Kind,
    Result,
    Run,
    fall_s,
    recovery_s,
    response_series,
)
from shoal.experiments.bluedove.study import write_study
from shoal.experiments.bluedove.testbed import LoadedCluster, Responses, Setting
from shoal.experiments.bluedove.workload import ATTRIBUTES, Points, Workload, save_points
from shoal.matching.semantics import matches
from shoal.overlays.bluedove.members import MemberTable
from shoal.report.study import read_study
from shoal.report.study_pages import write_pages

# Six milliseconds a subscription: some ten messages a second are too many.
TINY = Setting(matchers=3, subscriptions=40, search_ns=60_000, dispatchers=2)


def run(folder: Path, kind: Kind, **options: object) -> Run:
    setting = msgspec.structs.replace(TINY, **options)  # type: ignore[arg-type]
    return Run(name="tiny", kind=kind, setting=setting, messages=200, cost=1, folder=str(folder))


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trials of a few seconds."""
    monkeypatch.setattr(saturation, "LEAST_TRIAL_S", 2.0)
    monkeypatch.setattr(runs, "KILLS", 1)
    monkeypatch.setattr(runs, "KILL_EVERY_S", 20.0)


@pytest.fixture
def points(tmp_path: Path) -> Path:
    """Real data of two attributes: most values lie together."""
    random = np.random.default_rng(3)
    file = tmp_path / "data" / "points.npz"
    save_points(file, Points(("x", "y"), random.lognormal(2.0, 1.0, (300, 2))))
    return file


@pytest.mark.parametrize("quantiles", [False, True])
@pytest.mark.parametrize("system", SYSTEMS)
def test_every_row_of_real_data_reaches_who_asked_for_it(
    system: str, quantiles: bool, points: Path
) -> None:
    setting = msgspec.structs.replace(
        TINY, system=system, points=str(points), quantiles=quantiles, costs="engine"
    )
    check_deliveries(LoadedCluster(setting))


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_message_reaches_who_asked_for_it(system: str) -> None:
    check_deliveries(LoadedCluster(msgspec.structs.replace(TINY, system=system)))


def check_deliveries(testbed: LoadedCluster) -> None:
    testbed.publish(20, 3)
    testbed.drain()
    assert testbed.backlog == 0
    delivered = {}
    for row in testbed.world.trace.deliveries:
        names = delivered.setdefault(row.publication.key, set())
        names |= set(row.subscriptions)
    assert len(testbed.world.trace.published) == 60
    subscriptions = {
        id: placement.row.subscription.filter
        for home in ("D1", "D2")
        for id, placement in testbed.strategies[home].dispatcher.home._placements.items()
    }
    for row in testbed.world.trace.published:
        attributes = row.publication.attributes
        expected = {id for id, filter in subscriptions.items() if matches(filter, attributes)}
        assert delivered.get(row.publication.key, set()) == expected
    assert delivered
    responses = testbed.responses()
    assert len(responses.took_us) == 60
    assert np.isfinite(responses.took_us).all()
    assert testbed.responses().took_us.size == 0


def test_a_cluster_starts_where_nothing_happens_for_seconds() -> None:
    # Dispatchers take a second for a message; loads are reported, and tables exchanged, rarely.
    slow = msgspec.structs.replace(TINY, slowdown=1_000_000, search_ns=1, report_s=10, gossip_s=10)
    testbed = LoadedCluster(slow)
    assert testbed.backlog == 0
    assert {len(table.serving()) for table in tables(testbed)} == {3}


def tables(testbed: LoadedCluster) -> list[MemberTable]:
    return [testbed.strategies[name].node.table for name in ("D1", "D2")]


@pytest.mark.usefixtures("short")
def test_a_run_is_made_once_and_repeats_to_the_digit(tmp_path: Path) -> None:
    made = run(tmp_path, "rate")
    assert not made.is_done
    made()
    first = made.result
    assert first is not None
    assert first.values["rate_per_s"] > 0
    again = run(tmp_path / "again", "rate")
    again()
    assert again.result == first
    assert not run(tmp_path, "rate", seed=2).is_done


@pytest.mark.usefixtures("short")
def test_matchers_are_missed_and_nothing_is_lost(tmp_path: Path) -> None:
    faults = run(tmp_path, "faults", matchers=8)
    faults()
    assert faults.result is not None
    assert faults.result.values["lost_share"] == 0
    assert faults.result.values["missed"] == faults.result.values["killed"] == 1


def test_workloads_are_skewed_as_asked() -> None:
    even, skewed = (Workload(Random(1), deviation=100.0, adverse=n) for n in (0, 4))
    for workload, least, most in ((even, 250, 330), (skewed, 80, 110)):
        messages = [workload.message() for _ in range(2_000)]
        spread = np.std([message["a2"] for message in messages])
        assert least < spread < most
    filters = [even.filter() for _ in range(500)]
    share = np.mean([matches(filter, {name: 125.0 + 250 * n for n, name in enumerate(ATTRIBUTES)})
                     for filter in filters])  # fmt: skip
    assert share > 0.2


def test_recovery_is_the_time_until_responses_are_normal() -> None:
    times_us = np.arange(0.0, 60e6, 100_000.0)
    took_us = np.where((times_us > 20e6) & (times_us < 27e6), 900_000.0, 100_000.0)
    responses = Responses(times_us, took_us)
    assert recovery_s(responses, 24.0, 30.0) == pytest.approx(3.0, abs=0.6)
    assert recovery_s(responses, 24.0, 2.0) is None
    assert [mean for _, mean in response_series(responses, 10.0)][:2] == [100.0, 100.0]


def test_responses_have_fallen_when_the_longest_is_past() -> None:
    times_us = np.arange(0.0, 60e6, 100_000.0)
    took_us = 100_000 + np.maximum(0, 4e6 - np.abs(times_us - 22e6))
    responses = Responses(times_us, took_us)
    assert fall_s(responses, 20.0, 30.0) == pytest.approx(2.5, abs=0.6)
    assert fall_s(responses, 20.0, 1.5) is None
    assert fall_s(responses, 100.0, 10.0) is None


@pytest.mark.usefixtures("short")
def test_responses_fall_after_a_matcher_was_added(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"ADDITIONS": 1, "FIRST_SHARE": 1.1, "STEP_PER_S": 1, "STEP_S": 6}.items():
        monkeypatch.setattr(runs, name, value)
    made = run(tmp_path, "elasticity", spares=2, slowdown=10, search_ns=600_000)
    made()
    assert made.result is not None
    assert made.result.values["added"] >= 1
    assert made.result.values["lost"] == 0


@pytest.mark.parametrize("name", SCALES)
def test_the_grid_has_every_run_once(name: str, tmp_path: Path) -> None:
    data = [DataFile("flights", tmp_path / "f.npz"), DataFile("positions", tmp_path / "p.npz")]
    names = [made.name for made in grid(SCALES[name], tmp_path, 1, data)]
    assert len(names) == len(set(names))
    assert {rate_name(system, 20) for system in SYSTEMS} <= set(names)
    assert rate_name("bluedove", 100) in names
    assert {rate_name(system, 500) for system in ("bluedove", "peer-to-peer")} <= set(names)
    assert {engine_name(rate_name(system, 20)) for system in SYSTEMS} <= set(names)
    assert data_name("positions", "bluedove", 20, quantiles=True) in names
    sizes = [
        size
        for size in (100, 500)
        if data_name("flights", "bluedove", size, quantiles=True) in names
    ]
    assert sizes == ([100] if name == "small" else [100, 500])
    without = {made.name for made in grid(SCALES[name], tmp_path, 1)}
    assert len(without) == len(names) - 10 - 4 * len(sizes)


def test_a_run_on_other_data_is_another_run(tmp_path: Path, points: Path) -> None:
    before = run(tmp_path, "rate", points=str(points)).key
    moved = points.rename(points.parent.parent / points.name)
    assert run(tmp_path, "rate", points=str(moved)).key == before
    save_points(moved, Points(("x",), np.array([[1.0], [2.0]])))
    assert run(tmp_path, "rate", points=str(moved)).key != before


def fake(name: str, rate: float, **values: float) -> Result:
    return Result(key="", name=name, values={"rate_per_s": rate, **values}, series={})


def test_claims_are_judged_from_the_runs_there_are() -> None:
    scale = SCALES["small"]
    found = judge_all(Evidence({}, scale))
    assert {one.verdict for one in found} == {"not run"}
    results = {
        rate_name("bluedove", 20): fake("", 420.0, load_spread=0.2, overhead_bytes_per_s=2_000.0),
        rate_name("bluedove", 5): fake("", 100.0),
        rate_name("peer-to-peer", 20): fake("", 100.0, load_spread=0.8),
        rate_name("full replication", 20): fake("", 100.0),
    }
    engine = {engine_name(name): result for name, result in results.items() if "full" not in name}
    found = judge_all(Evidence(results | engine, scale))
    again = {one.id: one.verdict for one in found if one.dataset == ENGINE}
    assert again["peers-20"] == "met"
    assert "full-20" not in again
    verdicts = {one.id: one.verdict for one in found if one.dataset == LINEAR}
    assert verdicts["peers-20"] == verdicts["linear"] == "met"
    assert verdicts["overhead"] == "beaten"
    assert verdicts["spread"] == verdicts["full-20"] == "missed"
    assert verdicts["spread-peers"] == "met"
    assert verdicts["random"] == "not run"


def test_the_study_becomes_pages(tmp_path: Path) -> None:
    made = grid(SCALES["small"], tmp_path / "runs", 1)
    for one in made[:3]:
        one.file.parent.mkdir(parents=True, exist_ok=True)
        result = Result(
            key=one.key, name=one.name, values={"rate_per_s": 5.0}, series={"below": [(0.0, 1.0)]}
        )
        one.file.write_bytes(msgspec.json.encode(result))
    write_study(tmp_path, made, SCALES["small"], ["flights"])
    write_pages(tmp_path, read_study(tmp_path / "study.json"))
    text = (tmp_path / "RESULTS.md").read_text(encoding="utf-8")
    assert "not run" in text
    assert "| flights | 20 | quantiles |" in text
    assert "| flights | 100 | quantiles |" in text
    assert "one at a time" in text
    assert (tmp_path / "figures" / "figure-6a.svg").is_file()
