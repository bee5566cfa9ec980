"""Ctrl-C for commands on asyncio: heard at once, and the end of them whatever does not answer.

Python runs a signal's handler between two of its own steps.  A signal that comes just before the
loop goes to sleep is only noted, and handled when something wakes the loop: for a client that gets
nothing that is its next ping.  A file descriptor to which Python writes at each signal wakes it
(`signal.set_wakeup_fd`).  And a thread that asks for a name's address cannot be stopped, so the
process does not wait for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")


def run_until_interrupted(main: Coroutine[Any, Any, T]) -> T:
    """Run `main` and return its result; SIGINT cancels it and raises KeyboardInterrupt."""
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        loop.set_default_executor(_Forsaken())
        with _woken(loop):
            return runner.run(main)


def may_stop_here() -> contextlib.AbstractContextManager[None]:
    """SIGINT ends work in this block at once: a write that waits for a reader, say."""
    return _handled_by(signal.default_int_handler)


@contextlib.contextmanager
def only_noted() -> Iterator[list[int]]:
    """Note SIGINT in the list instead of raising."""
    heard: list[int] = []
    with _handled_by(lambda number, _: heard.append(number)):
        yield heard


@contextlib.contextmanager
def _handled_by(handler: Callable[[int, FrameType | None], Any]) -> Iterator[None]:
    """SIGINT is, in this block, unless it is ignored."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN or not _is_main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def drop_output() -> None:
    """Drop pending output, since its reader may be gone."""
    with contextlib.suppress(OSError, ValueError):  # a test's output is no file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


@contextlib.contextmanager
def _woken(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Each signal wakes the loop, so that its handler runs."""
    if not _is_main_thread():
        yield
        return
    ours, pythons = socket.socketpair()
    with ours, pythons:
        ours.setblocking(False)
        pythons.setblocking(False)
        loop.add_reader(ours, ours.recv, 64)
        before = signal.set_wakeup_fd(pythons.fileno(), warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(before)
            loop.remove_reader(ours)


class _Forsaken(ThreadPoolExecutor):
    """Has a thread for each call, and waits for none in the end."""

    def submit(self, call: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        """Make a call, by a thread of its own."""
        future: Future[Any] = Future()
        threading.Thread(target=_make, args=(future, call, arguments, named), daemon=True).start()
        return future


def _make(
    future: Future[Any],
    call: Callable[..., Any],
    arguments: tuple[Any, ...],
    named: dict[str, Any],
) -> None:
    if future.set_running_or_notify_cancel():
        try:
            future.set_result(call(*arguments, **named))
        except Exception as error:
            future.set_exception(error)
