"""`shoal reproduce`: repeat a paper's evaluation, and say claim by claim where we stand.

The studies are in `experiments/registry.py`; each declares its options and its runs. Its runs are
independent of each other: Spark carries them to whatever cores there are. Each leaves a file when
it is done, so an interrupted study goes on where it was. `all` repeats one study after the other,
each in a folder of its own, and says on one page where all of them stand.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TypeAlias

import typer
from rich.console import Console
from rich.table import Table

from shoal.cli.support.declared_options import declared_options, given, with_declared
from shoal.cli.support.errors import STOPPED_EXIT_CODE, UserError
from shoal.cli.support.spark import (
    ConfOption,
    MasterOption,
    MemoryOption,
    only_session,
    spark_mistakes,
    spark_settings,
)
from shoal.cli.support.steps import CommandStep, CommandSteps
from shoal.experiments.registry import STUDIES
from shoal.experiments.studies.study import ScaleName

if TYPE_CHECKING:
    from shoal.experiments.studies.runs import Task
    from shoal.experiments.studies.study import StudyPlan
    from shoal.pipeline.session import Spark
    from shoal.pipeline.tasks import Progress
    from shoal.report.study import StudyFinding

    Paper: TypeAlias = str
else:
    Paper = Literal[*STUDIES, "all"]

ALL = "all"
# Without another: each study's is in it, so that those that were made alone count for all.
FOLDER = Path("reproduction")
NOTES = "what-is-here.txt"
NOTES_TEXT = """\
Made by `shoal reproduce {paper}`; the same command goes on with the missing runs.

RESULTS.md     claim by claim, where we stand
index.html     the same with the figures, one page that opens offline
figures/       the figures as SVG
tables/        Parquet: metrics (a row per run and metric) and what the figures show
runs/          a file per run
workloads/     what the runs read
"""
NOTES_OF_ALL = """\
Made by `shoal reproduce all`; the same command goes on with the missing runs.

RESULTS.md     where we stand, paper by paper, and every claim that is missed
index.html     the same as a page; it leads to the studies' own

A folder for each study: claims, figures, tables and runs.
"""
# A cancelled preparation is waited for so long; any preparation has so much time.
CANCEL_S = 10.0
LEAST_S = 10.0
GOES_ON = "interrupted; the same command goes on with the missing runs"
# Interval of progress lines without a terminal.
REPORT_EVERY_S = 30.0


OPTIONS = declared_options({name: study.options for name, study in STUDIES.items()})


def _reproduce(
    context: typer.Context,
    *,
    paper: Annotated[
        Paper,
        typer.Argument(help="Which paper's evaluation to repeat."),
    ],
    data: dict[str, Any],
    scale: Annotated[
        ScaleName, typer.Option(help="A part of the grid, or the paper's sizes.")
    ] = "small",
    out: Annotated[
        Path | None,
        typer.Option(
            help="The folder for results; it can be continued.  Without: reproduction/PAPER, where "
            "`all` finds it."
        ),
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            help="End after this, in each study, with a page of the runs that are done; the runs "
            "with most evidence come first.  The same command goes on with the rest.",
            show_default="no end",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Decides everything left to chance.")] = 1,
    master: MasterOption = None,
    memory: MemoryOption = None,
    conf: ConfOption = None,
) -> None:
    studies = STUDIES if paper == ALL else {paper: STUDIES[paper]}
    for name in given(context, OPTIONS):
        if not any(name in study.options.__struct_fields__ for study in studies.values()):
            raise UserError(f"--{name} is not for {paper}; see `shoal reproduce --help`")
    root = FOLDER if paper == ALL else FOLDER / paper
    root = (root if out is None else out).resolve()
    folders = {name: root / name if paper == ALL else root for name in studies}
    try:
        plans = {
            name: study.plan(
                study.options(**{field: data[field] for field in study.options.__struct_fields__}),
                scale,
                folders[name],
                seed,
            )
            for name, study in studies.items()
        }
        if paper == ALL:
            _claim(root, NOTES_OF_ALL, folders)
        for name, folder in folders.items():
            _claim(folder, NOTES_TEXT.format(paper=name))
        with spark_mistakes(), CommandSteps() as steps:
            done = _carry_out(
                steps, plans, folders, _Means(master, memory, spark_settings(conf or ()), minutes)
            )
            if paper == ALL:
                _write_overview(root, folders)
    except KeyboardInterrupt:
        Console(stderr=True).print(GOES_ON)
        raise typer.Exit(STOPPED_EXIT_CODE) from None
    except (OSError, ValueError) as error:
        raise UserError(str(error)) from error
    _print(done.findings, root)
    if done.is_interrupted:
        Console(stderr=True).print(GOES_ON)
        raise typer.Exit(STOPPED_EXIT_CODE)


_reproduce.__doc__ = "\n\n".join([
    "Repeat a paper's evaluation, and report the result claim by claim.",
    *(f"`{name}`: {study.summary}" for name, study in STUDIES.items()),
    "`all`: one after the other, each in a folder of its own, and a page with all results.",
    "On a cluster all nodes must see the folder.  RESULTS.md and index.html have a row per claim, "
    "met or missed.",
])  # fmt: skip
reproduce = with_declared(_reproduce, "data", OPTIONS)


class _Means(NamedTuple):
    """Folder and time limit of runs."""

    master: str | None
    memory: str | None
    conf: Mapping[str, str]
    minutes: float | None


class _Done(NamedTuple):
    """The findings of studies, in part if a user has interrupted the runs."""

    findings: Mapping[str, Sequence[StudyFinding]]
    is_interrupted: bool


def _claim(folder: Path, text: str, parts: Container[str] = ()) -> None:
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


def _carry_out(
    steps: CommandSteps,
    plans: Mapping[str, StudyPlan],
    folders: Mapping[str, Path],
    means: _Means,
) -> _Done:
    """Run one study after the other, until a user interrupts the runs of one."""

    findings = {}
    is_interrupted = False
    with ExitStack() as stack:
        with steps.step("start Spark"):
            spark = stack.enter_context(
                only_session(
                    "shoal reproduce", master=means.master, memory=means.memory, conf=means.conf
                )
            )
        for name, plan in plans.items():
            whose = f"{name}: " if len(plans) > 1 else ""
            findings[name], is_interrupted = _conclude(
                steps, spark, plan, folders[name], means.minutes, whose
            )
            if is_interrupted:
                break
    return _Done(findings, is_interrupted)


def _conclude(
    steps: CommandSteps,
    spark: Spark,
    plan: StudyPlan,
    root: Path,
    minutes: float | None,
    whose: str,
) -> tuple[Sequence[StudyFinding], bool]:
    """Return the findings, and whether a user has interrupted the runs."""
    from shoal.experiments.studies.study import write_conclusion
    from shoal.report.study import read_study
    from shoal.report.study_pages import write_pages

    ends_s = None if minutes is None else time.monotonic() + minutes * 60
    is_interrupted = False
    runs: Sequence[Task] = []
    has_sources = True
    for source in plan.sources:
        with steps.step(whose + source.title) as step:
            made = _within(partial(source.make, spark), spark, ends_s)
            has_sources = has_sources and made is not None
            step.result = "not made in time" if made is None else made
    if has_sources:
        runs = plan.runs()
        is_interrupted = _simulate(steps, spark, runs, root, ends_s, whose)
    left = sum(not task.is_done for task in runs)
    with steps.step(f"{whose}tables, claims and figures") as step:
        conclusion = plan.conclude(runs)
        if left or not has_sources:
            said = f"{left} of {len(runs)} runs have not been made"
            if not has_sources:
                said = "the workloads have not been made, nor any run"
            step.result = f"{said}; the same command goes on with them"
            conclusion = conclusion.of_a_part(said)
        findings = write_conclusion(root, conclusion)
        write_pages(root, read_study(root / "study.json"))
    return findings, is_interrupted


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


def _write_overview(root: Path, folders: Mapping[str, Path]) -> None:
    from shoal.report.overview_pages import write_overview
    from shoal.report.study import read_study

    studies = {name: at / "study.json" for name, at in folders.items()}
    write_overview(
        root, {name: read_study(path) for name, path in studies.items() if path.is_file()}
    )


def _simulate(
    steps: CommandSteps,
    spark: Spark,
    tasks: Sequence[Task],
    root: Path,
    ends_s: float | None,
    whose: str,
) -> bool:
    """Make the runs that are not there yet, of those that say as much the long ones first.

    Each writes its file below `root`. They end at `ends_s` of the monotonic clock, if given.

    Returns whether a user has interrupted them.
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
            return True
    for task, outcome in zip(missing, outcomes, strict=True):
        if outcome is not None and outcome.error is not None:
            raise UserError(f"run {task.name} failed: {outcome.error}")
    return False


class _Display:
    """Progress of runs and the remaining time: a bar, or a line at intervals."""

    def __init__(self, step: CommandStep, runs: int) -> None:
        self._step = step
        self._runs = runs
        self._started = self._told = time.monotonic()

    def show(self, progress: Progress) -> None:
        now = time.monotonic()
        text = f"{progress.done} of {self._runs} networks"
        if progress.share > 0:
            left_s = (now - self._started) * (1 / progress.share - 1)
            text += f", about {_duration(left_s)} left"
        self._step.show_share(0, progress.share, text)
        if now - self._told >= REPORT_EVERY_S and progress.done < self._runs:
            self._told = now
            self._step.tell(text)


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _print(findings: Mapping[str, Sequence[StudyFinding]], out: Path) -> None:
    """Return how many claims stand, those that do not, and where all of them are."""
    from shoal.report.study import missed_claims, score

    console = Console(highlight=False)
    for name, claims in findings.items():
        for line in score(claims):
            console.print(f"{name}: {line}" if len(findings) > 1 else line)
    missed = [one for claims in findings.values() for one in missed_claims(claims)]
    if missed:
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for column in ("missed", "the paper, or our aim", "ours"):
            table.add_column(column, overflow="fold")
        for one in missed:
            table.add_row(f"{one.claim} ({one.dataset})", one.paper, one.ours)
        console.print()
        console.print(table)
    console.print(f"\n{out / 'RESULTS.md'}\n{out / 'index.html'}", soft_wrap=True)
