"""The executor of studies: sources, runs on all cores, tables and pages, in a folder of its own.

Runs are independent of each other: Spark carries them to whatever cores there are. Each leaves a
file when it is done, so an interrupted study goes on where it was.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer
from rich.console import Console

from shoal.cli.support.errors import FAILED_EXIT_CODE, STOPPED_EXIT_CODE, UserError
from shoal.cli.support.spark import only_session
from shoal.cli.support.steps import CommandStep, CommandSteps

if TYPE_CHECKING:
    from shoal.experiments.studies.runs import Task
    from shoal.experiments.studies.study import StudyPlan
    from shoal.pipeline.session import Spark
    from shoal.pipeline.tasks import Progress
    from shoal.report.study import StudyFinding

NOTES = "what-is-here.txt"
# A cancelled preparation is waited for so long; any preparation has so much time.
CANCEL_S = 10.0
LEAST_S = 10.0
GOES_ON = "interrupted; the same command goes on with the missing runs"
NO_PDF = "no PDF (pip install 'shoal[figures]')"


class StudyMeans(NamedTuple):
    """Folder and time limit of runs."""

    master: str | None
    memory: str | None
    conf: Mapping[str, str]
    minutes: float | None


class FailedRun(NamedTuple):
    """A run that raised an error; its name has its setting and its seed."""

    name: str
    error: str

    def __str__(self) -> str:
        return f"run {self.name} failed: {self.error}"


class RunsEnd(NamedTuple):
    """The end of a study's runs: whether a user interrupted them, and those that failed."""

    is_interrupted: bool = False
    failed: Sequence[FailedRun] = ()


class StudiesDone(NamedTuple):
    """The findings of studies, in part if a user interrupted the runs or some failed."""

    findings: Mapping[str, Sequence[StudyFinding]]
    end: RunsEnd

    def exit_if_partial(self) -> None:
        """Name failed runs, or say how to go on, and exit; return if all runs are done."""
        console = Console(stderr=True, highlight=False)
        for run in self.end.failed:
            console.print(f"shoal: {run}", soft_wrap=True, markup=False)
        if self.end.is_interrupted:
            console.print(GOES_ON)
            raise typer.Exit(STOPPED_EXIT_CODE)
        if self.end.failed:
            raise typer.Exit(FAILED_EXIT_CODE)


def claim_folder(folder: Path, text: str, parts: Container[str] = ()) -> None:
    """Make the folder; refuse one that holds more than this study, begun earlier, and its parts."""
    notes = folder / NOTES
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is a file; give a folder by --out")
    if folder.is_dir() and any(path.name not in parts for path in folder.iterdir()):
        if not notes.is_file():
            raise UserError(f"{folder} holds other files; give an empty or new folder by --out")
        made_by = text.partition(";")[0]
        if not notes.read_text(encoding="utf-8", errors="replace").startswith(made_by):
            raise UserError(f"{folder} holds another study; give an empty or new folder by --out")
    folder.mkdir(parents=True, exist_ok=True)
    notes.write_text(text, encoding="utf-8")


def carry_out(
    command: str,
    steps: CommandSteps,
    plans: Mapping[str, StudyPlan],
    folders: Mapping[str, Path],
    means: StudyMeans,
) -> StudiesDone:
    """Run one study after the other, until a user interrupts the runs of one."""

    findings = {}
    failed: list[FailedRun] = []
    is_interrupted = False
    with ExitStack() as stack:
        with steps.step("start Spark"):
            spark = stack.enter_context(
                only_session(command, master=means.master, memory=means.memory, conf=means.conf)
            )
        for name, plan in plans.items():
            whose = f"{name}: " if len(plans) > 1 else ""
            findings[name], end = _conclude(steps, spark, plan, folders[name], means.minutes, whose)
            failed += end.failed
            is_interrupted = end.is_interrupted
            if is_interrupted:
                break
    return StudiesDone(findings, RunsEnd(is_interrupted, failed))


def _conclude(
    steps: CommandSteps,
    spark: Spark,
    plan: StudyPlan,
    root: Path,
    minutes: float | None,
    whose: str,
) -> tuple[Sequence[StudyFinding], RunsEnd]:
    """Return the findings, and how the runs ended."""
    from shoal.experiments.studies.study import write_conclusion
    from shoal.report.latex import write_latex
    from shoal.report.pdf import can_draw, write_pdfs
    from shoal.report.study import read_study
    from shoal.report.study_pages import claim_tables, write_pages

    ends_s = None if minutes is None else time.monotonic() + minutes * 60
    end = RunsEnd()
    runs: Sequence[Task] = []
    has_sources = True
    for source in plan.sources:
        with steps.step(whose + source.title) as step:
            made = _within(partial(source.make, spark), spark, ends_s)
            has_sources = has_sources and made is not None
            step.result = "not made in time" if made is None else made
    if has_sources:
        runs = plan.runs()
        end = _simulate(steps, spark, runs, root, ends_s, whose)
    left = sum(not task.is_done for task in runs)
    with steps.step(f"{whose}tables, claims and figures") as step:
        conclusion = plan.conclude(runs)
        if left or not has_sources:
            said = f"{left} of {len(runs)} runs have not been made"
            if not has_sources:
                said = "the workloads have not been made, nor any run"
            step.result = f"{said}; the same command goes on with them"
            conclusion = conclusion.of_a_part(said, [f"{each}." for each in end.failed])
        findings = write_conclusion(root, conclusion)
        report = read_study(root / "study.json")
        write_pages(root, report)
        write_latex(root / "tables.tex", [*claim_tables(report), *report.tables])
        write_pdfs(root / "figures")
        if not can_draw():
            step.result = "; ".join(filter(None, [step.result, NO_PDF]))
    return findings, end


def _within(make: Callable[[], str], spark: Spark, ends_s: float | None) -> str | None:
    """Return the result of a preparation with Spark, None if it did not end in time."""
    if ends_s is None:
        return make()
    outcomes: list[str] = []
    failures: list[BaseException] = []

    def prepare() -> None:
        try:
            outcomes.append(make())
        except Exception as error:
            failures.append(error)

    thread = threading.Thread(target=prepare, daemon=True)
    thread.start()
    # Workloads that are there already take a moment.
    ends_s = max(ends_s, time.monotonic() + LEAST_S)
    while thread.is_alive() and time.monotonic() < ends_s:
        thread.join(min(0.5, max(0.0, ends_s - time.monotonic())))
    if thread.is_alive():
        spark.interruptAll()
        thread.join(CANCEL_S)
        return None
    if failures:
        raise failures[0]
    return outcomes[0]


def _simulate(
    steps: CommandSteps,
    spark: Spark,
    tasks: Sequence[Task],
    root: Path,
    ends_s: float | None,
    whose: str,
) -> RunsEnd:
    """Make the runs that are not there yet, of those that say as much the long ones first.

    Each writes its file below `root`. They end at `ends_s` of the monotonic clock, if given. A run
    that fails leaves no file, and the others go on.
    """
    from shoal.pipeline.tasks import run_tasks

    missing = [task for task in tasks if not task.is_done]
    missing.sort(key=lambda task: (task.rank, -task.cost))
    there = len(tasks) - len(missing)
    with steps.step(f"{whose}simulate {len(missing)} networks", bars=["networks"]) as step:
        step.result = f"{there} were there already" if there else ""
        display = _Display(step, len(missing))
        weights = [task.cost for task in missing]
        within_s = None if ends_s is None else ends_s - time.monotonic()
        try:
            outcomes = run_tasks(spark, missing, weights, display.show, within_s, root)
        except KeyboardInterrupt:
            step.result = "interrupted"
            return RunsEnd(is_interrupted=True)
        failed = [
            FailedRun(task.name, outcome.error)
            for task, outcome in zip(missing, outcomes, strict=True)
            if outcome is not None and outcome.error is not None
        ]
        if failed:
            step.result = ", ".join(filter(None, [step.result, f"{len(failed)} failed"]))
    return RunsEnd(failed=failed)


class _Display:
    """Progress of runs and the remaining time."""

    def __init__(self, step: CommandStep, runs: int) -> None:
        self._step = step
        self._runs = runs
        self._started = time.monotonic()

    def show(self, progress: Progress) -> None:
        now = time.monotonic()
        text = f"{progress.done} of {self._runs} networks"
        if progress.share > 0:
            left_s = (now - self._started) * (1 / progress.share - 1)
            text += f", about {_duration(left_s)} left"
        self._step.show_share(0, progress.share, text)


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
