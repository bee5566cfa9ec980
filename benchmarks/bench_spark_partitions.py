"""Partitioned matching on Spark: millions of subscriptions, skewed data, one dimension.

Run `python benchmarks/bench_spark_partitions.py [skewed] [uniform] [large]` (default: the first
two). Subscriptions are boxes of width 30 on four dimensions of length 1000, normal around a hot
spot of each (sd 100). Publications are uniform; or, skewed, they come from 12 places, each as wide
as a subscription; each coordinate of a place is, by a coin, drawn near the hot spot or anywhere.
`auto` is timed against each of the four dimensions alone, planned and matched in the same way. The
output has the ratio to the best, the mean and the worst of them, in rounds in which all take turns:
by time, and by the processor time of Spark and its workers, which hardly depends on other work of
the machine. All pairs are compared by count and checksum, and on a sample of the subscriptions with
the engine that broadcasts them.

`large` is 10,000,000 subscriptions and 1,000,000 publications, once, by `auto`; it prints the peak
memory of Spark and its workers together.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from bench_spark_matching import Answer, agreed, summed, timed
from shoal.pipeline.matching.compiled_matching import match_tables
from shoal.pipeline.matching.partitioned_matching import match_partitioned
from shoal.pipeline.session import spark_session

NAMES = ("a0", "a1", "a2", "a3")
HOT_SPOTS = (125.0, 375.0, 625.0, 875.0)
DEVIATION = 100.0
WIDTH = 30.0
ROUNDS = 3
CHECKED_SUBSCRIPTIONS = 200_000


def write_tables(
    folder: Path, subscriptions: int, publications: int, *, places: int, files: int = 8
) -> None:
    """Both tables as folders of Parquet, a part after the other."""
    random = np.random.default_rng(1)
    shape = places, len(NAMES)
    near = random.normal(HOT_SPOTS, DEVIATION, shape)
    centres = np.where(random.random(shape) < 0.5, near, random.uniform(0, 1000, shape))
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
        if places:
            points = centres[random.integers(0, places, size)]
            points = points + random.uniform(-WIDTH / 2, WIDTH / 2, points.shape)
        columns = {"id": np.arange(size) + part * size}
        columns |= {name: points[:, at] for at, name in enumerate(NAMES)}
        pq.write_table(pa.table(columns), folder / "publications" / f"{part}.parquet")


class Watch:
    """Samples this process and its children: processor time, and peak memory."""

    def __init__(self) -> None:
        self.used_s = 0.0
        self.most_mb = 0.0
        self._known: dict[int, float] = {}
        self._is_done = threading.Event()
        self._thread = threading.Thread(target=self._go_on)

    def __enter__(self) -> Self:
        self._known = {number: used for number, (_, used) in own_processes().items()}
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_done.set()
        self._thread.join()

    def _go_on(self) -> None:
        is_done = False
        while not is_done:
            # Sampling costs processor time, too.
            is_done = self._is_done.wait(2.0)
            now = own_processes()
            self.most_mb = max(self.most_mb, sum(memory for memory, _ in now.values()))
            for number, (_, used) in now.items():
                self.used_s += used - self._known.get(number, 0.0)
                self._known[number] = used


def own_processes() -> dict[int, tuple[float, float]]:
    """By process: memory in MB, and seconds of processor time."""
    parents: dict[int, int] = {}
    found: dict[int, tuple[float, float]] = {}
    tick_s = 1 / os.sysconf("SC_CLK_TCK")
    for process in Path("/proc").glob("[0-9]*"):
        try:
            after_name = (process / "stat").read_text("utf-8").rpartition(")")[2].split()
            pages = int((process / "statm").read_text("ascii").split()[1])
        except OSError:
            continue
        number = int(process.name)
        parents[number] = int(after_name[1])
        found[number] = pages * 4096 / 1e6, (int(after_name[11]) + int(after_name[12])) * tick_s
    own = {os.getpid()}
    while more := {each for each, parent in parents.items() if parent in own} - own:
        own |= more
    return {each: found[each] for each in own if each in found}


def check_on_sample(publications: DataFrame, subscriptions: DataFrame, pairs: DataFrame) -> bool:
    """Whether the pairs of some subscriptions are those of the engine that broadcasts them."""
    some = subscriptions.where(F.col("id") % 97 == 5).limit(CHECKED_SUBSCRIPTIONS)
    ours = pairs.where(F.col("subscription") % 97 == 5)
    return agreed("broadcast, on a sample", summed(ours), summed(match_tables(publications, some)))


def bench(spark: SparkSession, folder: Path, sizes: tuple[int, int], *, places: int) -> bool:
    """Auto beside each dimension alone; whether all agree."""
    subscriptions, publications = read(spark, folder, sizes, places=places)
    kind = f"publications from {places} places" if places else "uniform publications"
    print(f"\n{sizes[0]:,} subscriptions x {sizes[1]:,} {kind}")

    def run(dimension: str | None) -> Answer:
        return summed(match_partitioned(publications, subscriptions, dimension=dimension))

    answer = run(None)
    print(f"  pairs                       {answer[0]:>12,}")
    pairs = match_partitioned(publications, subscriptions)
    right = check_on_sample(publications, subscriptions, pairs)
    wall_s: dict[str, list[float]] = {}
    processor_s: dict[str, list[float]] = {}
    for _ in range(ROUNDS):
        for name in ("auto", *NAMES):
            with Watch() as watch:
                took_s, found = timed(lambda name=name: run(None if name == "auto" else name))
            wall_s.setdefault(name, []).append(took_s)
            processor_s.setdefault(name, []).append(watch.used_s)
            right = agreed(f"--partition {name}", answer, found) and right
            print(
                f"  --partition {name:<15} {took_s:>12.2f} s {watch.used_s:>12.2f} s used",
                flush=True,
            )
    for what, times in (("time", wall_s), ("used", processor_s)):
        alone = list(zip(*(times[name] for name in NAMES), strict=True))
        for name, of in (("best", min), ("mean", statistics.mean), ("worst", max)):
            ratios = [of(each) / auto for each, auto in zip(alone, times["auto"], strict=True)]
            print(f"  {what}: {name:<5} single / auto {statistics.median(ratios):>11.2f}")
    return right


def bench_large(spark: SparkSession, folder: Path) -> bool:
    """Ten million subscriptions, a million publications."""
    sizes = (10_000_000, 1_000_000)
    subscriptions, publications = read(spark, folder, sizes, places=0)
    print(f"\n{sizes[0]:,} subscriptions x {sizes[1]:,} uniform publications")
    out = str(folder / "pairs")

    def run() -> Answer:
        match_partitioned(publications, subscriptions).write.parquet(out)
        return summed(spark.read.parquet(out))

    with Watch() as watch:
        took_s, answer = timed(run)
    print(f"  pairs, written as Parquet   {answer[0]:>12,}")
    print(f"  --partition auto            {took_s:>12.0f} s")
    print(f"  memory at most              {watch.most_mb:>12,.0f} MB")
    return check_on_sample(publications, subscriptions, spark.read.parquet(out))


def read(
    spark: SparkSession, folder: Path, sizes: tuple[int, int], *, places: int
) -> tuple[DataFrame, DataFrame]:
    write_tables(folder, *sizes, places=places)
    subscriptions, publications = (
        spark.read.parquet(str(folder / name)) for name in ("subscriptions", "publications")
    )
    return subscriptions, publications


def main(chosen: Sequence[str]) -> int:
    works: dict[str, Callable[[SparkSession, Path], bool]] = {
        "skewed": lambda spark, at: bench(spark, at, (2_000_000, 200_000), places=12),
        "uniform": lambda spark, at: bench(spark, at, (2_000_000, 200_000), places=0),
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
