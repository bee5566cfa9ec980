"""How far Spark's jobs are: the stages that it works on, and their tasks.

A classic session is asked for its active stages; Spark Connect tells a handler. Both are only for
people who wait: no result depends on it, and where Spark tells nothing there are no stages.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeAlias

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from shoal.pipeline.session import is_connect


class StageTasks(NamedTuple):
    """A stage, and how many of its tasks are done."""

    stage: int
    done: int
    tasks: int


AskStages: TypeAlias = Callable[[], list[StageTasks]]


@contextlib.contextmanager
def stages_of(spark: SparkSession) -> Iterator[AskStages]:
    """Give a function that returns the stages which Spark works on at the moment."""
    if not is_connect(spark):
        # The one use of the context: a classic session has no other way to tell.
        yield _asking(spark.sparkContext.statusTracker())
        return
    told: dict[str, list[StageTasks]] = {}

    def hear(
        stages: Iterable[Any] | None, inflight_tasks: int, operation_id: str | None, done: bool
    ) -> None:
        told[str(operation_id)] = [] if done else [
            StageTasks(each.stage_id, each.num_completed_tasks, each.num_tasks)
            for each in stages or ()
            if not each.done
        ]  # fmt: skip

    handler: Any = hear  # Spark calls an abstract class a handler, and takes any function.
    spark.registerProgressHandler(handler)
    try:
        yield lambda: [each for stages in list(told.values()) for each in stages]
    finally:
        spark.removeProgressHandler(handler)


def _asking(tracker: Any) -> AskStages:
    def ask() -> list[StageTasks]:
        found = []
        # A Spark that ends meanwhile answers no more.
        with contextlib.suppress(Py4JError, OSError):
            for stage in sorted(tracker.getActiveStageIds()):
                info = tracker.getStageInfo(stage)
                if info is not None and info.numTasks:
                    found.append(StageTasks(stage, info.numCompletedTasks, info.numTasks))
        return found

    return ask
