"""Ctrl-C ends Spark at any moment: quietly, and no Java goes on without anybody who knows of it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from shoal.cli.main import STOPPED_EXIT_CODE

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


@contextlib.contextmanager
def started(start: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT.format(start=start)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            if is_there(process):
                os.killpg(process.pid, signal.SIGKILL)


def is_there(process: subprocess.Popen[str]) -> bool:
    """Whether it, or whatever it has started, is running."""
    try:
        os.killpg(process.pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize(
    ("start", "said", "later_s"),
    [(SESSION, "starts", 0.7), (COMMAND, "starts", 1.5), (COMMAND, "works", 1.5)],
    ids=["a session starts", "a command starts", "a command works"],
)
def test_ctrl_c_is_quiet_and_leaves_nothing_running(start: str, said: str, later_s: float) -> None:
    """Interrupted as it started Java was left behind for ever, later there were tracebacks."""
    with started(start) as process:
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
        assert process.stderr.read() == ""
