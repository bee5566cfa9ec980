"""Commands as forks of a process that has imported everything, as the brokers of `shoal up` are.

A fresh interpreter spends half a second of processor time on imports, and the tests start hundreds
of brokers. The fork server (`shoal.runtime.forks`) imports once for each process of pytest; it has
no threads, loop or sockets of a test that a fork could inherit. Its forks share one hash seed.
Tests of the commands themselves, and `tests/runtime/process/test_forked.py`, start fresh
interpreters.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path

from shoal.cli.main import main
from shoal.overlays.registry import FURTHER, SYSTEMS
from shoal.runtime import forks

_orders = count(1)


class Forked(forks.Forked):
    """`shoal` with these words, in a process of its own, with the part of `subprocess.Popen` that
    tests use.
    """

    def __init__(self, words: Sequence[str], log: Path) -> None:
        reader, writer = multiprocessing.Pipe(duplex=False)
        super().__init__(_run, tuple(words), dict(os.environ), Path.cwd(), writer, log)
        self._log = log
        with reader, writer:
            self._process.start()
            self.stdout = open(os.dup(reader.fileno()), encoding="utf-8")  # noqa: PTH123, SIM115

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float) -> int:
        self._process.join(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired("shoal", timeout)
        return self.returncode

    def communicate(self, timeout: float) -> tuple[str, str]:
        """Wait for its end; its output, of less than a pipe's 64 KiB, and its log."""
        self.wait(timeout)
        with self.stdout:
            return self.stdout.read(), self._log.read_text(encoding="utf-8")

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal, unless the process has ended."""
        with suppress(ProcessLookupError):
            super().send_signal(number)


def order(folder: Path, *words: str) -> Forked:
    """`shoal` with these words; its errors are in a file of the folder."""
    return Forked(words, folder / f"order-{next(_orders)}.log")


def _run(
    words: tuple[str, ...], environment: dict[str, str], folder: Path, output: Connection, log: Path
) -> None:
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    # A background job may ignore interrupts, and its forks with it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with output, log.open("ab") as errors:
        os.dup2(output.fileno(), 1)
        os.dup2(errors.fileno(), 2)
    # As in a command's own process: the server's objects could be searched, and these cannot.
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", 1, closefd=False)
    # Named after the server's question.
    for module in filter(None, environment.get(FURTHER, "").split(",")):
        system = importlib.import_module(module).SYSTEM
        SYSTEMS[system.name] = system
    sys.argv = ["shoal", *words]
    main()
