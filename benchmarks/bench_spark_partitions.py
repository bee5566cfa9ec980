"""Spreading over partitions on Spark: millions of subscriptions, skewed data, one dimension.

Run `python benchmarks/bench_spark_partitions.py [skewed] [uniform] [large]` (default: the first
two).  Subscriptions are boxes of width 30 on four dimensions of length 1000, normal around a hot
spot of each (sd 100).  Publications are uniform; or, skewed, they come from a dozen places, each
as wide as a subscription, of which every coordinate is, by a coin, drawn near the hot spot or
anywhere.  `auto` is timed against every one of the
four dimensions alone, with the same cuts and tasks; what is printed is the ratio to the best, the
mean and the worst of them, from rounds in which all take turns.  All pairs are compared by count
and checksum, and with the engine that broadcasts the subscriptions on a sample of them.

`large` is 10,000,000 subscriptions and 1,000,000 publications, once, by `auto`; it prints the
memory that Spark and its workers together had at most.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from bench_spark_matching import Answer, agreed, summed, timed
from shoal.pipeline.compiled_matching import match_tables
from shoal.pipeline.partitioned_matching import match_partitioned
from shoal.pipeline.session import spark_session

NAMES = ("a0", "a1", "a2", "a3")
HOT_SPOTS = (125.0, 375.0, 625.0, 875.0)
DEVIATION = 100.0
WIDTH = 30.0
PLACES = 12
ROUNDS = 3
CHECKED_SUBSCRIPTIONS = 200_000


def write_tables(
    folder: Path, subscriptions: int, publications: int, *, skewed: bool, files: int = 8
) -> None:
    """Both tables as folders of Parquet, a part after the other."""
    random = np.random.default_rng(1)
    shape = PLACES, len(NAMES)
    near = random.normal(HOT_SPOTS, DEVIATION, shape)
    places = np.where(random.random(shape) < 0.5, near, random.uniform(0, 1000, shape))
    for name in ("subscriptions", "publications"):
        (folder / name).mkdir(parents=True)
    for part in range(files):
        size = subscriptions // files
        columns = {"id": np.arange(size) + part * size}
        for name, hot in zip(NAMES, HOT_SPOTS, strict=True):
            low = random.normal(hot, DEVIATION, size) - WIDTH / 2
            columns |= {f"{name}.low": low, f"{name}.high": low + WIDTH}
        pq.write_table(pa.table(columns), folder / "subscriptions" / f"{part}.parquet")
        size = publications // files
        points = random.uniform(0, 1000, (size, len(NAMES)))
        if skewed:
            points = places[random.integers(0, PLACES, size)]
            points = points + random.uniform(-WIDTH / 2, WIDTH / 2, points.shape)
        columns = {"id": np.arange(size) + part * size}
        columns |= {name: points[:, at] for at, name in enumerate(NAMES)}
        pq.write_table(pa.table(columns), folder / "publications" / f"{part}.parquet")


def resident_mb() -> float:
    """Memory of this process and of all it started: Spark's Java, its Python workers."""
    parents: dict[int, int] = {}
    pages: dict[int, int] = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            after_name = (process / "stat").read_text("utf-8").rpartition(")")[2].split()
            pages[int(process.name)] = int((process / "statm").read_text("ascii").split()[1])
            parents[int(process.name)] = int(after_name[1])
        except OSError:
            continue
    own = {int(Path("/proc/self").resolve().name)}
    while more := {each for each, parent in parents.items() if parent in own} - own:
        own |= more
    return sum(pages.get(each, 0) for each in own) * 4096 / 1e6


def with_most_memory(work: Callable[[], Answer]) -> tuple[float, Answer, float]:
    """Time, answer, and the most memory there was, looked at twice a second."""
    most, is_done = 0.0, threading.Event()

    def watch() -> None:
        nonlocal most
        while not is_done.wait(0.5):
            most = max(most, resident_mb())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        took_s, answer = timed(work)
    finally:
        is_done.set()
        watcher.join()
    return took_s, answer, most


def check_on_sample(publications: DataFrame, subscriptions: DataFrame, pairs: DataFrame) -> bool:
    """Whether the pairs of some subscriptions are those of the engine that broadcasts them."""
    some = subscriptions.where(F.col("id") % 97 == 5).limit(CHECKED_SUBSCRIPTIONS)
    ours = pairs.where(F.col("subscription") % 97 == 5)
    return agreed("broadcast, on a sample", summed(ours), summed(match_tables(publications, some)))


def bench(spark: SparkSession, folder: Path, sizes: tuple[int, int], *, skewed: bool) -> bool:
    """Auto beside each dimension alone; whether all agree."""
    subscriptions, publications = read(spark, folder, sizes, skewed=skewed)
    kind = "skewed" if skewed else "uniform"
    print(f"\n{sizes[0]:,} subscriptions x {sizes[1]:,} {kind} publications")

    def run(dimension: str | None) -> Answer:
        return summed(match_partitioned(publications, subscriptions, dimension=dimension))

    answer = run(None)
    print(f"  pairs                       {answer[0]:>12,}")
    pairs = match_partitioned(publications, subscriptions)
    right = check_on_sample(publications, subscriptions, pairs)
    times: dict[str | None, list[float]] = {}
    for number in range(ROUNDS):
        for dimension in (None, *NAMES):
            took_s, found = timed(lambda dimension=dimension: run(dimension))
            times.setdefault(dimension, []).append(took_s)
            right = agreed(f"--partition {dimension or 'auto'}", answer, found) and right
        each = ", ".join(f"{taken[-1]:.2f}" for taken in times.values())
        print(f"  round {number + 1}: {each} s", flush=True)
    for dimension, each in times.items():
        name = f"--partition {dimension or 'auto'}"
        print(f"  {name:<27} {statistics.median(each):>12.2f} s")
    alone = list(zip(*(times[name] for name in NAMES), strict=True))
    for name, of in (("best", min), ("mean", statistics.mean), ("worst", max)):
        ratios = [of(each) / auto for each, auto in zip(alone, times[None], strict=True)]
        print(f"  {name} single / auto{'':<10} {statistics.median(ratios):>12.2f}")
    return right


def bench_large(spark: SparkSession, folder: Path) -> bool:
    """Ten million subscriptions, a million publications."""
    sizes = (10_000_000, 1_000_000)
    subscriptions, publications = read(spark, folder, sizes, skewed=False)
    print(f"\n{sizes[0]:,} subscriptions x {sizes[1]:,} uniform publications")
    out = str(folder / "pairs")

    def run() -> Answer:
        match_partitioned(publications, subscriptions).write.parquet(out)
        return summed(spark.read.parquet(out))

    took_s, answer, most_mb = with_most_memory(run)
    print(f"  pairs, written as Parquet   {answer[0]:>12,}")
    print(f"  --partition auto            {took_s:>12.0f} s")
    print(f"  memory at most              {most_mb:>12,.0f} MB")
    return check_on_sample(publications, subscriptions, spark.read.parquet(out))


def read(
    spark: SparkSession, folder: Path, sizes: tuple[int, int], *, skewed: bool
) -> tuple[DataFrame, DataFrame]:
    write_tables(folder, *sizes, skewed=skewed)
    subscriptions, publications = (
        spark.read.parquet(str(folder / name)) for name in ("subscriptions", "publications")
    )
    return subscriptions, publications


def main(chosen: Sequence[str]) -> int:
    works: dict[str, Callable[[SparkSession, Path], bool]] = {
        "skewed": lambda spark, at: bench(spark, at, (1_000_000, 200_000), skewed=True),
        "uniform": lambda spark, at: bench(spark, at, (1_000_000, 200_000), skewed=False),
        "large": bench_large,
    }
    unknown = [name for name in chosen if name not in works]
    if unknown:
        print(f"no workload {unknown[0]!r}; there are: {', '.join(works)}", file=sys.stderr)
        return 2
    results = []
    for name in chosen or ("skewed", "uniform"):
        with (
            tempfile.TemporaryDirectory(prefix="shoal-bench-") as folder,
            spark_session("bench", master="local[2]", memory="2g") as spark,
        ):
            started = time.perf_counter()
            results.append(works[name](spark, Path(folder)))
            print(f"  all this took {time.perf_counter() - started:.0f} s")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
