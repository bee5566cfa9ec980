"""Many workloads of one data set: the same publishers and events, configured subscribers."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from shoal.experiments.run_files import WorkloadFiles, read_workload
from shoal.overlays.trace_rows import BrokerPlace
from shoal.pipeline.ingest import ingest_quotes
from shoal.pipeline.sources.synthetic_quotes import write_synthetic_quotes
from shoal.pipeline.workloads.places import numbered_brokers
from shoal.pipeline.workloads.study_workloads import StudyOptions, Variant, write_study
from shoal.pipeline.workloads.workload import WorkloadError

OPTIONS = StudyOptions(publishers=3, interval_us=1_000_000, aim_at=("volume", "highLow%Diff"))
FEW, MANY = tuple(numbered_brokers(5)), tuple(numbered_brokers(9))


def variant(name: str, spread: int, brokers: tuple[BrokerPlace, ...], publications: int) -> Variant:
    return Variant(
        name=name,
        distribution="clustered",
        spread=spread,
        publications=publications,
        subscriptions=20,
        brokers=brokers,
    )


@pytest.fixture(scope="module")
def publications(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("study")
    write_synthetic_quotes(folder / "quotes.parquet", stocks=4, days=120, seed=5)
    ingest_quotes(spark, [folder / "quotes.parquet"], folder / "publications")
    return folder / "publications"


@pytest.fixture(scope="module")
def workloads(
    spark: SparkSession, publications: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, WorkloadFiles]:
    out = tmp_path_factory.mktemp("out") / "study"
    variants = [
        variant("one", 1, FEW, 60),
        variant("four", 4, FEW, 60),
        variant("long", 4, MANY, 120),
    ]
    counts = write_study(spark, publications, out, OPTIONS, variants)
    assert (counts.publishers, counts.variants) == (3, 3)
    return {one.name: read_workload(out / one.name) for one in variants}


def test_publishers_and_events_are_shared(workloads: dict[str, WorkloadFiles]) -> None:
    one, four, long = (workloads[name] for name in ("one", "four", "long"))
    assert one.publishers == four.publishers
    assert list(one.events) == list(four.events)
    assert (len(one.events), len(long.events)) == (3 * 60, 3 * 120)
    first = {event.publisher: event.replay_us for event in reversed(list(one.events))}
    assert len(set(first.values())) == 3
    assert all(0 <= replay_us < 1_000_000 for replay_us in first.values())
    for event in one.events:
        assert (event.replay_us - first[event.publisher]) % 1_000_000 == 0


def test_subscribers_are_spread_and_stand_with_their_publisher(
    workloads: dict[str, WorkloadFiles],
) -> None:
    for name, spread in (("one", 1), ("four", 4), ("long", 4)):
        workload = workloads[name]
        home = {row.publisher: row.broker for row in workload.publishers}
        for publisher, broker in home.items():
            own = [row for row in workload.subscriptions if row.client.startswith(publisher + "/")]
            assert len(own) == 20
            assert {row.place for row in own} == {broker}
            assert len({row.broker for row in own}) <= spread


def test_what_cannot_be_made(spark: SparkSession, publications: Path, tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match="0 publishers have the 121 publications"):
        write_study(spark, publications, tmp_path / "a", OPTIONS, [variant("x", 1, FEW, 121)])
    with pytest.raises(WorkloadError, match="spread: 6 of 5 brokers"):
        write_study(spark, publications, tmp_path / "b", OPTIONS, [variant("x", 6, FEW, 50)])
    assert not (tmp_path / "b").exists()
