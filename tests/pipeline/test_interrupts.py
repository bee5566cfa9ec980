"""Ctrl-C ends Spark at any moment, quietly, and leaves no Java process."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

from shoal.cli.main import STOPPED_EXIT_CODE
from tests.examples import at_length
from tests.java_archive import OPTIONS, quick_java

SESSION = "spark_session('test', master='local[1]', memory='512m')"
COMMAND = "spark_command('test', master='local[1]', memory='512m')"
SCRIPT = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from shoal.cli.main import explained
from shoal.cli.support.spark import spark_command
from shoal.pipeline.session import spark_session
from pyspark.sql import SparkSession
print("starts", flush=True)
with explained(), {start}:
    print("works", flush=True)
    spark = SparkSession.getActiveSession()
    spark.range(10**12).selectExpr("max(hash(id))").collect()
"""


STREAM = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from shoal.cli.main import main
main()
"""


@contextlib.contextmanager
def started(script: str, *words: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", script, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=os.environ | {OPTIONS: quick_java()},
    ) as process:
        try:
            yield process
        finally:
            if is_there(process):
                os.killpg(process.pid, signal.SIGKILL)


def is_there(process: subprocess.Popen[str]) -> bool:
    """Whether it, or whatever it has started, is running; those that have ended may stay listed."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, group, *_ = stat.read_text().rpartition(")")[2].split()
            if int(group) == process.pid and state != "Z":
                return True
    return False


def is_quiet(said: str) -> bool:
    """Whether nothing is said but, on a busy machine, how far it is."""
    return all(re.fullmatch(r"shoal: .*, (\d+ min )?\d+ s", line) for line in said.splitlines())


@pytest.mark.parametrize(
    ("start", "said", "later_s"),
    [(SESSION, "starts", 0.7), (COMMAND, "works", 1.5), *at_length([(COMMAND, "starts", 1.5)])],
)
def test_ctrl_c_is_quiet_and_leaves_nothing_running(start: str, said: str, later_s: float) -> None:
    """Interrupted as it started Java was left behind for ever, later there were tracebacks."""
    with started(SCRIPT.format(start=start)) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        while (line := process.stdout.readline()).strip() != said:
            assert line
        time.sleep(later_s)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        assert process.wait(60) == STOPPED_EXIT_CODE
        until_s = time.monotonic() + 20
        while is_there(process) and time.monotonic() < until_s:
            time.sleep(0.1)
        assert not is_there(process)
        assert is_quiet(process.stderr.read())


def test_ctrl_c_is_how_a_stream_ends(tmp_path: Path) -> None:
    publications, subscriptions = tmp_path / "publications", tmp_path / "subscriptions.parquet"
    publications.mkdir()
    pd.DataFrame({"id": ["a", "b"], "price": [1, 9]}).to_parquet(publications / "1.parquet")
    pd.DataFrame({"id": ["s"], "filter": ["price > 5"]}).to_parquet(subscriptions)
    given = ["--subscriptions", str(subscriptions), "--publications", str(publications)]
    spark = ["--engine", "spark", "--master", "local[1]", "--memory", "512m"]
    out = tmp_path / "pairs"
    with started(STREAM, "match", *spark, "--stream", *given, "--out", str(out)) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        while not (out / "batch=0").exists():
            assert process.poll() is None
            time.sleep(0.1)
        time.sleep(1)
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(60) == 0
        assert "│ pairs   │ 1 │" in process.stdout.read()
        assert is_quiet(process.stderr.read())
