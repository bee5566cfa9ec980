"""Workloads of synthetic publications: selectivities, distributions, places, repeatability."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from shoal.cli.main import main
from shoal.frames.errors import TableError
from shoal.frames.reading import read_table_file
from shoal.language import parse
from shoal.matching import covers, matches
from shoal.overlays.trace_rows import BrokerPlace
from shoal.pipeline.sources.headers import SourceError
from shoal.pipeline.truth import expected_deliveries, write_truth
from shoal.pipeline.workloads.publisher_workload import Derivation
from shoal.pipeline.workloads.small_workload import write_small_workload
from shoal.pipeline.workloads.windows import TimeWindow
from shoal.pipeline.workloads.workload import (
    Distribution,
    WorkloadCounts,
    WorkloadError,
    WorkloadOptions,
    class_counts,
    constant_attributes,
    write_workload,
)
from tests.examples import at_length

SEED = 20
COLUMNS = (
    "publisher string, sequence bigint, time_us bigint, attributes struct<site: string, "
    "`wind speed`: double, gusts: bigint, calm: boolean, kind: string, lucky: bigint>"
)
PUBLISHERS = {"bonn": 400, "it's": 200, "kiel": 3}
SECOND_US = 1_000_000
OPTIONS = WorkloadOptions(brokers="12", subscriptions=20, spread=4, duration_us=10 * SECOND_US)


@pytest.fixture(scope="module")
def publications(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = random.Random(SEED)
    rows = []
    for publisher, count in PUBLISHERS.items():
        for sequence in range(count):
            gusts = None if source.random() < 0.2 else source.randint(0, 60)
            values = (publisher, source.gauss(8, 3), gusts, gusts is None, "station", 7)
            rows.append((publisher, sequence, sequence * SECOND_US, values))
    path = tmp_path_factory.mktemp("publications") / "publications.parquet"
    spark.createDataFrame(rows, COLUMNS).write.parquet(str(path))
    return path


@pytest.fixture(scope="module")
def counts_and_workload(
    spark: SparkSession, publications: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[WorkloadCounts, Path]:
    out = tmp_path_factory.mktemp("workload") / "workload"
    counts = write_workload(spark, publications, out, OPTIONS)
    assert (counts.events, counts.publishers, counts.subscriptions) == (603, 3, 60)
    assert list(counts.selectivity) == ["low", "medium", "high"]
    return counts, out


@pytest.fixture
def workload(counts_and_workload: tuple[WorkloadCounts, Path]) -> Path:
    return counts_and_workload[1]


@pytest.fixture
def table(spark: SparkSession, workload: Path) -> Callable[[str], list[Row]]:
    return lambda name: spark.read.parquet(str(workload / name)).collect()


MINE = (
    "id,filter,broker,from\na,gusts > 3,B2,\nb,gusts < 9,,1970-01-01T00:01:00Z\n"
    "c,kind > 3 OR gust > 9,,\n"
)
TOLD = ("no publication has gust, and", "kind is text in ")
WHO = "publisher,broker,advertisement\nbonn,B3,kind = 'station'\nkiel,,\n"


@pytest.mark.parametrize(
    ("changes", "mine", "who"),
    [
        *at_length([({}, "", "")]),
        *at_length(
            [({"distribution": "clustered", "spread": 2, "aim_at": ("gusts",), "seed": 2}, "", "")]
        ),
        *at_length(
            [({"publishers": 2, "window": TimeWindow(5 * SECOND_US, 100 * SECOND_US)}, "", "")]
        ),
        *at_length(
            [({"home": "kind", "duration_us": None, "brokers": "3", "spread": None}, "", "")]
        ),
        ({"subscriptions": 3}, MINE, WHO),
    ],
)
def test_few_publications_need_no_spark_and_give_the_same(
    spark: SparkSession,
    publications: Path,
    counts_and_workload: tuple[WorkloadCounts, Path],
    tmp_path: Path,
    changes: dict[str, Any],
    mine: str,
    who: str,
) -> None:
    options = msgspec.structs.replace(OPTIONS, **changes)
    for name, text in (("own_subscriptions", mine), ("own_publishers", who)):
        if text:
            (tmp_path / f"{name}.csv").write_text(text)
            options = msgspec.structs.replace(options, **{name: tmp_path / f"{name}.csv"})
    small = write_small_workload(publications, tmp_path / "small", options)
    if changes:
        out = tmp_path / "spark"
        by_spark = write_workload(spark, publications, out, options)
    else:
        by_spark, out = counts_and_workload
    # Means are summed up in another order.
    assert small.selectivity == pytest.approx(by_spark.selectivity)
    assert small == msgspec.structs.replace(by_spark, selectivity=small.selectivity)
    told = TOLD if mine else ()
    assert all(map(str.startswith, small.complaints, told))
    assert len(small.complaints) == len(told)
    for name in ("brokers.parquet", "publishers.parquet", "subscriptions.parquet", "events"):
        found, wanted = (
            read_table_file(each / name, inside="") for each in (tmp_path / "small", out)
        )
        assert found.schema.equals(wanted.schema), name
        assert found.to_pylist() == wanted.to_pylist(), name


@pytest.mark.parametrize(
    ("distribution", "subscriptions", "expected"),
    [
        ("random", 100, {"low": 70, "medium": 25, "high": 5}),
        ("clustered", 100, {"low": 95, "high": 5}),
        ("random", 10, {"low": 7, "medium": 2, "high": 1}),
        ("random", 1, {"high": 1}),
        ("clustered", 2, {"low": 1, "high": 1}),
    ],
)
def test_classes_have_the_papers_shares(
    distribution: Distribution, subscriptions: int, expected: dict[str, int]
) -> None:
    assert class_counts(distribution, subscriptions) == expected


def test_what_is_constant_for_every_publisher_is_advertised(
    spark: SparkSession, publications: Path, table: Callable[[str], list[Row]]
) -> None:
    assert constant_attributes(spark.read.parquet(str(publications))) == ["site", "kind", "lucky"]
    advertised = {row["publisher"]: row["advertisement"] for row in table("publishers.parquet")}
    assert advertised["kiel"] == "site = 'kiel' AND kind = 'station' AND lucky = 7"
    assert advertised["it's"].startswith("site = 'it''s'")


def test_subscriptions_get_the_share_they_aim_at(
    spark: SparkSession, workload: Path, table: Callable[[str], list[Row]]
) -> None:
    pairs = expected_deliveries(
        spark.read.parquet(str(workload / "events")),
        spark.read.parquet(str(workload / "subscriptions.parquet")),
    )
    got = {
        row["subscription"]: row["count"] for row in pairs.groupBy("subscription").count().collect()
    }
    subscriptions = table("subscriptions.parquet")
    for row in subscriptions:
        measured = got.get(row["subscription"], 0) / PUBLISHERS[row["publisher"]]
        assert measured == row["measured_selectivity"]
        if PUBLISHERS[row["publisher"]] > 100:
            assert abs(measured - row["aimed_selectivity"]) <= 0.02
    for publisher in ("bonn", "it's"):
        filters = [row["filter"] for row in subscriptions if row["publisher"] == publisher]
        assert len(set(filters)) == len(filters)


def test_subscriptions_stay_within_their_publishers_promise(
    table: Callable[[str], list[Row]],
) -> None:
    promised = {
        row["publisher"]: parse(row["advertisement"]) for row in table("publishers.parquet")
    }
    for row in table("subscriptions.parquet"):
        assert covers(promised[row["publisher"]], parse(row["filter"]))
        if row["rate_class"] == "high":
            assert parse(row["filter"]) == promised[row["publisher"]]


def test_spark_and_the_matcher_expect_the_same_deliveries(
    spark: SparkSession, workload: Path, tmp_path: Path, table: Callable[[str], list[Row]]
) -> None:
    counts = write_truth(spark, workload, tmp_path / "truth")
    truth = {tuple(row) for row in spark.read.parquet(str(tmp_path / "truth")).collect()}
    filters = {row["subscription"]: parse(row["filter"]) for row in table("subscriptions.parquet")}
    expected = set()
    for event in table("events"):
        given = {k: v for k, v in event["attributes"].asDict().items() if v is not None}
        for subscription, wanted in filters.items():
            if matches(wanted, given):
                expected.add((event["publisher"], event["sequence"], subscription))
    assert truth == expected
    assert counts.expected == len(expected)


def test_events_are_replayed_in_order(table: Callable[[str], list[Row]]) -> None:
    events = table("events")
    keys = [(row["replay_us"], row["publisher"], row["sequence"]) for row in events]
    assert keys == sorted(keys)
    assert keys[0][0] == 0
    assert 9 * SECOND_US < keys[-1][0] < 10 * SECOND_US


def test_the_same_seed_gives_the_same_workload_and_another_does_not(
    spark: SparkSession, publications: Path, workload: Path, tmp_path: Path
) -> None:
    other = spark.newSession()
    other.conf.set("spark.sql.shuffle.partitions", "5")
    write_workload(other, publications, tmp_path / "again", OPTIONS)
    reseeded = msgspec.structs.replace(OPTIONS, seed=2)
    # As Spark would, see above.
    write_small_workload(publications, tmp_path / "reseeded", reseeded)
    for name in ("brokers.parquet", "publishers.parquet", "subscriptions.parquet", "events"):
        first, again, changed = (
            spark.read.parquet(str(folder / name)).collect()
            for folder in (workload, tmp_path / "again", tmp_path / "reseeded")
        )
        assert first == again
        assert (first == changed) is (name in ("brokers.parquet", "events"))


def derivation(*, clustered: bool) -> Derivation:
    return Derivation(
        seed=SEED,
        constants=("site",),
        numeric=("wind",),
        home="site",
        brokers=tuple(BrokerPlace(name) for name in ("bonn", "ulm", "kiel", "rome")),
        spread=3,
        clustered=clustered,
        counts={"low": 190, "high": 10},
    )


def placed(chosen: Derivation, publisher: str) -> dict[str, Counter[str]]:
    import pyarrow as pa

    rows = [{"publisher": publisher, "place": 1, "a0": publisher, "a1": 1.0}]
    found: dict[str, Counter[str]] = {"low": Counter(), "high": Counter()}
    for row in chosen.subscription_rows(pa.Table.from_pylist(rows)).to_pylist():
        found[row["rate_class"]][row["broker"]] += 1
    return found


def test_clustered_puts_the_high_ones_at_one_broker_and_the_low_ones_elsewhere() -> None:
    for publisher in ("bonn", "nowhere"):
        found = placed(derivation(clustered=True), publisher)
        assert len(found["high"]) == 1
        assert len(found["low"]) == 2
        assert not found["high"].keys() & found["low"].keys()
        assert min(found["low"].values()) > 60


def test_random_spreads_all_classes_over_the_same_brokers() -> None:
    found = placed(derivation(clustered=False), "bonn")
    assert len(found["low"]) == 3
    assert found["high"].keys() <= found["low"].keys()
    assert min(found["low"].values()) > 40


def test_a_publisher_starts_at_home_or_at_random(
    spark: SparkSession, publications: Path, tmp_path: Path
) -> None:
    file = tmp_path / "brokers.csv"
    file.write_text("broker,latitude,longitude\nkiel,54.3,10.1\nulm,48.4,10.0\n")
    options = msgspec.structs.replace(
        OPTIONS,
        brokers=str(file),
        spread=2,
        home="site",
        publishers=2,
        window=TimeWindow(0, 2_500_000),
    )
    counts = write_small_workload(publications, tmp_path / "w", options)
    assert (counts.events, counts.publishers) == (6, 2)
    options = msgspec.structs.replace(options, publishers=None)
    counts = write_workload(spark, publications, tmp_path / "w", options, overwrite=True)
    rows = spark.read.parquet(str(tmp_path / "w" / "publishers.parquet"))
    assert counts.publishers == 3
    kiel = rows.where(F.col("publisher") == "kiel").first()
    assert kiel is not None
    assert (kiel["broker"], kiel["latitude"], kiel["longitude"]) == ("kiel", 54.3, 10.1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [({}, "there has no publications"), ({"window": TimeWindow(from_us=1)}, "lies in the window")],
)
def test_no_publications_are_said_to_be_none(
    tmp_path: Path, changes: dict[str, object], message: str
) -> None:
    attributes = pa.struct([("site", pa.string())])
    kinds = {"publisher": pa.string(), "sequence": pa.int64(), "time_us": pa.int64()}
    (tmp_path / "there").mkdir()
    empty = pa.schema([*kinds.items(), ("attributes", attributes)]).empty_table()
    pq.write_table(empty, tmp_path / "there" / "publications.parquet")
    options = msgspec.structs.replace(OPTIONS, **changes)
    with pytest.raises(WorkloadError, match=message):
        write_small_workload(tmp_path / "there", tmp_path / "w", options)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"spread": 13}, WorkloadError, "spread: 13 of 12 brokers"),
        ({"home": "gusts"}, WorkloadError, "home: 'gusts' is not constant .* site, kind, lucky"),
        ({"aim_at": ("kind",)}, WorkloadError, "aim_at: 'kind' is not a numeric attribute; there"),
        ({"brokers": "airports:many"}, WorkloadError, "after airports: there must be a number"),
        ({"brokers": "airports:3"}, SourceError, "these have no 'origin'"),
        ({"brokers": "nowhere.csv"}, SourceError, r"nowhere\.csv does not exist"),
        (
            {"window": TimeWindow(from_us=10**12)},
            WorkloadError,
            "no publication lies in the window",
        ),
        ({"subscriptions": 0}, WorkloadError, "subscriptions: 0 is less than 1"),
    ],
)
def test_wrong_options_are_told(
    spark: SparkSession,
    publications: Path,
    tmp_path: Path,
    changes: dict[str, object],
    error: type[Exception],
    message: str,
) -> None:
    with pytest.raises(error, match=message):
        write_workload(
            spark, publications, tmp_path / "w", msgspec.structs.replace(OPTIONS, **changes)
        )
    assert not (tmp_path / "w").exists()


def test_missing_inputs_are_told(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(TableError, match="nowhere does not exist"):
        write_workload(spark, tmp_path / "nowhere", tmp_path / "w", OPTIONS)
    with pytest.raises(TableError, match="make one with `shoal workload`"):
        write_truth(spark, tmp_path / "nowhere", tmp_path / "t")
    spark.range(3).write.parquet(str(tmp_path / "other"))
    with pytest.raises(TableError, match="lacks the column 'publisher', 'sequence', 'time_us'"):
        write_workload(spark, tmp_path / "other", tmp_path / "w", OPTIONS)


def test_the_commands(
    spark: SparkSession, publications: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made, truth = str(tmp_path / "w"), str(tmp_path / "t")
    words = ["workload", str(publications), "--out", made, "--brokers", "2"]
    commands = {
        "events": [*words, "--subscriptions", "3", "--to", "1970-01-01T00:00:05"],
        "deliveries expected": ["truth", made, "--out", truth],
    }
    for figure, command in commands.items():
        with pytest.raises(SystemExit) as ended:
            main(command)
        captured = capsys.readouterr()
        assert (ended.value.code or 0, figure in captured.out) == (0, True), captured.err
    for command, message in (
        ([*words, "--overwrite", "--month", "1970-01", "--to", "1971-01-01"], "either --month"),
        ([*words, "--overwrite", "--month", "1970-14"], "'1970-14' is not a month"),
        (["truth", made, "--out", truth], "exists already"),
    ):
        with pytest.raises(SystemExit) as ended:
            main(command)
        assert ended.value.code == 2
        assert message in capsys.readouterr().err
