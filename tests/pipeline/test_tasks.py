"""Work as Spark tasks: ordered outcomes, separate failures, progress, interrupts."""

from __future__ import annotations

import os
import time
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from shoal.cli.support.errors import UserError
from shoal.cli.support.spark import spark_mistakes
from shoal.pipeline.tasks import Progress, TaskOutcome, run_tasks


def test_outcomes_come_in_order_and_a_failure_stays_alone(spark: SparkSession) -> None:
    tasks = [partial(divmod, 7, number) for number in (3, 0, 2)]
    told: list[Progress] = []
    outcomes = run_tasks(spark, tasks, [1.0, 2.0, 5.0], told.append)
    assert [outcome.result for outcome in outcomes] == [(2, 1), None, (3, 1)]
    assert [outcome.error is None for outcome in outcomes] == [True, False, True]
    assert outcomes[1].error is not None
    assert outcomes[1].error.startswith("ZeroDivisionError: ")
    assert told[-1] == Progress(3, 1.0)


def test_no_process_does_two_tasks(spark: SparkSession) -> None:
    outcomes = run_tasks(spark, [os.getpid] * 8, [1.0] * 8, lambda progress: None)
    assert len({outcome.result for outcome in outcomes if outcome is not None}) == 8


def test_nothing_to_do(spark: SparkSession) -> None:
    assert run_tasks(spark, [], [], lambda progress: None) == []


def work_for_ever(note: Path) -> None:
    """Say which process works."""
    note.write_text(str(os.getpid()))
    while True:
        time.sleep(0.1)


def test_an_interrupt_ends_the_work_and_spark_stays_usable(
    spark: SparkSession, tmp_path: Path
) -> None:
    note = tmp_path / "process"

    def interrupt(progress: Progress) -> None:
        if note.exists() and note.read_text():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_tasks(spark, [partial(work_for_ever, note)], [1.0], interrupt)
    process = Path("/proc") / note.read_text()
    until = time.monotonic() + 60
    while process.exists() and time.monotonic() < until:
        time.sleep(0.1)
    assert not process.exists()
    again = run_tasks(spark, [partial(pow, 2, 5)], [1.0], lambda progress: None)
    assert again == [TaskOutcome(32, None)]


def test_work_ends_in_time_whatever_is_left(spark: SparkSession, tmp_path: Path) -> None:
    note = tmp_path / "process"
    tasks = [partial(work_for_ever, note), *(partial(time.sleep, 30) for _ in range(300))]
    began = time.monotonic()
    outcomes = run_tasks(spark, tasks, [1.0] * len(tasks), lambda progress: None, 5.0)
    took_s = time.monotonic() - began
    assert outcomes == [None] * len(tasks)
    assert 5.0 <= took_s < 60.0
    process = Path("/proc") / note.read_text()
    until = time.monotonic() + 60
    while process.exists() and time.monotonic() < until:
        time.sleep(0.1)
    assert not process.exists()
    assert run_tasks(spark, [partial(pow, 2, 5)], [1.0], lambda progress: None) == [
        TaskOutcome(32, None)
    ]


def test_without_time_nothing_begins(spark: SparkSession) -> None:
    tasks = [partial(pow, 2, number) for number in range(4)]
    assert run_tasks(spark, tasks, [1.0] * 4, lambda progress: None, 0.0) == [None] * 4
    outcomes = run_tasks(spark, tasks, [1.0] * 4, lambda progress: None, 600.0)
    assert [outcome and outcome.result for outcome in outcomes] == [1, 2, 4, 8]


def test_a_process_that_is_killed_is_told_of_in_a_line(spark: SparkSession) -> None:
    """As a machine does that has no memory left."""
    killed = r"^Spark could not do this: a process of its was killed, as when memory is short$"
    with pytest.raises(UserError, match=killed), spark_mistakes():
        run_tasks(spark, [partial(os._exit, 9)], [1.0], progress=lambda _: None)
    assert run_tasks(spark, [partial(pow, 2, 3)], [1.0], progress=lambda _: None) == [
        TaskOutcome(8, None)
    ]
