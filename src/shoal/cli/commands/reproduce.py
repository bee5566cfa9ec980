"""`shoal reproduce`: repeat a paper's evaluation, and say claim by claim where we stand.

The runs of the study are independent of each other: Spark carries them to whatever cores there
are.  Each leaves a file when it is done, so an interrupted study goes on where it was.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from shoal.cli.reproducing.data import DataSet, data_sets, prepare
from shoal.cli.reproducing.points import PointSet, point_sets, prepare_points
from shoal.cli.support.errors import UserError
from shoal.cli.support.spark import LOCAL_MASTER, LOCAL_MEMORY, MasterOption, MemoryOption
from shoal.cli.support.steps import Step, Steps

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from shoal.experiments.claims import Finding
    from shoal.experiments.relocation.grid import Scale
    from shoal.experiments.relocation.runs import Task
    from shoal.pipeline.tasks import Progress

NOTES = "what-is-here.txt"
NOTES_TEXT = """\
Made by `shoal reproduce {paper}`; the same command goes on with what is missing.

RESULTS.md     claim by claim, where we stand
index.html     the same with the figures, one page that opens offline
figures/       the figures as SVG
tables/        Parquet: metrics (a row per run and metric) and what the figures show
runs/          a file per run
workloads/     what the runs read
"""
# What shells expect of a command that was interrupted.
INTERRUPTED = 130
# How often a terminal-less user hears how far it is.
REPORT_EVERY_S = 30.0


def reproduce(
    paper: Annotated[
        Literal["relocation", "bluedove"],
        typer.Argument(help="Which paper's evaluation to repeat."),
    ],
    quotes: Annotated[
        Path | None, typer.Option(help="Real stock quotes, as `shoal ingest quotes` reads them.")
    ] = None,
    flights: Annotated[
        bool, typer.Option("--flights", help="Run on the flights of 2013, too.")
    ] = False,
    positions: Annotated[
        Path | None,
        typer.Option(
            help="Real aircraft positions (latitude, longitude, altitude, groundspeed), for "
            "bluedove: Parquet or CSV."
        ),
    ] = None,
    scale: Annotated[
        Literal["small", "paper"], typer.Option(help="A part of the grid, or the paper's sizes.")
    ] = "small",
    out: Annotated[Path, typer.Option(help="The folder for results; it can be continued.")] = Path(
        "reproduction"
    ),
    rtt: Annotated[
        Path | None,
        typer.Option(
            help="Measured round trips (src, dst, rtt_ms); without, latency is geography."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Decides everything left to chance.")] = 1,
    master: MasterOption = LOCAL_MASTER,
    memory: MemoryOption = LOCAL_MEMORY,
) -> None:
    """Repeat a paper's evaluation, and say claim by claim where we stand.

    `relocation`: POP and GRAPE on networks of 63 and 127 brokers.  The data are quotes, flights,
    or both; without either, quotes that nobody ever traded.  `bluedove`: dispatchers and matchers
    under synthetic load; with --flights and --positions under that of real data, too.

    On a cluster all nodes must see the folder.  RESULTS.md and index.html have a row per claim, met
    or missed.
    """
    from pyspark.errors import PySparkException

    from shoal.experiments.relocation.grid import SCALES
    from shoal.pipeline.java import JavaNotFoundError

    try:
        _check_options(paper, quotes, positions, rtt)
        chosen = data_sets(quotes, flights=flights, seed=seed)
        given = point_sets(positions, flights=flights)
        _check_round_trips(rtt)
        _claim(out, paper)
        with Steps() as steps:
            if paper == "bluedove":
                findings = _run_bluedove(steps, out, given, scale, seed, master, memory)
            else:
                findings = _run(steps, out, chosen, SCALES[scale], rtt, seed, master, memory)
    except KeyboardInterrupt:
        Console(stderr=True).print("interrupted; the same command goes on with what is missing")
        raise typer.Exit(INTERRUPTED) from None
    except (JavaNotFoundError, OSError, ValueError) as error:
        raise UserError(str(error)) from error
    except PySparkException as error:
        reason = str(error).strip().partition("\n")[0]
        raise UserError(f"Spark could not do this: {reason}") from error
    _print(findings, out)


def _claim(out: Path, paper: str) -> None:
    """Make the folder; refuse one that holds something other than an earlier study."""
    notes = out / NOTES
    if out.exists() and not out.is_dir():
        raise UserError(f"{out} is a file; give a folder by --out")
    if out.is_dir() and any(out.iterdir()) and not notes.is_file():
        raise UserError(f"{out} holds other files; give an empty or new folder by --out")
    out.mkdir(parents=True, exist_ok=True)
    notes.write_text(NOTES_TEXT.format(paper=paper), encoding="utf-8")


def _check_options(
    paper: str, quotes: Path | None, positions: Path | None, rtt: Path | None
) -> None:
    """UserError for data that the other paper's evaluation reads."""
    foreign = {"--positions": positions}
    if paper == "bluedove":
        foreign = {"--quotes": quotes, "--rtt": rtt}
    for option, value in foreign.items():
        if value is not None:
            raise UserError(f"{option} is not for {paper}; see `shoal reproduce --help`")


def _check_round_trips(rtt: Path | None) -> None:
    """Read the matrix once before hours of work depend on it."""
    if rtt is None:
        return
    from shoal.experiments.relocation.grid import BROKERS
    from shoal.experiments.run_files import BrokerRow
    from shoal.experiments.scenario import Matrix
    from shoal.experiments.underlays import build_underlay

    brokers = [BrokerRow(broker=f"B{number}") for number in range(BROKERS["wide"])]
    build_underlay(Matrix(path=str(rtt)), brokers, seed=1)


def _run(
    steps: Steps,
    out: Path,
    chosen: Sequence[DataSet],
    scale: Scale,
    rtt: Path | None,
    seed: int,
    master: str,
    memory: str,
) -> list[Finding]:
    from shoal.experiments.relocation.networks import network_runs
    from shoal.experiments.relocation.runs import study_runs
    from shoal.pipeline.session import spark_session

    root = out.resolve()
    runs = root / "runs"
    with ExitStack() as stack:
        with steps.step("start Spark"):
            spark = stack.enter_context(
                spark_session("shoal reproduce", master=master, memory=memory)
            )
        tasks: list[Task] = [*network_runs(scale, runs, seed)]
        for data in chosen:
            with steps.step(f"workloads of {data.name}") as step:
                made = prepare(spark, data, scale, root / "workloads", rtt is None, seed)
                step.result = made.description
            tasks += study_runs(data.name, scale, made.folder, runs, made.inputs, rtt, seed)
        _simulate(steps, spark, tasks)
    with steps.step("tables, claims and figures"):
        latency = "great circles between airports" if rtt is None else f"round trips of {rtt.name}"
        return _write(root, tasks, scale, [*(data.description for data in chosen), latency])


def _run_bluedove(
    steps: Steps,
    out: Path,
    given: Sequence[PointSet],
    scale: str,
    seed: int,
    master: str,
    memory: str,
) -> list[Finding]:
    from shoal.experiments.bluedove.grid import SCALES, grid
    from shoal.experiments.bluedove.study import write_study
    from shoal.pipeline.session import spark_session
    from shoal.report.study import read_study
    from shoal.report.study_pages import write_pages

    root = out.resolve()
    with ExitStack() as stack:
        with steps.step("start Spark"):
            spark = stack.enter_context(
                spark_session("shoal reproduce", master=master, memory=memory)
            )
        data = []
        for each in given:
            with steps.step(f"numbers of {each.name}"):
                data.append(prepare_points(spark, each, root / "workloads"))
        runs = grid(SCALES[scale], root / "runs", seed, data)
        _simulate(steps, spark, runs)
    with steps.step("claims and figures"):
        findings = write_study(root, runs, SCALES[scale], [each.name for each in data])
        write_pages(root, read_study(root / "study.json"))
    return findings


def _simulate(steps: Steps, spark: SparkSession, tasks: Sequence[Task]) -> None:
    """Make the runs that are not there yet, the long ones first."""
    from shoal.pipeline.tasks import run_tasks

    missing = sorted((task for task in tasks if not task.is_done), key=lambda task: -task.cost)
    there = len(tasks) - len(missing)
    with steps.step(f"simulate {len(missing)} networks", bars=["networks"]) as step:
        step.result = f"{there} were there already" if there else ""
        display = _Display(step, len(missing))
        outcomes = run_tasks(spark, missing, [task.cost for task in missing], display.show)
    for task, outcome in zip(missing, outcomes, strict=True):
        if outcome.error is not None:
            raise UserError(f"run {task.name} failed: {outcome.error}")


class _Display:
    """How many runs are done and how long the rest will take: a bar, or a line now and then."""

    def __init__(self, step: Step, runs: int) -> None:
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


def _write(
    root: Path, tasks: Sequence[Task], scale: Scale, sources: Sequence[str]
) -> list[Finding]:
    """Everything that comes of the runs' summaries."""
    from shoal.experiments.relocation.study import write_study
    from shoal.report.study import read_study
    from shoal.report.study_pages import write_pages

    findings = write_study(root, tasks, scale, sources)
    write_pages(root, read_study(root / "study.json"))
    return findings


def _print(findings: Sequence[Finding], out: Path) -> None:
    """How many claims stand, those that do not, and where all of them are."""
    from shoal.report.study import Claim, score

    console = Console(highlight=False)
    for dataset in dict.fromkeys(one.dataset for one in findings):
        some = [msgspec.to_builtins(one) for one in findings if one.dataset == dataset]
        console.print(f"{dataset}: {score(msgspec.convert(some, list[Claim]))}")
    missed = [one for one in findings if one.verdict == "missed"]
    if missed:
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for column in ("missed", "the paper", "ours"):
            table.add_column(column, overflow="fold")
        for one in missed:
            table.add_row(f"{one.claim} ({one.dataset})", one.paper, one.ours)
        console.print()
        console.print(table)
    console.print(f"\n{out / 'RESULTS.md'}\n{out / 'index.html'}", soft_wrap=True)
