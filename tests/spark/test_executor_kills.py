"""Streams on a standalone cluster while its executors, the driver and brokers are killed.

The table, the log and a subscriber have each record once.
"""

from __future__ import annotations

import os
import random
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.pipeline.clusters.processes import standalone_cluster
from tests.spark.test_kills import (
    ONCE_S,
    Publishing,
    QueueOf,
    job,
    kill,
    kill_broker,
    network_of,
    records,
    streamed_rows,
)

DRIVERS = 2
ROUNDS = 10


def processes_in(folder: Path) -> list[int]:
    """Executors and their Python workers: processes that work in a folder of the cluster's."""
    found = []
    for process in Path("/proc").iterdir():
        with suppress(OSError):
            if process.name.isdigit() and (process / "cwd").readlink().is_relative_to(folder):
                found.append(int(process.name))
    return found


def kill_workers(folder: Path, chance: random.Random) -> int:
    """Kill one or two processes in which tasks run; return how many."""
    found = [pid for place in sorted(folder.glob("*/work")) for pid in processes_in(place)]
    chosen = chance.sample(found, min(len(found), chance.randint(1, 2)))
    for pid in chosen:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return len(chosen)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(5))
def test_a_cluster_reads_and_publishes_each_row_once_whatever_is_killed(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    chance, killed = random.Random(seed), 0
    cluster, out = tmp_path / "cluster", tmp_path / "out"
    with network_of(tmp_path) as network, standalone_cluster(cluster) as master:
        queue = QueueOf(network, "out")
        publishing = Publishing(network, pause_s=0.1)
        try:
            for _ in range(DRIVERS):
                process = job(network, tmp_path, "always", f"topic:out,{out}", master)
                time.sleep(10)
                for _ in range(ROUNDS):
                    time.sleep(chance.uniform(0.5, 6))
                    killed += kill_workers(cluster, chance)
                    if chance.random() < 0.3:
                        kill_broker(network, chance)
                assert process.poll() is None
                kill(process)
        finally:
            publishing.stop()
        last = job(network, tmp_path, "once", "topic:out")
        assert last.wait(ONCE_S) == 0
        last = job(network, tmp_path, "once", str(out))
        assert last.wait(ONCE_S) == 0
        logged = records(network)
        read = [f"{broker} {at}" for (broker, at), each in logged.items() if each.topic == "t"]
        published = [each.payload.decode() for each in logged.values() if each.topic == "out"]
        assert sorted(published) == sorted(read)
        assert sorted(queue.take(len(read))) == sorted(read)
        assert streamed_rows(spark, out) == {at: each.payload for at, each in logged.items()}
    print(f"{killed} processes of executors killed, {len(read)} rows")
