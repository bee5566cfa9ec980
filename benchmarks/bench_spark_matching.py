"""The compiled index on Spark against a join by condition in Spark SQL.

Run `python benchmarks/bench_spark_matching.py [ranges] [stocks] [--whole]` (default: both). Both
engines read the same two Parquet tables, 40,000 subscriptions as conjunctions in columns and
100,000 publications, on all cores, and end in the count and a checksum of the pairs. Ours is timed
whole, from reading the subscriptions to the sum, with compiled workers; the first
run, which compiles or loads it, is printed apart.

Spark SQL's join compares every publication with every subscription, so its time is measured on two
samples of the publications and extrapolated to all; constant costs, which both engines have, thus
count for ours only. --whole runs it once on all instead. The engines take turns, as the machine may
be busy, and the ratio is the median of the rounds'. If subscriptions demand values, a query written
for this one shape can extract them from the condition and let Spark join by hash; that is printed
too. The exit code is 1 if a count or checksum differs.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from bench_matching import (
    NUMBER_NAMES,
    RANGE_MEANS,
    RANGE_NAMES,
    stock_table,
    truncated_normal,
)
from shoal.matching import MatchIndex
from shoal.pipeline.matching.compiled_matching import match_tables
from shoal.pipeline.session import spark_session

SUBSCRIPTIONS = 40_000
PUBLICATIONS = 100_000
SAMPLES = (2_000, 10_000)
ROUNDS = 3

# Keeps a product small enough for the sum of a billion of them.
MODULUS = 2**31 - 1

# The number of pairs, and the sum of (publication + 1) x (subscription + 1), each modulo MODULUS.
Answer = tuple[int, int]


class Workload(NamedTuple):
    """Two tables, and the subscriptions' values that a query could join by."""

    title: str
    subscriptions: pa.Table
    publications: pa.Table
    demanded: tuple[str, ...]


def ranges() -> Workload:
    """W1: four ranges of width 250 each, uniform publications."""
    random = np.random.default_rng(1)
    centres = {
        name: truncated_normal(random, mean, SUBSCRIPTIONS)
        for name, mean in zip(RANGE_NAMES, RANGE_MEANS, strict=True)
    }
    bounds = {}
    for name, centre in centres.items():
        bounds |= {f"{name}.low": centre - 125, f"{name}.high": centre + 125}
    points = {name: random.uniform(0, 1000, PUBLICATIONS) for name in RANGE_NAMES}
    return Workload(
        "W1: 4 ranges of width 250",
        pa.table({"id": np.arange(SUBSCRIPTIONS), **bounds}),
        pa.table({"id": np.arange(PUBLICATIONS), **points}),
        (),
    )


def stocks() -> Workload:
    """W2: equality on class and symbol, none to two comparisons, 500 symbols."""
    table = stock_table(SUBSCRIPTIONS, 500)
    for name in ("class", "symbol"):
        at = table.column_names.index(name)
        table = table.set_column(at, name, table.column(name).cast(pa.string()))
    random = np.random.default_rng(3)
    columns = {
        "class": ["STOCK"] * PUBLICATIONS,
        "symbol": [f"S{at}" for at in random.integers(0, 500, PUBLICATIONS)],
        **{name: random.uniform(0, 100, PUBLICATIONS) for name in NUMBER_NAMES},
    }
    return Workload(
        "W2: stocks over 500 symbols",
        table,
        pa.table({"id": np.arange(PUBLICATIONS), **columns}),
        ("class", "symbol"),
    )


def summed(pairs: DataFrame) -> Answer:
    """Count and checksum of pairs, computed by Spark."""
    product = (F.col("id") + 1) * (F.col("subscription") + 1) % MODULUS
    row = pairs.agg(F.count("*"), F.coalesce(F.sum(product), F.lit(0))).collect()[0]
    return row[0], row[1]


def in_process(work: Workload) -> Answer:
    """Count and checksum by the index alone, without Spark."""
    index = MatchIndex()
    index.add_table(work.subscriptions)
    columns = {name: work.publications.column(name) for name in work.publications.column_names}
    ids = columns.pop("id").to_numpy()
    plain = {name: column.to_numpy() for name, column in columns.items()}
    offsets, found = index.match_batch(plain)
    return len(found), int((np.repeat(ids + 1, np.diff(offsets)) * (found + 1) % MODULUS).sum())


def joined(publications: DataFrame, subscriptions: DataFrame, equal: Sequence[str]) -> DataFrame:
    """The pairs by one join; values named in `equal` must be equal, others may be null."""
    given, wanted = publications.alias("p"), subscriptions.alias("s")
    conditions = [f"p.`{name}` = s.`{name}`" for name in equal]
    for column in subscriptions.columns:
        if column == "id" or column in equal:
            continue
        name, _, side = column.rpartition(".")
        test = {"low": ">=", "high": "<="}.get(side, "=")
        value = f"p.`{name or column}`"
        conditions.append(f"({value} {test} s.`{column}` OR s.`{column}` IS NULL)")
    joined = given.join(F.broadcast(wanted), F.expr(" AND ".join(conditions)))
    return joined.select("p.id", F.col("s.id").alias("subscription"))


def timed(work: Callable[[], Answer]) -> tuple[float, Answer]:
    """The duration of some work, and its result."""
    started = time.perf_counter()
    answer = work()
    return time.perf_counter() - started, answer


def bench(spark: SparkSession, work: Workload, folder: Path, *, whole: bool) -> bool:
    """Run both engines and print; whether they agree."""
    cores = spark.sparkContext.defaultParallelism

    def read(name: str, table: pa.Table) -> DataFrame:
        pq.write_table(table, folder / f"{name}.parquet")
        read = spark.read.parquet(str(folder / f"{name}.parquet")).repartition(cores).persist()
        read.count()
        return read

    subscriptions = read("subscriptions", work.subscriptions)
    publications = read("publications", work.publications)

    def part(rows: int) -> DataFrame:
        if rows == PUBLICATIONS:
            return publications
        return publications.where(F.col("id") < rows).repartition(cores)

    def join(rows: int, equal: Sequence[str] = ()) -> Answer:
        return summed(joined(part(rows), subscriptions, equal))

    def ours(rows: int) -> Answer:
        return summed(match_tables(part(rows), subscriptions))

    print(f"\n{work.title}: {SUBSCRIPTIONS:,} subscriptions x {PUBLICATIONS:,} publications")
    first_s, answer = timed(lambda: ours(PUBLICATIONS))
    right = agreed("the index without Spark", answer, in_process(work))
    for rows in SAMPLES:
        right = agreed(f"Spark SQL on {rows:,}", ours(rows), join(rows)) and right
    print(f"  pairs                              {answer[0]:>12,}")
    print(f"  shoal, first run                   {first_s:>12.2f} s")
    times: dict[str, list[float]] = {}
    for number in range(1 if whole else ROUNDS):
        shoal_s = statistics.median(timed(lambda: ours(PUBLICATIONS))[0] for _ in range(3))
        times.setdefault("shoal", []).append(shoal_s)
        if whole:
            join_s, judged = timed(lambda: join(PUBLICATIONS))
            right = agreed("Spark SQL", answer, judged) and right
        else:
            few_s, many_s = (timed(lambda rows=rows: join(rows))[0] for rows in SAMPLES)
            join_s = (many_s - few_s) * PUBLICATIONS / (SAMPLES[1] - SAMPLES[0])
            print(f"  round {number + 1}: Spark SQL {few_s:.2f} s and {many_s:.2f} s on samples")
        times.setdefault("Spark SQL, join by condition", []).append(join_s)
        times.setdefault("ratio", []).append(join_s / shoal_s)
        if work.demanded:
            hash_s, judged = timed(lambda: join(PUBLICATIONS, work.demanded))
            right = agreed("Spark SQL by hash", answer, judged) and right
            times.setdefault("Spark SQL, hash join by hand", []).append(hash_s)
    ratio = statistics.median(times.pop("ratio"))
    for name, each in times.items():
        print(f"  {name:<34} {statistics.median(each):>12.2f} s")
    print(f"  Spark SQL's condition join / shoal {ratio:>12.0f}")
    subscriptions.unpersist()
    publications.unpersist()
    return right


def agreed(name: str, ours: Answer, other: Answer) -> bool:
    if ours != other:
        print(f"  {name}: count and checksum {other} differ from shoal's {ours}")
    return ours == other


def main(arguments: Sequence[str]) -> int:
    works = {"ranges": ranges, "stocks": stocks}
    chosen = [each for each in arguments if each != "--whole"]
    unknown = [name for name in chosen if name not in works]
    if unknown:
        print(f"no workload {unknown[0]!r}; there are: {', '.join(works)}", file=sys.stderr)
        return 2
    with (
        tempfile.TemporaryDirectory(prefix="shoal-bench-") as folder,
        spark_session("bench", memory="3g") as spark,
    ):
        results = [
            bench(spark, works[name](), Path(folder), whole="--whole" in arguments)
            for name in chosen or works
        ]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
