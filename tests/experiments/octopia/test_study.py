"""OctopiA's study: figures of runs, calculated where possible, and the judges' verdicts."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from shoal.broker.effects import LinkLoad, Loads
from shoal.experiments.octopia.claims import CLAIMS
from shoal.experiments.octopia.evidence import OctopiaEvidence
from shoal.experiments.octopia.grid import SCALES, OctopiaSetting, grid
from shoal.experiments.octopia.measures import CountingDeliveries, Queues
from shoal.experiments.octopia.network import draw_clients, overlay
from shoal.experiments.octopia.page import conclude
from shoal.experiments.octopia.runs import OctopiaMeasures, OctopiaRun, study_runs
from shoal.experiments.studies.claims import judge_claims
from shoal.experiments.studies.runs import write_summary
from shoal.experiments.studies.study import write_conclusion
from shoal.model import Publication
from shoal.simulation.trace import DeliveryEvent
from tests.examples import one_in

ROWS = [[{"symbol": f"X{number}", "close": 1.0}] for number in range(3)]


def run(tmp_path: Path, setting: OctopiaSetting) -> OctopiaMeasures:
    file = tmp_path / "data.json"
    file.write_text(json.dumps(ROWS), encoding="utf-8")
    made = OctopiaRun(
        key="k", file=str(tmp_path / "run.json"), name="n", cost=1.0, data="quotes",
        setting=setting, scale=100, file_of_data=str(file),
    )  # fmt: skip
    made()
    found = made.summary
    assert found is not None
    return found


def test_an_advertisement_takes_the_calculated_messages(tmp_path: Path) -> None:
    """2 * 205 - 70 + 1 by flooding, to the four others of its region in OctopiA."""
    messages = {}
    for way in ("tid", "ordered"):
        setting = OctopiaSetting(part="publishers", way=way, seed=1, count=10)  # type: ignore[arg-type]
        figures = run(tmp_path, setting).figures
        messages[way] = figures["messages"], figures["srt"]
    assert messages == {"tid": (341, 10), "ordered": (4, pytest.approx(10 * 5 / 70))}


def test_a_subscription_goes_to_its_cluster(tmp_path: Path) -> None:
    setting = OctopiaSetting(part="subscribers", way="ordered", seed=1, count=50)
    figures = run(tmp_path, setting).figures
    assert figures["prt"] == 10
    assert 13 <= figures["messages"] <= 21  # and bits that were set


def test_advertisements_that_meet_have_longer_trees(tmp_path: Path) -> None:
    """Section II: load on the links turns an advertisement aside, and TID's tables grow by it.

    OctopiA's clusters keep all subscriptions, whatever the links carried.
    """
    rows = {}
    for way in ("tid", "ordered"):
        for every_us in (20_000, 2_000):
            setting = OctopiaSetting(
                part="loaded", way=way, seed=1, count=100, advertising_us=every_us  # type: ignore[arg-type]
            )  # fmt: skip
            rows[way, every_us] = run(tmp_path, setting).figures["prt"]
    assert rows["tid", 2_000] > 1.1 * rows["tid", 20_000]
    assert rows["ordered", 2_000] == rows["ordered", 20_000] == 20


def test_churn_in_a_cluster_is_counted_there_and_elsewhere(tmp_path: Path) -> None:
    """OctopiA floods a cluster of 14 brokers both times: 26 messages, and bits beside them."""
    figures = {
        setting.way: run(tmp_path, setting).figures
        for setting in grid(SCALES["small"], 1)
        if setting.part == "churn"
    }
    assert 26 <= figures["ordered"]["messages"] < 27
    assert figures["ordered"]["outside"] < 0.05
    assert figures["tid"]["outside"] > 0.5


def test_windows_without_traffic_count_in_the_mean_of_a_queue() -> None:
    queues = Queues("B1", ["B2"], 1_000)
    for at_us, waiting in ((500, 9), (1_000, 0), (1_050, 4), (1_100, 0), (1_300, 7)):
        queues.loads("B1", Loads({"B2": LinkLoad(0, 0, waiting)}), at_us)
    assert queues.mean_until(200) == 4 * 50 / 200


@pytest.mark.parametrize("way", one_in(2, ["snr", "steady", "ordered", "spread", "tid-dynamic"]))
def test_a_burst_reaches_all_subscribers(tmp_path: Path, way: str) -> None:
    setting = OctopiaSetting(
        part="burst", way=way, seed=1, count=20, burst=100, beside=1, clusters=2  # type: ignore[arg-type]
    )  # fmt: skip
    found = run(tmp_path, setting)
    assert found.figures["missing"] == 0
    assert found.figures["overtaken"] == 0 or way in ("steady", "spread")
    assert max(found.series) == found.figures["most_s"] > 0.5


def test_a_host_that_sends_one_copy_at_a_time_gains_by_sending_fewer(tmp_path: Path) -> None:
    """As the paper says of IDR; where each link sends independently the gain is next to nothing."""
    gains = {}
    for shared, output_us in ((True, 2_000), (False, 10_000)):
        delays = {}
        for way in ("snr", "idr"):
            setting = OctopiaSetting(
                part="burst", way=way, seed=1, count=20, burst=200,  # type: ignore[arg-type]
                shared=shared, output_us=output_us, matched=100,
            )  # fmt: skip
            found = run(tmp_path, setting).figures
            assert found["missing"] == 0
            delays[way] = found["burst_mean_s"]
        gains[shared] = 1 - delays["idr"] / delays["snr"]
    assert gains[True] > 0.1 > gains[False]


def test_subscribers_elsewhere_lose_nothing_when_brokers_die(tmp_path: Path) -> None:
    setting = OctopiaSetting(
        part="failures", way="ordered", seed=1, count=100, clusters=2, beside=40, output_us=200
    )
    figures = run(tmp_path, setting).figures
    assert figures["expected"] > 100
    assert figures["lost"] == 0


def test_deliveries_are_counted() -> None:
    deliveries = CountingDeliveries(first_burst=1)
    for sequence, source, at_us in ((0, 0, 500_000), (2, 1, 1_500_000), (1, 1, 2_500_000)):
        publication = Publication(
            publisher=f"P{source}", sequence=sequence, published_us=0, attributes={"source": source}
        )
        deliveries.append(DeliveryEvent(publication, (), "S", "B", at_us, 1))
    figures, series = deliveries.figures(from_us=0, consecutive=2)
    assert series == [1.5, 2.5]
    assert figures == {
        "mean_s": 1.5, "burst_mean_s": 2.0, "beside_mean_s": 0.5, "most_s": 2.5,
        "within_1_s": pytest.approx(1 / 3), "stable_s": 2.5, "overtaken": pytest.approx(1 / 3),
    }  # fmt: skip


def test_a_bursts_subscribers_are_in_every_cluster_but_not_at_its_host() -> None:
    product = overlay(5)
    clients = draw_clients(OctopiaSetting(part="burst", way="snr", seed=3, burst=1), product)
    _, host = clients.publishers[-1]
    homes = [home for subscription, home in clients.subscribers[2_000:]]
    assert len(homes) == 40
    assert sum(clients.wanted_by[100]) == 40 * 50  # half of its publications each
    assert min(clients.wanted_by[100]) > 10
    assert max(clients.wanted_by[100]) < 30
    assert host not in homes
    assert {product.position(home).cluster for home in homes} == set(range(5))
    assert product.position(host).region >= 4
    assert sum(map(sum, clients.wanted_by.values())) == 50 * (2 * 2_000 + 40)


NAMES = (
    "delay_ms", "messages", "outside", "srt", "prt", "mean_s", "burst_mean_s", "most_s", "stable_s",
    "copies", "within_1_s", "waiting", "overtaken", "missing", "lost", "expected", "repaired_s",
)  # fmt: skip


def _measured(setting: OctopiaSetting, **figures: float) -> OctopiaMeasures:
    known = {name: float(number + 1) for number, name in enumerate(NAMES)} | figures
    return OctopiaMeasures(key="", data="quotes", setting=setting, figures=known, series=[1.0])


def test_judges_compare_ways() -> None:
    burst = OctopiaSetting(part="burst", way="snr", seed=1)
    found = [
        _measured(msgspec.structs.replace(burst, way=way), mean_s=mean, burst_mean_s=mean)
        for way, mean in (("snr", 10.0), ("idr", 8.2), ("steady", 8.0), ("ordered", 8.3))
    ]
    by_id = {
        one.id: one for one in judge_claims(CLAIMS, OctopiaEvidence(found, "quotes"), "quotes")
    }
    assert (by_id["delay-100"].verdict, by_id["delay-100"].ours) == (
        "direction only",
        "18 % less",
    )
    assert by_id["order"].verdict == "met"
    assert by_id["order"].ours == "3.8 % more at 100,000 a minute"
    assert by_id["steady"].verdict == "met"
    assert by_id["9a"].verdict == by_id["delay-60"].verdict == "not run"


@pytest.mark.parametrize(
    ("means", "verdict"), [((9.93, 9.95, 9.97), "missed"), ((9.933, 9.932, 9.931), "missed"),
                           ((9.97, 9.95, 9.93), "met")]
)  # fmt: skip
def test_gains_that_read_alike_have_not_fallen(means: tuple[float, ...], verdict: str) -> None:
    found = [
        _measured(OctopiaSetting(part="burst", way=way, seed=1, rate=rate), mean_s=mean)  # type: ignore[arg-type]
        for rate, ours in zip((60_000, 80_000, 100_000), means, strict=True)
        for way, mean in (("snr", 10.0), ("idr", ours))
    ]
    by_id = {
        one.id: one for one in judge_claims(CLAIMS, OctopiaEvidence(found, "quotes"), "quotes")
    }
    assert by_id["lower-rates"].verdict == verdict


def test_every_claim_has_a_verdict_with_all_runs(tmp_path: Path) -> None:
    """With a figure for everything no claim is left without a verdict."""
    for scale in SCALES.values():
        found = [_measured(setting) for setting in grid(scale, 1)]
        judged = judge_claims(CLAIMS, OctopiaEvidence(found, "quotes"), "quotes")
        assert [one.id for one in judged if one.verdict == "not run"] == []
    file = tmp_path / "data.json"
    file.write_text("[]", encoding="utf-8")
    runs = study_runs(SCALES["small"], {"quotes": file, "flights": file}, tmp_path, 1)
    assert len({each.key for each in runs}) == len({each.file for each in runs}) == len(runs)


def test_missing_runs_are_reported(tmp_path: Path) -> None:
    file = tmp_path / "data.json"
    file.write_text("[]", encoding="utf-8")
    runs = study_runs(SCALES["small"], {"quotes": file}, tmp_path, 1)
    none = conclude(runs, SCALES["small"], {"quotes": "some quotes"})
    assert {one.verdict for one in none.report.claims} == {"not run"}
    for run in runs:
        if run.setting.part == "burst":
            summary = _measured(run.setting)
            write_summary(Path(run.file), msgspec.structs.replace(summary, key=run.key))
    some = conclude(runs, SCALES["small"], {"quotes": "some quotes"})
    assert "not run" in {one.verdict for one in some.report.claims} > {"not run"}
    assert [len(table.rows) for table in some.report.tables] == [21]
    assert sum(len(figure.lines) for figure in some.report.groups[0].figures) == 21
    assert {one.id for one in write_conclusion(tmp_path, some)} == {one.id for one in CLAIMS}
