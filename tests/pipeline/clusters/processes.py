"""Starts a standalone cluster and a Spark Connect server from PySpark's own jars, for tests."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pyspark

from tests.java_archive import quick_java

ROOT = Path(__file__).parents[3]
SPARK = Path(pyspark.__file__).parent
WAIT_S = 90.0
WORKERS = 2


def environment(**more: str) -> dict[str, str]:
    """Return the variables of a process that finds this checkout, and this Python for workers."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    light = {"SPARK_DAEMON_JAVA_OPTS": quick_java(), "SPARK_DAEMON_MEMORY": "256m"}
    found = {"SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable}
    return kept | light | found | {"SPARK_HOME": str(SPARK)} | more


def free_port() -> int:
    """Return a port that was free a moment ago."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def run_script(script: str, *words: str, **variables: str) -> str:
    """Run a module of the tests in a process without a Spark of its own; return what it prints."""
    command = [sys.executable, "-m", script, *words]
    # Its Java writes into the working folder what is to be lost.
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            command,
            env=environment(**variables),
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-6000:]
    return done.stdout


@contextlib.contextmanager
def standalone_cluster(folder: Path) -> Iterator[str]:
    """A master and two workers, each with a folder of its own; its URL."""
    port = free_port()
    url = f"spark://127.0.0.1:{port}"
    with contextlib.ExitStack() as stack:
        master = ["--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
        command = _class("deploy.master.Master", *master)
        # Executors that tests kill are replaced without end.
        patient = "-Dspark.deploy.maxExecutorRetries=-1"
        starting = _process(folder / "master", command, SPARK_MASTER_OPTS=patient)
        stack.enter_context(starting).wait_for_port(port)
        workers = []
        for number in range(WORKERS):
            place = folder / f"worker{number}"
            options = ["--cores", "1", "--memory", "1g", "--webui-port", "0"]
            options += ["--host", "127.0.0.1", "--work-dir", str(place / "work"), url]
            command = _class("deploy.worker.Worker", *options)
            workers.append(stack.enter_context(_process(place, command)))
        for worker in workers:
            worker.wait_for_text("Successfully registered with master")
        yield url


@contextlib.contextmanager
def connect_server(folder: Path) -> Iterator[str]:
    """A Spark Connect server with two cores of its own; its URL."""
    port = free_port()
    settings = {
        "spark.connect.grpc.binding.port": str(port),
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
    }
    conf = [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
    main = ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    options = [*main, "--master", "local[2]", *conf, "spark-internal"]
    command = _class("deploy.SparkSubmit", *options)
    # A server of Connect has a daemon's memory, whatever its driver's is.
    with _process(folder, command, SPARK_DAEMON_MEMORY="1g") as server:
        server.wait_for_port(port)
        yield f"sc://127.0.0.1:{port}"


def _class(name: str, *options: str) -> list[str]:
    return [str(SPARK / "bin" / "spark-class"), f"org.apache.spark.{name}", *options]


class _Server(NamedTuple):
    """A process that is to serve, and what it writes."""

    process: subprocess.Popen[bytes]
    log: Path

    def wait_for_port(self, port: int) -> None:
        def listens() -> bool:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
                return True
            return False

        self._wait(listens)

    def wait_for_text(self, text: str) -> None:
        self._wait(lambda: text in self._written())

    def _wait(self, is_there: Callable[[], bool]) -> None:
        until = time.monotonic() + WAIT_S
        while not is_there():
            assert self.process.poll() is None, self._written()[-3000:]
            assert time.monotonic() < until, self._written()[-3000:]
            time.sleep(0.1)

    def _written(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")


@contextlib.contextmanager
def _process(folder: Path, command: Sequence[str], **variables: str) -> Iterator[_Server]:
    folder.mkdir(parents=True)
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, env=environment(**variables), cwd=folder, stdout=output, stderr=output
        )
    try:
        yield _Server(process, log)
    finally:
        process.terminate()
        process.wait()
