"""Tasks in processes of their own: a worker of Spark's forks one for each but its first.

Spark has a worker collect its garbage after each task. A simulated network is millions of objects
that refer to one another, and collecting it takes 6 to 27 % of the time of its simulation. A
process that ends need not. The worker does its first task itself, so that code which is imported or
compiled on the way is there for all others.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import threading
from collections.abc import Callable
from functools import cache
from multiprocessing.connection import Connection
from typing import TypeVar

Outcome = TypeVar("Outcome")

# New objects per collection in a task's process, and collections of one generation per one of the
# next: simulations leave little garbage while they run.
THRESHOLDS = (100_000, 50, 1_000)


@cache
def this_worker() -> Worker:
    """Return the worker that this process is: tasks of one job find the same one."""
    return Worker()


class Worker:
    """A process that does tasks one after the other."""

    def __init__(self) -> None:
        self._has_code = False

    def do(self, task: Callable[[], Outcome]) -> Outcome:
        """Return a task's outcome, which can be pickled; the task raises nothing.

        If the task's process is killed, this one ends, too: Spark tells of it.
        """
        if not self._has_code or "fork" not in multiprocessing.get_all_start_methods():
            self._has_code = True
            return task()
        # Objects that are here already are never garbage; looking at them would copy their pages.
        gc.freeze()
        context = multiprocessing.get_context("fork")
        receiver, sender = context.Pipe(duplex=False)
        child = context.Process(target=_send_outcome, args=(task, sender))
        child.start()
        sender.close()
        try:
            outcome: Outcome = receiver.recv()
        except EOFError:
            os._exit(1)
        child.join()
        return outcome


def _send_outcome(task: Callable[[], object], sender: Connection) -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    gc.set_threshold(*THRESHOLDS)
    sender.send(task())


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
