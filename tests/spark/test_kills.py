"""Streams from a network's log, and back into it, while drivers and brokers are killed.

Each record is read once, and each row is published once.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from shoal.client import Client, Keep
from shoal.log.merging import merged
from shoal.log.records import LogRecord
from shoal.log.remote import open_logs
from shoal.runtime.network_file import load_network
from shoal.runtime.supervisor import get_json
from tests.runtime.live import PATIENCE_S
from tests.spark.batch_job import rows_of

# The last run has all that is left, on a machine that may be busy.
ONCE_S = 600.0
JOB = Path(__file__).with_name("stream_job.py")
BATCHES = Path(__file__).with_name("batch_job.py")


@contextmanager
def network_of(folder: Path) -> Iterator[Path]:
    """A network of two brokers with logs, whose brokers start again when they are killed."""
    words = ["up", "-n", "2", "--port", "0", "--log", "--folder", str(folder)]
    command = [sys.executable, "-m", "shoal.cli.main", *words, "--data", str(folder / "data")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("Ctrl-C"):
                break
        try:
            yield folder / "network.toml"
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(PATIENCE_S)


class Publishing:
    """Publishes numbers at every broker, acknowledged, until it is stopped."""

    def __init__(self, network: Path, pause_s: float = 0.01) -> None:
        self._brokers = load_network(network).brokers
        self._pause_s = pause_s
        self._is_over = False
        self.acknowledged: set[bytes] = set()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))
        self._thread.start()

    async def _run(self) -> None:
        async def publish(name: str, address: str) -> None:
            async with Client(address, f"p-{name}") as client:
                number = 0
                while not self._is_over:
                    payload = f"{name} {number}".encode()
                    await client.publish("t", payload, qos=1)
                    self.acknowledged.add(payload)
                    number += 1
                    await asyncio.sleep(self._pause_s)

        await asyncio.gather(*(publish(each.name, each.mqtt) for each in self._brokers))

    def stop(self) -> None:
        self._is_over = True
        self._thread.join()


def job(
    network: Path, folder: Path, how: str, out: str = "", *master: str
) -> subprocess.Popen[str]:
    words = [str(network), out or str(folder / "out"), str(folder / "checkpoint"), how]
    return driver(JOB, *words, *master)


def driver(script: Path, *words: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, str(script), *words],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "streams\n"
    return process


def kill(process: subprocess.Popen[str]) -> None:
    """The driver, its Java and its workers, as a machine that fails."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


def kill_broker(network: Path, chance: random.Random) -> None:
    broker = chance.choice(load_network(network).brokers)
    address = broker.address("admin")
    assert address is not None
    with suppress(OSError):  # it may be starting again
        with_status: dict[str, Any] = asyncio.run(get_json(address, "/status"))
        os.kill(with_status["pid"], signal.SIGKILL)


def records(network: Path) -> dict[tuple[str, int], LogRecord]:
    """All publications that the brokers have logged."""
    logs = open_logs(str(network))
    bounds = {name: each.bounds() for name, each in logs.items()}
    begins = {name: each.first for name, each in bounds.items()}
    ends = {name: each.next for name, each in bounds.items()}
    return {
        (row.broker, row.offset): row.record
        for row in merged(logs, begins, ends)
        if isinstance(row.record, LogRecord)
    }


class QueueOf:
    """A session at one broker that is not connected: what is published to a topic waits there."""

    def __init__(self, network: Path, topic: str) -> None:
        self._address = load_network(network).brokers[0].mqtt
        self._topic = topic
        asyncio.run(self._subscribe())

    def _client(self) -> Client:
        return Client(self._address, "queue", keep=Keep(seconds=3_600))

    async def _subscribe(self) -> None:
        async with self._client() as client:
            await client.subscribe(self._topic, qos=1).granted()

    def take(self, count: int) -> list[str]:
        """The first `count` messages, and those that come within a second more."""

        async def take() -> list[str]:
            found: list[str] = []
            client = self._client()
            subscription = client.subscribe(self._topic, qos=1)
            async with client:
                while True:
                    patience_s = PATIENCE_S if len(found) < count else 1.0
                    try:
                        async with asyncio.timeout(patience_s):
                            message = await client.next_message(subscription)
                    except TimeoutError:
                        return found
                    found.append(message.payload.decode())

        return asyncio.run(take())


def streamed_rows(spark: SparkSession, folder: Path) -> dict[tuple[str, int], bytes]:
    """The payloads of a stream's table by broker and offset, each of which is there once."""
    # Spark knows which files count: a killed task leaves others.
    rows = spark.read.parquet(str(folder)).collect()
    keys = [(row.broker, row.offset) for row in rows]
    assert [key for key, count in Counter(keys).items() if count > 1] == []
    return {key: bytes(row.payload) for key, row in zip(keys, rows, strict=True)}


def play_back(folder: Path, seed: int, kills: int) -> None:
    """Publish what is read, under kills; the log and a subscriber have each row once."""
    chance = random.Random(seed)
    with network_of(folder) as network:
        queue = QueueOf(network, "out")
        publishing = Publishing(network, pause_s=0.03)
        try:
            for _ in range(kills):
                process = job(network, folder, "always", "topic:out")
                time.sleep(chance.uniform(2, 14))
                for _ in range(chance.randint(0, 2)):
                    kill_broker(network, chance)
                    time.sleep(chance.uniform(0, 1.5))
                kill(process)
        finally:
            publishing.stop()
        last = job(network, folder, "once", "topic:out")
        assert last.wait(ONCE_S) == 0
        logged = records(network)
        read = [f"{broker} {at}" for (broker, at), each in logged.items() if each.topic == "t"]
        published = [each.payload.decode() for each in logged.values() if each.topic == "out"]
        assert sorted(published) == sorted(read)
        assert sorted(queue.take(len(read))) == sorted(read)
    print(f"{len(read)} rows")


def play_batches(folder: Path, seed: int, kills: int) -> None:
    """Commit batches under kills; the log and a subscriber have each row once."""
    chance = random.Random(seed)
    with network_of(folder) as network:
        queue, at = QueueOf(network, "out"), folder / "checkpoint"
        delivered: list[str] = []
        for _ in range(kills):
            process = driver(BATCHES, str(network), str(at), "1000000")
            time.sleep(chance.uniform(0.1, 3))
            for _ in range(chance.randint(0, 2)):
                kill_broker(network, chance)
                time.sleep(chance.uniform(0, 1))
            kill(process)
            delivered += queue.take(0)  # a queue has room for 10,000
        last = 1 + (json.loads(at.read_text()) if at.exists() else 0)
        process = driver(BATCHES, str(network), str(at), str(last))
        try:
            assert process.wait(ONCE_S) == 0
        finally:
            kill(process)
        expected = sorted(row for batch in range(last) for row in rows_of(batch))
        published = [each.payload.decode() for each in records(network).values()]
        assert sorted(published) == expected
        delivered += queue.take(len(expected) - len(delivered))
        assert sorted(delivered) == expected
    print(f"{last} batches")


def play(spark: SparkSession, folder: Path, seed: int, kills: int) -> None:
    chance = random.Random(seed)
    with network_of(folder) as network:
        publishing = Publishing(network)
        try:
            for _ in range(kills):
                process = job(network, folder, "always")
                time.sleep(chance.uniform(0.2, 5))
                if chance.random() < 0.5:
                    kill_broker(network, chance)
                    time.sleep(chance.uniform(0, 2))
                kill(process)
        finally:
            publishing.stop()
        last = job(network, folder, "once")
        assert last.wait(PATIENCE_S) == 0
        logged = {key: each.payload for key, each in records(network).items()}
    assert streamed_rows(spark, folder / "out") == logged
    assert publishing.acknowledged <= set(logged.values())
    print(f"{len(logged)} records, {len(publishing.acknowledged)} acknowledged")


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(20))
def test_a_stream_has_each_record_once_whatever_is_killed(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    play(spark, tmp_path, seed, 5)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(20))
def test_a_stream_publishes_each_row_once_whatever_is_killed(tmp_path: Path, seed: int) -> None:
    play_back(tmp_path, seed, 4)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(30))
def test_batches_are_published_once_whatever_is_killed(tmp_path: Path, seed: int) -> None:
    play_batches(tmp_path, seed, 6)
