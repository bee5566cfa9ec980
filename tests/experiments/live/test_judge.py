"""Required deliveries, by a table or by the filters, and the faults of a replay."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shoal.experiments.live.judge import (
    LiveJudge,
    LiveVerdict,
    expected_by_filters,
    expected_by_truth,
)
from shoal.experiments.run_files import RunFileError, read_workload
from tests.experiments.test_run_files import SUBSCRIPTION, event, write_workload


def test_a_truth_table_counts_for_what_is_replayed(tmp_path: Path) -> None:
    events = read_workload(write_workload(tmp_path / "workload")).events
    rows = [
        {"publisher": publisher, "sequence": sequence, "subscription": "s1"}
        for publisher, sequence in (("UA-EWR", 0), ("UA-EWR", 7), ("AA-EWR", 0))
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "truth.parquet")
    assert expected_by_truth(tmp_path / "truth.parquet", events) == {("s1", "UA-EWR", 0)}


def test_filters_are_read_one_by_one(tmp_path: Path) -> None:
    subscriptions = [
        {**SUBSCRIPTION, "filter": "dep_delay > 5"},
        {**SUBSCRIPTION, "subscription": "s2"},
    ]
    events = [event(0, 0, dep_delay=3), event(1, 10, dep_delay=9), event(2, 20)]
    workload = read_workload(write_workload(tmp_path, subscriptions=subscriptions, events=events))
    expected = expected_by_filters(workload, tmp_path)
    assert expected == {("s1", "UA-EWR", 1), *(("s2", "UA-EWR", n) for n in range(3))}


def test_a_filter_that_does_not_parse_is_named(tmp_path: Path) -> None:
    path = write_workload(tmp_path, subscriptions=[{**SUBSCRIPTION, "filter": "x >"}])
    with pytest.raises(RunFileError, match=r"filter of 's1': line 1, column 4"):
        expected_by_filters(read_workload(path), path)


def test_without_deliveries_everything_is_lost() -> None:
    judge = LiveJudge({("s", "p", 1)})
    assert judge.missing == {("s", "p", 1)}
    assert judge.verdict == LiveVerdict(1, 0, 1, 0, 0, 0)


def test_order_is_judged_per_publisher_and_subscription() -> None:
    judge = LiveJudge(
        {(name, "p", number) for name in "st" for number in range(3)} | {("s", "q", 0)}
    )
    for name, publisher, number in (
        *(("s", "p", 0), ("t", "p", 1), ("s", "p", 2), ("s", "q", 0), ("t", "p", 2)),
        *(("s", "p", 0), ("s", "p", 1), ("t", "p", 0)),
    ):
        judge.arrived(name, publisher, number)
    assert judge.verdict == LiveVerdict(
        expected=7, delivered=8, lost=0, duplicated=1, phantom=0, out_of_order=2
    )


def test_clients_left_out_are_owed_nothing() -> None:
    judge = LiveJudge({("s1", "p", 1), ("s2", "p", 1), ("s1", "q", 1)})
    judge.leave_out(subscriptions={"s2"})
    judge.leave_out(publishers={"q"})
    judge.arrived("s1", "p", 1)
    assert judge.verdict == LiveVerdict(1, 1, 0, 0, 0, 0)
    assert not judge.missing
