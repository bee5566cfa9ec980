"""Brokers' processes, forked from one that has loaded all that a broker needs.

A fresh interpreter spends half a second of processor time on that. A fork spends next to none, and
shares loaded modules.
"""

from __future__ import annotations

import asyncio
import importlib
import multiprocessing
import os
import signal
from collections.abc import Callable, Sequence
from multiprocessing import forkserver
from pathlib import Path

from setproctitle import setproctitle

from shoal.model import BrokerId
from shoal.runtime.parents import stop_with_parent

# The fork server loads this module; it has the function that a fork runs.
_MODULE = "shoal.cli.broker_process"
_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload([_MODULE])


def prepare() -> None:
    """Begin to load the modules that forks share, while this process does other work."""
    forkserver.ensure_running()


class Forked:
    """A process that runs a function of a module, in a fork; it ends with this one at the latest.

    The fork gets the function's arguments, and its module's name.
    """

    def __init__(self, run: Callable[..., None], *arguments: object) -> None:
        # daemon: a child that still runs when this process ends is ended.
        self._process = _SERVER.Process(target=run, args=arguments, daemon=True)

    @property
    def pid(self) -> int:
        """Once it has started."""
        assert self._process.pid is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """Once it has ended; a signal's number, negative, if one ended it."""
        return self._process.exitcode

    def send_signal(self, number: signal.Signals) -> None:
        """ProcessLookupError when it has ended."""
        if self.returncode is not None:
            raise ProcessLookupError
        os.kill(self.pid, number)


class Fork(Forked):
    """One that the loop waits for."""

    def __init__(self, run: Callable[..., None], *arguments: object) -> None:
        super().__init__(run, *arguments)
        self._ended = asyncio.Event()

    async def start(self) -> None:
        """The first waits until all is loaded."""
        await asyncio.to_thread(self._process.start)
        asyncio.get_running_loop().add_reader(self._process.sentinel, self._reap)

    def _reap(self) -> None:
        asyncio.get_running_loop().remove_reader(self._process.sentinel)
        self._process.join()
        self._ended.set()

    async def wait(self) -> int:
        await self._ended.wait()
        assert self.returncode is not None
        return self.returncode


def broker_fork(
    network_file: Path, broker: BrokerId, log: Path, joins: Sequence[BrokerId] = ()
) -> Fork:
    """One broker of the network in a file; it may join the network over one of these."""
    return Fork(_run, network_file.absolute(), broker, log.absolute(), tuple(joins))


def stand_alone(log: Path) -> None:
    """Have this fork's process be one like any other, which writes to `log`."""
    os.setsid()  # Ctrl-C goes to the parent, which stops the child in order
    # Inherited descriptors would keep the server alive after its parent is gone.
    os.closerange(3, 256)
    with log.open("ab") as output, Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    stop_with_parent()


def _run(network_file: Path, broker: BrokerId, log: Path, joins: Sequence[BrokerId]) -> None:
    stand_alone(log)
    setproctitle(f"shoal serve {network_file} --broker {broker}")
    importlib.import_module(_MODULE).run(str(network_file), broker, joins)
