"""Ctrl-C while Spark starts and works: heard, quiet, and the end of Java as well.

Spark for Python leaves a Java behind for ever that is interrupted as it starts: until it is there,
Ctrl-C waits. Later Spark's own handler of Ctrl-C would call Java in the middle of another call,
which ends in tracebacks: so a session has none. A process that does nothing else ends its Java at
once.
"""

from __future__ import annotations

import contextlib
import logging
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType, SimpleNamespace
from typing import Any

from pyspark import accumulators
from pyspark.core import context
from pyspark.sql import SparkSession


@contextlib.contextmanager
def java_ends_with_it() -> Iterator[None]:
    """At Ctrl-C in this block the process is about to end: so is its Java, without an error
    message.

    Resulting failures become KeyboardInterrupt.
    """
    before = _handler()
    if before is None:
        yield
        return
    heard: list[int] = []

    def end(number: int, frame: FrameType | None) -> None:
        heard.append(number)
        logging.disable()
        # PySpark's server of accumulators would print that Java's end of its connection is gone.
        _silence(accumulators.AccumulatorTCPServer)
        _silence(accumulators.AccumulatorUnixServer)
        if (java := _java()) is not None:
            java.kill()
            java.wait()
        before(number, frame)

    signal.signal(signal.SIGINT, end)
    try:
        yield
    except Exception:
        if heard:
            raise KeyboardInterrupt from None
        raise
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def while_it_starts() -> Iterator[None]:
    """Start a session in this block: at Ctrl-C meanwhile it ends once that is there.

    A second Ctrl-C is obeyed at once.
    """
    before = _handler()
    waiting: list[FrameType | None] = []

    def wait(number: int, frame: FrameType | None) -> None:
        if context.SparkContext._gateway is None and not waiting:
            waiting.append(frame)
        elif before is not None:
            before(number, frame)

    if before is not None:
        signal.signal(signal.SIGINT, wait)
    names: dict[str, Any] = vars(context)
    # By it Spark would say that it wants to hear of Ctrl-C.
    names["signal"] = SimpleNamespace(SIGINT=signal.SIGINT, signal=lambda *_: None)
    try:
        yield
    except Exception:
        if waiting:
            raise KeyboardInterrupt from None
        raise
    finally:
        names["signal"] = signal
        if before is not None:
            signal.signal(signal.SIGINT, before)
    if waiting and before is not None:
        try:
            before(signal.SIGINT, waiting[0])
        except KeyboardInterrupt:
            if (session := SparkSession.getActiveSession()) is not None:
                stop(session)
            raise


def stop(session: SparkSession) -> None:
    """End it, unless its Java has ended."""
    java = _java()
    if java is None or java.poll() is None:
        session.stop()


def _silence(server: Any) -> None:
    """Let a kind of server say nothing of connections that fail."""
    server.handle_error = lambda *_: None


def _java() -> Any:
    """The process, if this one has started it."""
    return getattr(context.SparkContext._gateway, "proc", None)


def _handler() -> Callable[[int, FrameType | None], Any] | None:
    """Return the handler of Ctrl-C, if it can be replaced here and Ctrl-C is not ignored."""
    if threading.current_thread() is not threading.main_thread():
        return None
    handler = signal.getsignal(signal.SIGINT)
    return handler if callable(handler) else None
