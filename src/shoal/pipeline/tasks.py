"""Independent pieces of work as one Spark job: a task each, on as many cores as there are.

The work is ordinary Python objects that Spark only carries to its workers and calls there; so a
laptop's two cores and a cluster's two thousand run the same list. Tasks start in the order they are
given: put the long ones first. A task that raises fails alone, the others go on; its exception
comes back as text.

Example: `run_tasks(spark, [partial(pow, 2, n) for n in range(9)], [1.0] * 9, progress=print)`.
"""

from __future__ import annotations

import math
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from pyspark.sql import SparkSession

# Interval of progress reports; a display needs no more.
REPORT_INTERVAL_S = 0.5


class Progress(NamedTuple):
    """Tasks that are done, and the share of the whole job's weight that they were."""

    done: int
    share: float


class TaskOutcome(NamedTuple):
    """Outcome of a task: its result, or the error that it raised."""

    result: Any
    error: str | None


def run_tasks(
    spark: SparkSession,
    tasks: Sequence[Callable[[], Any]],
    weights: Sequence[float],
    progress: Callable[[Progress], None],
    within_s: float | None = None,
) -> list[TaskOutcome | None]:
    """Every task's outcome, in the order of `tasks`, which must be importable where Spark works.

    `weights` say how long tasks take, in any unit.  A task that has not begun `within_s` is left
    out: its outcome is None.  An interrupt cancels the job and passes on.
    """
    if not tasks:
        return []
    context = spark.sparkContext
    done, weight = context.accumulator(0), context.accumulator(0.0)
    group = f"tasks-{uuid.uuid4()}"
    outcomes: dict[int, TaskOutcome] = {}
    failures: list[BaseException] = []
    # By the wall clock, which the workers' machines have, too.
    until = math.inf if within_s is None else time.time() + within_s

    def work(numbered: Iterable[tuple[int, Callable[[], Any], float]]) -> Iterator[Any]:
        for number, task, size in numbered:
            if time.time() >= until:
                return
            yield number, *_attempt(task)
            done.add(1)
            weight.add(size)

    def submit() -> None:
        # The group of jobs is a property of the thread that submits them.
        context.setJobGroup(group, "tasks", interruptOnCancel=True)
        try:
            numbered = list(zip(range(len(tasks)), tasks, weights, strict=True))
            spread = context.parallelize(numbered, len(numbered))
            for number, result, error in spread.mapPartitions(work).collect():
                outcomes[number] = TaskOutcome(result, error)
        except Exception as error:
            failures.append(error)

    total = sum(weights) or 1.0
    thread = threading.Thread(target=submit, daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(REPORT_INTERVAL_S)
            progress(Progress(done.value, min(1.0, weight.value / total)))
    except BaseException:
        context.cancelJobGroup(group)
        raise
    if failures:
        raise failures[0]
    return [outcomes.get(number) for number in range(len(tasks))]


def _attempt(task: Callable[[], Any]) -> tuple[Any, str | None]:
    try:
        return task(), None
    except Exception as error:
        return None, f"{type(error).__name__}: {error}"
