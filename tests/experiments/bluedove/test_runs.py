"""The evaluation's runs at minimal size, and the conclusions from results."""

from __future__ import annotations

from pathlib import Path
from random import Random

import msgspec
import numpy as np
import pytest

from shoal.experiments.bluedove import runs
from shoal.experiments.bluedove.claims import (
    CUT,
    ENGINE,
    LINEAR,
    RARE,
    SINGLE,
    judge_all,
)
from shoal.experiments.bluedove.evidence import BlueDoveEvidence
from shoal.experiments.bluedove.grid import (
    SCALES,
    SYSTEMS,
    DataFile,
    adverse_name,
    data_name,
    deviation_name,
    engine_name,
    evenest_name,
    grid,
    policy_name,
    prefixed,
    rate_name,
    reports_name,
)
from shoal.experiments.bluedove.page import conclude
from shoal.experiments.bluedove.runs import (
    BlueDoveResult,
    ClusterRun,
    Kind,
    cluster_run,
    fall_s,
    improvement_ms,
    recovery_s,
    response_series,
)
from shoal.experiments.bluedove.testbed import saturation
from shoal.experiments.bluedove.testbed.testbed import BlueDoveSetting, LoadedCluster, Responses
from shoal.experiments.bluedove.testbed.workload import (
    ATTRIBUTES,
    BlueDoveWorkload,
    Drawing,
    Points,
    save_points,
)
from shoal.experiments.studies.runs import write_summary
from shoal.experiments.studies.study import write_conclusion
from shoal.matching.segments import Dimension
from shoal.matching.semantics import matches
from shoal.overlays.bluedove.cluster.forwarding import Policy
from shoal.overlays.bluedove.cluster.members import MemberTable
from shoal.report.study import read_study
from shoal.report.study_pages import write_pages

# Six milliseconds a subscription: some ten messages a second are too many.
TINY = BlueDoveSetting(matchers=3, subscriptions=40, search_ns=60_000, dispatchers=2)


def run(folder: Path, kind: Kind, **options: object) -> ClusterRun:
    setting = msgspec.structs.replace(TINY, **options)  # type: ignore[arg-type]
    return cluster_run("tiny", kind, setting, messages=20, cost=1, folder=str(folder))


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trials of a few seconds."""
    monkeypatch.setattr(saturation, "LEAST_TRIAL_S", 2.0)
    monkeypatch.setattr(saturation, "LEAST_REPORTS", 2)
    monkeypatch.setattr(runs, "KILLS", 1)
    monkeypatch.setattr(runs, "KILL_EVERY_S", 20.0)


@pytest.fixture
def points(tmp_path: Path) -> Path:
    """Real data of two attributes, most values of which lie together."""
    random = np.random.default_rng(3)
    file = tmp_path / "data" / "points.npz"
    save_points(file, Points(("x", "y"), random.lognormal(2.0, 1.0, (300, 2))))
    return file


@pytest.mark.parametrize("quantiles", [False, True])
@pytest.mark.parametrize("system", SYSTEMS)
def test_every_row_of_real_data_reaches_its_subscribers(
    system: str, quantiles: bool, points: Path
) -> None:
    setting = msgspec.structs.replace(
        TINY, system=system, points=str(points), quantiles=quantiles, costs="engine"
    )
    check_deliveries(LoadedCluster(setting, is_whole=True))


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_message_reaches_its_subscribers(system: str) -> None:
    setting = msgspec.structs.replace(TINY, system=system)
    check_deliveries(LoadedCluster(setting, is_whole=True))


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


def test_a_cluster_starts_with_slow_dispatchers_and_rare_reports() -> None:
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
    first = made.summary
    assert first is not None
    assert first.values["rate_per_s"] > 0
    again = run(tmp_path / "again", "rate")
    again()
    assert again.summary == first
    assert not run(tmp_path, "rate", seed=2).is_done


@pytest.mark.usefixtures("short")
def test_dead_matchers_are_noticed_and_nothing_is_lost(tmp_path: Path) -> None:
    faults = run(tmp_path, "faults", matchers=8)
    faults()
    assert faults.summary is not None
    assert faults.summary.values["lost_share"] == 0
    assert faults.summary.values["missed"] == faults.summary.values["killed"] == 1


def test_workloads_are_skewed_as_asked() -> None:
    even, skewed = (BlueDoveWorkload(Random(1), deviation=100.0, adverse=n) for n in (0, 4))
    for workload, least, most in ((even, 250, 330), (skewed, 80, 110)):
        messages = workload.messages(2_000)
        spread = np.std(messages[:, 1])
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
    assert improvement_ms(responses, 20.0, 30.0) == pytest.approx(4_000, rel=0.1)
    assert improvement_ms(responses, 100.0, 10.0) is None


@pytest.mark.usefixtures("short")
def test_responses_fall_after_a_matcher_was_added(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"ADDITIONS": 1, "FIRST_PER_S": 2_260, "STEP_PER_S": 1}.items():
        monkeypatch.setattr(runs, name, value)
    made = run(tmp_path, "elasticity", spares=2, slowdown=10, search_ns=600_000, step_s=6)
    made()
    assert made.summary is not None
    assert made.summary.values["added"] >= 1
    assert made.summary.values["lost"] == 0


@pytest.mark.parametrize("name", SCALES)
def test_the_grid_has_every_run_once(name: str, tmp_path: Path) -> None:
    data = [DataFile(name, tmp_path / f"{name}.npz") for name in ("flights", "positions")]
    for one in data:
        save_points(one.file, Points(("x",), np.array([[1.0], [2.0]])))
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


def fake(rate: float, /, **values: float) -> BlueDoveResult:
    return BlueDoveResult(key="", name="", values={"rate_per_s": rate, **values}, series={})


def timed(**series: list[tuple[float, float | None]]) -> BlueDoveResult:
    counts = dict.fromkeys(("added", "fallen", "recovered"), 3.0)
    return BlueDoveResult(key="", name="", values=counts, series=series)


SCALE = SCALES["small"]
WHOLE, PEERS, FULL = (rate_name(system, 20) for system in SYSTEMS)
AMOUNT = policy_name(Policy.SUBSCRIPTIONS)


def verdicts(results: dict[str, BlueDoveResult], reading: str = LINEAR) -> dict[str, str]:
    found = judge_all(BlueDoveEvidence(results, SCALE))
    return {one.id: one.verdict for one in found
            if one.dataset == reading and one.verdict != "not run"}  # fmt: skip


def test_claims_are_judged_from_the_runs_there_are() -> None:
    assert verdicts({}) == {}
    results = {
        WHOLE: fake(420.0, load_spread=0.2, overhead_bytes_per_s=2_000.0),
        rate_name("bluedove", 5): fake(100.0),
        PEERS: fake(100.0, load_spread=0.8),
        FULL: fake(100.0),
        policy_name(Policy.RANDOM): fake(125.0),
    }
    engine = {engine_name(name): result for name, result in results.items() if "full" not in name}
    again = verdicts(results | engine, ENGINE)
    assert again["peers-20"] == "met"
    assert "full-20" not in again
    found = verdicts(results)
    assert found["peers-20"] == found["linear"] == "met"
    assert found["overhead"] == "beaten"
    assert found["spread"] == found["full-20"] == "missed"
    assert found["spread-peers"] == "met"
    assert found["random"] == "missed"
    assert CUT not in {one.dataset for one in judge_all(BlueDoveEvidence(results, SCALE))}
    cut = {prefixed("cut", name): result for name, result in results.items()}
    assert verdicts(results | cut, CUT)["peers-20"] == "met"


def test_rare_reports_change_only_policies_that_use_them() -> None:
    results = {
        WHOLE: fake(420.0),
        PEERS: fake(100.0),
        reports_name(Policy.ADAPTIVE): fake(200.0),
    }
    found = {
        one.id: one.ours
        for one in judge_all(BlueDoveEvidence(results, SCALE))
        if one.dataset == RARE
    }
    assert found["peers-20"].startswith("2 times")
    assert verdicts({WHOLE: fake(420.0), PEERS: fake(100.0)}, RARE) == {}


@pytest.mark.parametrize(
    ("name", "results", "verdict"),
    [
        ("peers-20", {WHOLE: fake(4.0), PEERS: fake(1.0)}, "missed"),
        ("peers-20", {WHOLE: fake(4.5), PEERS: fake(1.0)}, "met"),
        ("peers-20", {WHOLE: fake(7.5), PEERS: fake(1.0)}, "beaten"),
        ("peers-20", {WHOLE: fake(4.5), PEERS: fake(0.5), evenest_name(20): fake(1.0)}, "met"),
        ("peers-20", {WHOLE: fake(4.5), PEERS: fake(1.0), evenest_name(20): fake(2.0)}, "missed"),
        ("rate-peers", {PEERS: fake(25_000.0)}, "not comparable"),
        ("subscription-amount", {WHOLE: fake(1.16), AMOUNT: fake(1.0)}, "met"),
        ("subscription-amount", {WHOLE: fake(1.14), AMOUNT: fake(1.0)}, "missed"),
        ("response-amount", {policy_name(Policy.RESPONSE_TIME): fake(1.0),
                             policy_name(Policy.SUBSCRIPTIONS): fake(1.0)}, "missed"),
        ("response-amount", {policy_name(Policy.RESPONSE_TIME): fake(1.25),
                             policy_name(Policy.SUBSCRIPTIONS): fake(1.0)}, "missed"),
        ("rate-20", {WHOLE: fake(118_000.0)}, "not comparable"),
        ("rate-20", {WHOLE: fake(190_000.0)}, "not comparable"),
        ("spread", {WHOLE: fake(1.0, load_spread=0.137)}, "met"),
        ("spread", {WHOLE: fake(1.0, load_spread=0.1)}, "beaten"),
        ("spread-peers", {PEERS: fake(1.0, load_spread=0.5)}, "missed"),
        ("spread-peers", {PEERS: fake(1.0, load_spread=1.0)}, "missed"),
        ("spread-peers", {PEERS: fake(1.0, load_spread=1.0),
                          evenest_name(20): fake(1.0, load_spread=0.8)}, "met"),
        ("deviation", {WHOLE: fake(100.0), deviation_name(1_000.0): fake(38.0)}, "missed"),
        ("deviation", {WHOLE: fake(100.0), deviation_name(1_000.0): fake(62.0)}, "met"),
        ("deviation", {WHOLE: fake(100.0), deviation_name(1_000.0): fake(80.0)}, "beaten"),
        ("adverse-peers", {PEERS: fake(30.0), adverse_name(4): fake(40.0)}, "missed"),
        ("adverse-peers", {PEERS: fake(30.0), adverse_name(4): fake(52.0)}, "met"),
        ("amount-random", {policy_name(Policy.SUBSCRIPTIONS): fake(30.0),
                           policy_name(Policy.RANDOM): fake(10.0)}, "met"),
        ("amount-random", {policy_name(Policy.SUBSCRIPTIONS): fake(20.0),
                           policy_name(Policy.RANDOM): fake(10.0)}, "missed"),
        ("third", {"elasticity": timed(improvement=[(1, 90.0), (2, 70.0), (3, 60.0)])}, "met"),
        ("third", {"elasticity": timed(improvement=[(1, 90.0), (2, 70.0), (3, 99.0)])}, "missed"),
        ("loss", {"faults": timed(loss=[(1, 0.0)], killed=[(1, 0.0)])}, "beaten"),
        ("loss", {"faults": timed(loss=[(1, 0.05)], killed=[(1, 0.0)])}, "met"),
        ("loss", {"faults": timed(loss=[(1, 0.1)], killed=[(1, 0.0)])}, "missed"),
        ("loss-ends", {"faults": timed(loss=[(n, 0.1) for n in range(20)], killed=[(1, 0.0)])},
         "missed"),
        ("slower", {"faults": timed(response=[(0, 10.0), (2, 15.0)], killed=[(1, 0.0)])}, "met"),
        ("slower", {"faults": timed(response=[(0, 10.0), (2, 25.0)], killed=[(1, 0.0)])},
         "missed"),
        ("constant", {WHOLE: timed(below=[(n, 100.0) for n in range(9)])}, "met"),
        ("constant", {WHOLE: timed(below=[(n, 100.0 * 2**n) for n in range(9)])}, "missed"),
        ("growing", {WHOLE: timed(above=[(n, 100.0 * n) for n in range(9)])}, "met"),
        ("growing", {WHOLE: timed(above=[(n, 100.0) for n in range(8)] + [(8, 90.0)])}, "missed"),
    ],
)  # fmt: skip
def test_figures_on_both_sides_of_a_band_have_different_verdicts(
    name: str, results: dict[str, BlueDoveResult], verdict: str
) -> None:
    assert verdicts(results)[name] == verdict


def test_rows_that_depend_on_fresh_reports_are_marked() -> None:
    readings = {one.id: one.reading for one in judge_all(BlueDoveEvidence({}, SCALE))}
    named = ("peers-20", "full-20", "response-time", "random", "deviation", "dimensions", "slower")
    for name in named:
        assert "400 times as fresh" in readings[name]
    assert "100 times as fresh" in readings["fall"]
    assert "100 times as fresh" in readings["third"]
    assert "fresh" not in readings["rate-peers"] + readings["amount-random"]


def test_each_reading_has_the_age_of_its_reports() -> None:
    adaptive, random = reports_name(Policy.ADAPTIVE), policy_name(Policy.RANDOM)
    results = {name: fake(4.0) for name in (WHOLE, PEERS, adaptive, random)}
    for reading in ("cut", "single", "engine"):
        results |= {prefixed(reading, name): fake(4.0) for name in (WHOLE, PEERS)}
    found = judge_all(BlueDoveEvidence(results, SCALE))
    said = {one.dataset: one.reading.split(" times")[0] for one in found if one.id == "peers-20"}
    assert said == {
        LINEAR: "reports 400",
        CUT: "reports 400",
        SINGLE: "reports 4,000",
        RARE: "reports 40",
        ENGINE: "reports 20,000",
    }
    assert "every 10 s" in next(one for one in found if one.dataset == RARE).reading
    # Policies without loads are judged once.
    assert {one.dataset for one in found if one.id == "rate-peers"} == {LINEAR, CUT, SINGLE, ENGINE}


@pytest.mark.parametrize("drawing", ["moved", "cut", "single"])
def test_subscriptions_are_distributed_as_drawn(drawing: Drawing) -> None:
    workload = BlueDoveWorkload(Random(1), deviation=250.0, adverse=0, drawing=drawing, segments=20)
    rows = []
    for _ in range(100):
        filter = workload.filter()
        for name in ATTRIBUTES:
            (found,) = Dimension(attribute=name).ranges(filter)
            rows.append((found.low, found.high))
    lows, highs = np.array(rows).T
    lengths = highs - lows
    assert (lows >= 0).all()
    assert (highs <= 1_000).all()
    if drawing == "moved":
        assert lengths == pytest.approx(250, abs=0.01)
    elif drawing == "cut":
        assert lengths.max() == pytest.approx(250, abs=0.01)
        assert 125 - 0.01 < lengths.min() < 200
    else:
        assert lengths == pytest.approx(10, abs=0.01)
        assert (lows // 50 == highs // 50).all()


def test_the_study_becomes_pages(tmp_path: Path) -> None:
    made = grid(SCALES["small"], tmp_path / "runs", 1)
    for one in made[:3]:
        result = BlueDoveResult(
            key=one.key, name=one.name, values={"rate_per_s": 5.0}, series={"below": [(0.0, 1.0)]}
        )
        write_summary(Path(one.file), result)
    write_conclusion(tmp_path, conclude(made, SCALES["small"], ["flights"]))
    write_pages(tmp_path, read_study(tmp_path / "study.json"))
    text = (tmp_path / "RESULTS.md").read_text(encoding="utf-8")
    assert "not run" in text
    assert "| flights | 20 | quantiles |" in text
    assert "| flights | 100 | quantiles |" in text
    assert "one at a time" in text
    assert (tmp_path / "figures" / "figure-6a.svg").is_file()
