"""Running one broker as a process: until a signal says stop, then drained and closed.

`uvloop` is used where it is installed; it is faster, and needed for nothing.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import importlib.util
import logging
import resource
import signal
import sys
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from shoal.matching import MatchIndex
from shoal.model import BrokerId
from shoal.runtime.broker_service import BrokerService
from shoal.runtime.links.joining import JoinAgainError, JoinAttempt
from shoal.runtime.network_file import NetworkFile
from shoal.runtime.parents import is_gone, parent
from shoal.runtime.reloading import bounded

# Nothing else is served while garbage is collected: so many new objects are looked through in some
# 10 ms, and up to three times as many when those that were left before are looked at once more.
# Then never again: of a million subscriptions' objects it takes seconds to say that all are used.
_NEW_PER_COLLECTION = 20_000
_LAST_LOOK, _NEVER = 1, 2**31 - 1
# Blocks of memory beyond those of the start, of which all are looked through now and then.
_FEW_BLOCKS = 150_000
_COLLECTION_PAUSE_S = 60.0
# Blocks of memory of this size are the system's again when they are free: a check of a password
# takes 16 MB, and glibc would keep as much for each thread that has checked one.
_LARGE_BLOCK_BYTES = 4 * 1_024 * 1_024
_M_MMAP_THRESHOLD = -3  # of <malloc.h>
# A terminal that closes says SIGHUP.
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

Result = TypeVar("Result")

_log = logging.getLogger(__name__)


class StoppedError(Exception):
    """A signal asked to stop."""


def serve_broker(
    network: NetworkFile,
    name: BrokerId,
    started: Callable[[BrokerService], None] | None = None,
    read_again: Callable[[], NetworkFile] | None = None,
    joins: Sequence[JoinAttempt] = (),
) -> None:
    """Run a broker until SIGINT or SIGTERM; TlsError, or OSError where it cannot listen.

    At SIGHUP it takes over the result of `read_again`, as far as a running broker can; ValueError
    or OSError from it change nothing.
    """
    _allow_files()
    give_large_blocks_back()
    thresholds = gc.get_threshold()
    MatchIndex.may_wait = False
    try:
        run_until_signal(lambda stop: _serve(network, name, stop, started, read_again, joins))
    finally:
        MatchIndex.may_wait = True
        gc.set_threshold(*thresholds)


async def _serve(
    network: NetworkFile,
    name: BrokerId,
    stop: asyncio.Event,
    started: Callable[[BrokerService], None] | None,
    read_again: Callable[[], NetworkFile] | None,
    joins: Sequence[JoinAttempt],
) -> None:
    """Serve until the broker is to stop; a failed join starts the broker again."""
    if (process := parent()) is not None:
        watching = asyncio.create_task(is_gone(process))
        watching.add_done_callback(lambda _: stop.set())
    while not stop.is_set():
        service = BrokerService(network, name, joins)
        service.at_left = stop.set
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(service.exceptions.on_exception)
        if read_again is not None:
            loop.add_signal_handler(signal.SIGHUP, _reload, service, read_again)
        try:
            if await _has_started(service, stop):
                collecting = asyncio.create_task(_collect_now_and_then(calm_collector()))
                if started is not None:
                    started(service)
                await stop.wait()
                collecting.cancel()
        except JoinAgainError as error:
            _log.warning("joins again", extra={"problem": str(error)})
        finally:
            await service.stop()


async def _has_started(service: BrokerService, stop: asyncio.Event) -> bool:
    """Return whether the broker has started before it was to stop; to join may take it long."""
    starting, stopping = asyncio.create_task(service.start()), asyncio.create_task(stop.wait())
    await asyncio.wait((starting, stopping), return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if not starting.done():
        starting.cancel()
        await asyncio.wait((starting,))
        return False
    starting.result()
    return True


def _reload(service: BrokerService, read_again: Callable[[], NetworkFile]) -> None:
    try:
        fixed = service.reload(read_again())
    except (ValueError, OSError) as error:
        _log.error("not reloaded, nothing has changed", extra={"problem": str(error)})
    else:
        named = {"changed": bounded(service.changed), "takes_a_restart": fixed}
        _log.info("reloaded", extra={key: texts for key, texts in named.items() if texts})


def _allow_files() -> None:
    """Every client is an open file, and shells allow a process 1,024 unless it asks for more."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # a system with a bound of its own keeps it
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def give_large_blocks_back() -> bool:
    """Keep no large block of memory that is free; whether the C library can be told so."""
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    return set_option is not None and bool(set_option(_M_MMAP_THRESHOLD, _LARGE_BLOCK_BYTES))


def calm_collector() -> int:
    """Look for cycles among new objects only, a few at a time; return the number of blocks.

    A broker's long-lived objects have no cycles, except a connection's transport without uvloop.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_NEW_PER_COLLECTION, _LAST_LOOK, _NEVER)
    return sys.getallocatedblocks()


async def _collect_now_and_then(blocks_at_start: int) -> None:
    """Look at all objects, while they are few."""
    while True:
        await asyncio.sleep(_COLLECTION_PAUSE_S)
        if sys.getallocatedblocks() - blocks_at_start < _FEW_BLOCKS:
            gc.collect()


def run_until_signal(main: Callable[[asyncio.Event], Coroutine[Any, Any, None]]) -> None:
    """Run `main` on a loop; the event it is given is set by SIGINT, SIGTERM and SIGHUP."""

    async def run() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, stop.set)
        await main(stop)

    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(run())


def run_or_stop(work: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
    """Run `work` on a loop and return its result; SIGINT and SIGTERM cancel it.

    Cleanup of the work runs then. StoppedError unless it has a result all the same.
    """
    results: list[Result] = []

    async def main(stop: asyncio.Event) -> None:
        working, stopping = asyncio.create_task(work()), asyncio.create_task(stop.wait())
        await asyncio.wait((working, stopping), return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not working.done():
            working.cancel()
            await asyncio.wait((working,))
            if working.cancelled() or working.exception() is not None:
                raise StoppedError
        results.append(working.result())

    run_until_signal(main)
    return results[0]


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    if importlib.util.find_spec("uvloop") is None:
        return None
    import uvloop

    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory
