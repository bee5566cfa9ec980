"""Independent pieces of work as one Spark job: a task each, on as many cores as there are.

The work is ordinary Python objects that Spark only carries to its workers, pickled, a row and a
partition each, and calls there; so a laptop's two cores and a cluster's two thousand run the same
list. Tasks start in the order they are given: put the long ones first. A task that raises fails
alone, the others go on; its exception comes back as text.

Example: `run_tasks(spark, [partial(pow, 2, n) for n in range(9)], [1.0] * 9, progress=print)`.
"""

from __future__ import annotations

import itertools
import math
import pickle
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession

from shoal.pipeline.progress import stages_of
from shoal.pipeline.session import another_session, is_connect
from shoal.pipeline.tables import check_is_shared
from shoal.pipeline.worker import this_worker

# Interval of progress reports; a display needs no more.
REPORT_INTERVAL_S = 0.5
# A cancelled job's workers are waited for so long.
CANCEL_S = 10.0


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
    writes_to: Path | None = None,
) -> list[TaskOutcome | None]:
    """Every task's outcome, in the order of `tasks`, which must be importable where Spark works.

    `weights` say how long tasks take, in any unit.  After `within_s` the job is cancelled, tasks
    that run included: then no outcome is known, and all are None.  So tasks whose results matter
    then leave them in files.  An interrupt cancels the job and passes on.  TableError if the tasks
    write below the folder `writes_to`, and a worker does not see that.
    """
    if not tasks or (within_s is not None and within_s <= 0):
        return [None] * len(tasks)
    ends_s = math.inf if within_s is None else time.monotonic() + within_s
    if writes_to is not None:
        check_is_shared(spark, writes_to)
    if len(weights) != len(tasks):
        raise ValueError(f"{len(tasks)} tasks have {len(weights)} weights")
    # A classic session interrupts by tags only what its calling thread has submitted, so there the
    # job has a session of its own. Spark Connect finds the tags of all threads.
    session = spark if is_connect(spark) else another_session(spark)
    job = _job(session, tasks)
    tag = f"tasks-{uuid.uuid4()}"
    collected: list[list[Any]] = []
    failures: list[BaseException] = []

    def submit() -> None:
        # A tag is a property of the thread that submits the job.
        session.addTag(tag)
        try:
            collected.append(job.collect())
        except Exception as error:
            failures.append(error)

    # Tasks start in order, so the done ones are taken for the first ones.
    shares = list(itertools.accumulate(weights, initial=0.0))
    total = shares[-1] or 1.0
    thread = threading.Thread(target=submit, daemon=True)
    with stages_of(spark) as stages:
        thread.start()
        try:
            done = 0
            while thread.is_alive():
                thread.join(min(REPORT_INTERVAL_S, max(0.0, ends_s - time.monotonic())))
                if thread.is_alive() and time.monotonic() >= ends_s:
                    _cancel(session, tag)
                    thread.join(CANCEL_S)
                    return [None] * len(tasks)
                of_tasks = (each.done for each in stages() if each.tasks == len(tasks))
                done = max(done, *of_tasks, 0)
                progress(Progress(done, min(1.0, shares[done] / total)))
        except BaseException:
            # After Ctrl-C its Java may have ended.
            with suppress(Exception):
                _cancel(session, tag)
            raise
    if failures:
        raise failures[0]
    outcomes: dict[int, TaskOutcome] = {row[0]: pickle.loads(row[1]) for row in collected[0]}
    share = sum(weight for number, weight in enumerate(weights) if number in outcomes) / total
    progress(Progress(len(outcomes), min(1.0, share)))
    return [outcomes.get(number) for number in range(len(tasks))]


def _cancel(session: SparkSession, tag: str) -> None:
    if is_connect(session):
        session.interruptTag(tag)
    else:
        session.interruptAll()


def _job(spark: SparkSession, tasks: Sequence[Callable[[], Any]]) -> DataFrame:
    """Return the outcomes, to be computed: columns `number`, and `outcome`, pickled."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number, task in zip(*(each.to_pylist() for each in batch.columns), strict=True):
                outcome = this_worker().do(partial(_attempt_pickled, task))
                yield pa.record_batch(
                    {
                        "number": pa.array([number], pa.int32()),
                        "outcome": pa.array([outcome], pa.binary()),
                    }
                )

    rows = [(number, _pickled(task)) for number, task in enumerate(tasks)]
    table = spark.createDataFrame(rows, "number int, task binary")
    spread = table.repartitionById(len(tasks), "number")
    return spread.mapInArrow(work, "number int, outcome binary")


def _pickled(given: object) -> bytes:
    """Return an object that may hold functions of a notebook, as bytes."""
    return bytes(cloudpickle.dumps(given))  # type: ignore[no-untyped-call]


def attempt(task: Callable[[], Any]) -> TaskOutcome:
    """Return a task's outcome, whatever it raises."""
    try:
        return TaskOutcome(task(), None)
    except Exception as error:
        return TaskOutcome(None, f"{type(error).__name__}: {error}")


def _attempt_pickled(task: bytes) -> bytes:
    return _pickled(attempt(pickle.loads(task)))
