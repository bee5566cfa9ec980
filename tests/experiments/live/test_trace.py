"""Hops and brokers' own publications, from trace files as brokers write them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from shoal.experiments.live.trace import controls, mean_hops

LINKS = [("A", "B"), ("B", "C"), ("B", "D")]
HOMES = {"near": "A", "far": "C"}
PUBLISHED = {"p": [7, 9]}


def write(folder: Path, publications: list[tuple], deliveries: list[tuple]) -> Path:
    tables = {
        "publications": (("publisher", "sequence", "published_us", "first_broker"), publications),
        "deliveries": (("publisher", "sequence", "published_us", "broker", "hops"), deliveries),
    }
    for name, (columns, rows) in tables.items():
        path = folder / f"{name}.parquet"
        path.mkdir(parents=True)
        for number, row in enumerate(rows):
            table = pa.Table.from_pylist([dict(zip(columns, row, strict=True))])
            pq.write_table(table, path / f"B-{number}.parquet")
    return folder


def test_hops_are_those_to_the_subscribers_broker(tmp_path: Path) -> None:
    folder = write(
        tmp_path,
        [("r/p", 2_000, 20, "C"), ("r/p", 1_000, 10, "A"), ("x/p", 1, 1, "A")],
        [
            *(("r/p", 1_000, 10, "A", 0), ("r/p", 1_000, 10, "C", 2), ("r/p", 2_000, 20, "C", 0)),
            ("x/p", 1, 1, "C", 9),
        ],
    )
    deliveries = [("near", "p", 7), ("far", "p", 7), ("far", "p", 9)]
    assert mean_hops(folder, "r/", PUBLISHED, deliveries, HOMES) == 2 / 3
    # Two subscriptions at one broker have the same route.
    assert mean_hops(folder, "r/", PUBLISHED, [*deliveries, ("far", "p", 7)], HOMES) == 1


def test_hops_are_unknown_before_the_trace_is_complete(tmp_path: Path) -> None:
    deliveries = [("far", "p", 7)]
    assert mean_hops(tmp_path / "none", "r/", PUBLISHED, deliveries, HOMES) is None
    both = [("r/p", 1, 1, "A"), ("r/p", 2, 2, "A")]
    early = write(tmp_path / "early", both[:1], [("r/p", 1, 1, "C", 2)])
    assert mean_hops(early, "r/", PUBLISHED, deliveries, HOMES) is None
    late = write(tmp_path / "late", both, [("r/p", 2, 2, "C", 2)])
    assert mean_hops(late, "r/", PUBLISHED, deliveries, HOMES) is None
    assert mean_hops(late, "r/", PUBLISHED, [("far", "p", 9)], HOMES) == 2


def test_brokers_own_publications_count_at_every_broker(tmp_path: Path) -> None:
    folder = write(
        tmp_path,
        [
            *(("$mqtt/A", 1, 100, "A"), ("$mqtt/C", 1, 120, "C"), ("$mqtt/A", 2, 130, "A")),
            *(("$mqtt/A", 3, 99, "A"), ("$mqtt/A", 4, 200, "A"), ("p", 5, 150, "A")),
        ],
        [
            # To all; from C over B to D; to A only.
            *(("$mqtt/A", 1, 100, broker, 1) for broker in "ABCD"),
            *(("$mqtt/C", 1, 120, "D", 2), ("$mqtt/A", 3, 99, "B", 1), ("p", 5, 150, "B", 1)),
        ],
    )
    assert controls(folder, LINKS, 100, 200) == 4 + 3 + 1
    assert controls(tmp_path / "none", LINKS, 100, 200) == 0
