"""Matching of tables beside joins by condition in DuckDB, Polars and Spark SQL.

Run `python benchmarks/bench_table_joins.py` (`make bench-table-joins`). The subscriptions are
4 ranges of width 250 of 1,000 each, the publications uniform points, as in `bench_spark_matching`;
every engine gets the same Arrow tables and ends in the count and a checksum of the pairs. The
engines take turns, and a ratio is the median of the rounds'. `match_frame` is timed whole, with the
building of its index; Spark's session and its tables in memory are made before.

The exit code is 1 if a count or checksum differs.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from bench_spark_matching import MODULUS, RANGE_NAMES, Answer, agreed, joined, ranges, summed, timed
from shoal.frames.matching import match_frame
from shoal.pipeline.matching.compiled_matching import match_tables
from shoal.pipeline.session import spark_session

SUBSCRIPTIONS = 20_000
PUBLICATIONS = 20_000
ROUNDS = 3

_TESTS = [
    test
    for name in RANGE_NAMES
    for test in ((name, ">=", f"{name}.low"), (name, "<=", f"{name}.high"))
]


def checked(pairs: pa.Table) -> Answer:
    """Count and checksum of pairs of `id` and `subscription`."""
    ids, wanted = (np.asarray(pairs[name]) for name in ("id", "subscription"))
    return len(ids), int(((ids + 1) * (wanted + 1) % MODULUS).sum())


def by_shoal(publications: pa.Table, subscriptions: pa.Table) -> Answer:
    return checked(match_frame(publications, subscriptions, warn=False))


def by_duckdb(publications: pa.Table, subscriptions: pa.Table) -> Answer:
    tests = " AND ".join(f'p."{value}" {test} s."{bound}"' for value, test, bound in _TESTS)
    query = "SELECT p.id, s.id AS subscription FROM publications p JOIN subscriptions s ON "
    with duckdb.connect() as connection:
        return checked(connection.sql(query + tests).to_arrow_table())


def by_polars(publications: pa.Table, subscriptions: pa.Table) -> Answer:
    given, wanted = pl.from_arrow(publications), pl.from_arrow(subscriptions)
    assert isinstance(given, pl.DataFrame)
    assert isinstance(wanted, pl.DataFrame)
    tests = [
        pl.col(value) >= pl.col(bound) if test == ">=" else pl.col(value) <= pl.col(bound)
        for value, test, bound in _TESTS
    ]
    pairs = given.join_where(wanted.rename({"id": "subscription"}), *tests)
    return checked(pairs.select("id", "subscription").to_arrow())


def main() -> int:
    work = ranges()
    publications = work.publications.slice(0, PUBLICATIONS)
    subscriptions = work.subscriptions.slice(0, SUBSCRIPTIONS)
    right = True
    with (
        tempfile.TemporaryDirectory(prefix="shoal-bench-") as folder,
        spark_session("bench", memory="3g") as spark,
    ):
        tables = {}
        for name, table in (("p", publications), ("s", subscriptions)):
            pq.write_table(table, Path(folder) / f"{name}.parquet")
            read = spark.read.parquet(str(Path(folder) / f"{name}.parquet"))
            tables[name] = read.repartition(2).persist()
            tables[name].count()
        given, wanted = tables["p"], tables["s"]
        engines: dict[str, Callable[[], Answer]] = {
            "match_frame": lambda: by_shoal(publications, subscriptions),
            "DuckDB": lambda: by_duckdb(publications, subscriptions),
            "Polars": lambda: by_polars(publications, subscriptions),
            "match on Spark": lambda: summed(match_tables(given, wanted)),
            "Spark SQL": lambda: summed(joined(given, wanted, ())),
        }
        answer = engines["match_frame"]()
        print(
            f"{SUBSCRIPTIONS:,} subscriptions x {PUBLICATIONS:,} publications, {answer[0]:,} pairs"
        )
        for name, engine in engines.items():
            right = agreed(name, engine(), answer) and right
        took: dict[str, list[float]] = {name: [] for name in engines}
        for _ in range(ROUNDS):
            for name, engine in engines.items():
                took[name].append(timed(engine)[0])
    for name, times in took.items():
        ours = took["match on Spark" if "Spark" in name else "match_frame"]
        ratio = statistics.median(each / own for each, own in zip(times, ours, strict=True))
        print(f"  {name:<16} {statistics.median(times):>8.2f} s {ratio:>8.1f}")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
