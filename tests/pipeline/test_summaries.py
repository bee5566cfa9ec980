"""The summary of a small run equals the calculated figures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from shoal.experiments.runs.run_totals import RunTotals
from shoal.experiments.runs.runner import RunResult
from shoal.experiments.runs.seeds import figures_of
from shoal.experiments.scenarios.scenario import parse_scenario
from shoal.frames.errors import TableError
from shoal.pipeline.schemas import TRUTH
from shoal.pipeline.summaries import write_small_summary, write_summary
from shoal.pipeline.tables import write_table
from tests.experiments.written_runs import write_run

SECOND_US = 1_000_000

BROKERS = [("B1", None, None, None), ("B2", None, None, None)]
# Six seconds of publishing, from second 10: the windows 10 to 15.
PUBLICATIONS = [
    ("P", 0, 10 * SECOND_US, "B1"),
    ("P", 1, 12 * SECOND_US, "B1"),
    ("P", 2, 15 * SECOND_US, "B2"),
]
# Publication 0 as expected; 1 doubled; 2 lost for S1, and a phantom for S2.
DELIVERIES = [
    ("P", 0, "S1", "C1", "B2", 10 * SECOND_US, 10 * SECOND_US + 30_000, 1),
    ("P", 1, "S1", "C1", "B2", 12 * SECOND_US, 12 * SECOND_US + 10_000, 1),
    ("P", 1, "S1", "C1", "B2", 12 * SECOND_US, 12 * SECOND_US + 20_000, 1),
    ("P", 2, "S2", "C2", "B2", 15 * SECOND_US, 15 * SECOND_US + 40_000, 0),
]
TRUTH_ROWS = [("P", 0, "S1"), ("P", 1, "S1"), ("P", 2, "S1"), ("P", 9, "S1")]
LOAD = [
    # Before and after publishing: counts for costs only.
    ("B1", 0, 100, 100, 100, 100, 500_000, 500_000, 0, 0),
    ("B1", 16 * SECOND_US, 100, 100, 100, 100, 500_000, 500_000, 0, 0),
    ("B1", 10 * SECOND_US, 5, 7, 1, 1, 60_000, 30_000, 0, 0),
    ("B2", 15 * SECOND_US, 4, 8, 0, 2, 120_000, 30_000, 0, 4),
]
CONTROL = [
    ("B1", 0, "Subscribe", 70, 4_000, 0),
    ("B1", 0, "Advertise", 20, 1_000, 0),
    ("B1", 16 * SECOND_US, "Unsubscribe", 99, 3_000, 0),
    ("B1", 16 * SECOND_US, "Matched", 1, 500, 2),
    ("B2", 15 * SECOND_US, "Subscribe", 1, 60, 0),
    ("B1", 10 * SECOND_US, "Subscribe", 1, 40, 0),
]
SELECTIONS = [("P", "B1", 0, 100, 300, 400, 2, "B2", 9.0, 6.0, None, None, 40, None)]
SUBSCRIBER_SELECTIONS = [("C1", "B2", 14_000_000, 10, 2, "B1", 1.0, 0.0, 9.0, 8.0, 80)]
SUBSCRIBER_MOVES = [("C1", "S1", "B2", "B1", 14_000_000, 24_000_000)]
MIGRATIONS = [("P", "B1", "B2", 1, 13 * SECOND_US, 13 * SECOND_US + 70_000)]

RUN = {
    "brokers": BROKERS,
    "links": [("B1", "B2")],
    "publications": PUBLICATIONS,
    "deliveries": DELIVERIES,
    "load": LOAD,
    "control": CONTROL,
    "selections": SELECTIONS,
    "migrations": MIGRATIONS,
    "subscriber_selections": SUBSCRIBER_SELECTIONS,
    "subscriber_moves": SUBSCRIBER_MOVES,
}


def make_run(folder: Path, rows: dict[str, list[tuple[Any, ...]]]) -> Path:
    scenario = parse_scenario({"name": "by hand", "workload": {"path": str(folder)}})
    write_run(folder, rows, {"seed": 1, "subscriptions": 4}, scenario)
    return folder


def by_both(spark: SparkSession, folders: Sequence[Path], root: Path) -> dict[str, Any]:
    """The summary by Spark, which is the one that is made without it."""
    write_table(spark.createDataFrame(TRUTH_ROWS, TRUTH), root / "truth")
    write_small_summary(folders, root / "truth", root / "small", window_us=5 * SECOND_US)
    write_summary(spark, folders, root / "truth", root / "spark", window_us=5 * SECOND_US)
    found = {}
    for name in ("runs", "brokers", "timeline", "moves", "costs"):
        small, by_spark = (
            pq.read_table(root / each / f"{name}.parquet") for each in ("small", "spark")
        )
        assert (small.column_names, small.schema.types) == (
            by_spark.column_names,
            by_spark.schema.types,
        )
        found[name] = by_spark.to_pylist()
        assert small.to_pylist() == found[name], name
    return found


@pytest.fixture(scope="module")
def summary(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    root = tmp_path_factory.mktemp("summary")
    moves = ("selections", "migrations", "subscriber_selections", "subscriber_moves")
    quiet = RUN | {name: [] for name in ("deliveries", *moves)}
    late = [("P", 2, 60 * SECOND_US, "B2")]
    idle = RUN | {
        "publications": [*PUBLICATIONS[:2], *late],
        "deliveries": DELIVERIES[:1],
        "load": [LOAD[2], ("B2", 60 * SECOND_US, 4, 8, 0, 2, 120_000, 30_000, 0, 0)],
    }
    spared = RUN | {"conflated": [("S1", 2, 1, 0)]}
    # S1 is away while the last publication is made.
    timed = RUN | {"subscribed": [("S1", 0, 13 * SECOND_US), ("S1", 16 * SECOND_US, None)]}
    runs = {"first": RUN, "idle": idle, "silent": quiet, "spared": spared, "timed": timed}
    folders = [make_run(root / name, rows) for name, rows in runs.items()]
    return by_both(spark, folders, root)


def test_deliveries_are_compared_with_the_truth_pair_by_pair(summary: dict[str, Any]) -> None:
    first, _, silent, spared, timed = summary["runs"]
    verdict = ("expected", "delivered", "lost", "duplicated", "phantom")
    assert [timed[name] for name in verdict] == [2, 4, 0, 1, 1]
    assert [spared[name] for name in verdict] == [3, 4, 0, 1, 1]
    assert (spared["spared"], first["spared"]) == (1, None)
    assert (first["run"], silent["run"]) == ("first", "silent")
    # The truth of publication 9, which the run did not have, does not count.
    assert [first[name] for name in verdict] == [3, 4, 1, 1, 1]
    assert [silent[name] for name in verdict] == [3, 0, 3, 0, 0]
    # All subscriptions, not only those with deliveries.
    assert (first["publications"], first["publishers"], first["subscriptions"]) == (3, 1, 4)


def test_rates_count_the_windows_in_which_there_were_publications(summary: dict[str, Any]) -> None:
    first = summary["runs"][0]
    broker_seconds = 2 * 6
    assert first["message_rate_per_s"] == pytest.approx(9 / broker_seconds)
    assert first["output_rate_per_s"] == pytest.approx(15 / broker_seconds)
    assert first["input_utilisation"] == pytest.approx(0.18 / broker_seconds)
    assert first["output_utilisation"] == pytest.approx(0.06 / broker_seconds)
    assert first["message_overhead"] == pytest.approx(4 / 24)
    # The last third: two seconds, in which only B2 worked.
    assert first["settled_message_rate_per_s"] == pytest.approx(4 / 4)
    brokers = {row["broker"]: row for row in summary["brokers"] if row["run"] == "first"}
    assert brokers["B1"]["message_rate_per_s"] == pytest.approx(5 / 6)
    assert brokers["B2"]["input_utilisation"] == pytest.approx(0.12 / 6)


def test_costs_count_the_whole_run_by_phase_and_kind(summary: dict[str, Any]) -> None:
    first = summary["runs"][0]
    costs = ("messages", "control_messages", "control_bytes", "set_up_messages")
    assert [first[name] for name in costs] == [215, 192, 8_600, 90]
    assert first["whole_overhead"] == pytest.approx((203 - 1) / 215)
    # 0 and 1 went from B1 to B2; 2 stayed.
    assert (first["transfers"], first["least_transfers"]) == (215 - 203 - 4 + 2, 2)
    rows = [row for row in summary["costs"] if row["run"] == "first"]
    assert [tuple(row.values())[1:] for row in rows] == [
        ("set-up", "notice", 10, None),
        ("set-up", "Advertise", 20, 1_000),
        ("set-up", "Subscribe", 70, 4_000),
        ("publishing", "publication to a broker", 8, None),
        ("publishing", "publication to a client", 4, None),
        ("publishing", "notice", 1, None),
        ("publishing", "Subscribe", 2, 100),
        ("after", "Matched", 1, 500),
        ("after", "Unsubscribe", 99, 3_000),
    ]
    assert sum(row["messages"] for row in rows) == first["messages"]


def test_delays_hops_and_moves(summary: dict[str, Any]) -> None:
    first, _, silent, *_ = summary["runs"]
    assert first["delay_mean_us"] == pytest.approx(25_000)
    assert first["delay_p50_us"] == pytest.approx(25_000)
    assert first["delay_p99_us"] == pytest.approx(39_700)
    assert first["hops_mean"] == pytest.approx(0.75)
    assert (first["settled_delay_mean_us"], first["settled_hops_mean"]) == (40_000, 0)
    assert (first["migrations"], first["publisher_wait_mean_us"]) == (1, 70_000)
    assert first["selection_time_mean_us"] == 300
    assert (first["subscriber_moves"], first["weight_mean"]) == (1, 60)
    assert (silent["subscriber_moves"], silent["weight_mean"]) == (0, None)
    assert silent["delay_mean_us"] is None
    assert (silent["migrations"], silent["publisher_wait_mean_us"]) == (0, None)
    move = {"publisher": "P", "first_broker": "B1", "last_broker": "B2"}
    assert summary["moves"] == [
        {"run": "first"} | move | {"moves": 1, "waited_us": 70_000},
        {"run": "idle"} | move | {"moves": 1, "waited_us": 70_000},
        {"run": "silent"} | move | {"moves": 0, "waited_us": 0},
        {"run": "spared"} | move | {"moves": 1, "waited_us": 70_000},
        {"run": "timed"} | move | {"moves": 1, "waited_us": 70_000},
    ]


def test_figures_of_seeds_mean_the_same(summary: dict[str, Any]) -> None:
    """The simulator computes them without Spark."""
    totals = RunTotals()
    for name, rows in RUN.items():
        totals.add(name, rows)
    names = ("seed", "delivered", "duplicates", "phantoms", "out_of_order")
    checks = dict.fromkeys(names, 1)
    found = figures_of(RunResult(tables={}, checks=checks, totals=totals), SECOND_US)
    first = summary["runs"][0]
    for name in ("message_rate_per_s", "message_overhead", "delay_mean_us", "hops_mean"):
        assert getattr(found, name) == pytest.approx(first[name]), name
    assert (found.migrations, found.subscriber_moves) == (1, 1)
    assert found.wrong == 3


def test_timeline(summary: dict[str, Any]) -> None:
    rows = [row for row in summary["timeline"] if row["run"] == "first"]
    assert [row["window_start_us"] for row in rows] == [10 * SECOND_US, 15 * SECOND_US]
    assert [row["deliveries"] for row in rows] == [3, 1]
    assert [row["delay_mean_us"] for row in rows] == [20_000, 40_000]
    # Of the second window, one second lies in the run's period.
    assert [row["message_rate_per_s"] for row in rows] == pytest.approx([0.5, 2.0])


def test_idle_windows_are_zero_and_have_no_delay(summary: dict[str, Any]) -> None:
    found = [row for row in summary["timeline"] if row["run"] == "idle"]
    idle = (0.0, None, 0)
    assert [
        (
            row["window_start_us"] // SECOND_US,
            *(row[name] for name in ("message_rate_per_s", "delay_mean_us", "deliveries")),
        )
        for row in found
    ] == [(10, 0.5, 30_000, 1), (15, *idle), (55, *idle), (60, 2.0, None, 0)]


def test_a_folder_that_is_no_run_is_named(spark: SparkSession, tmp_path: Path) -> None:
    truth = tmp_path / "truth"
    write_table(spark.createDataFrame(TRUTH_ROWS, TRUTH), truth)
    with pytest.raises(TableError, match=r"nowhere.*is .* a run's folder"):
        write_summary(spark, [tmp_path / "nowhere"], truth, tmp_path / "out", window_us=SECOND_US)
    run = make_run(tmp_path / "run", RUN)
    with pytest.raises(TableError, match="two runs are called 'run'"):
        write_summary(spark, [run, run], truth, tmp_path / "out", window_us=SECOND_US)
    (run / "load.parquet").unlink()
    with pytest.raises(TableError, match=r"load\.parquet does not exist"):
        write_small_summary([run], tmp_path / "truth", tmp_path / "out", window_us=SECOND_US)
    with pytest.raises(TableError, match=r"load\.parquet does not exist"):
        write_summary(spark, [run], truth, tmp_path / "out", window_us=SECOND_US)
    assert not (tmp_path / "out").exists()
