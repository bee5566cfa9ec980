"""`shoal demo`: real flights through Spark, three simulated networks, two live, one report.

All flights that left New York in 2013 become publications; those of one month are published by
their carriers, each at its airport, through brokers at the busiest airports. The same month runs
three times: without relocation, with GRAPE for less load, with GRAPE for less delay. Then the
month's first days go through brokers that are processes on this machine. Every step is a command of
its own (ingest, workload, truth, simulate, summarise, up, replay, report), here with one Spark
session.
"""

from __future__ import annotations

import calendar
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from rich.console import Console

from shoal.cli.support.console_pages import check_console
from shoal.cli.support.demo_live import BROKERS as LIVE_BROKERS
from shoal.cli.support.demo_live import DAYS as LIVE_DAYS
from shoal.cli.support.demo_live import DURATION_US as LIVE_DURATION_US
from shoal.cli.support.demo_live import SUBSCRIPTIONS as LIVE_SUBSCRIPTIONS
from shoal.cli.support.demo_live import prepare_live, replay_live, show_live
from shoal.cli.support.errors import STOPPED_EXIT_CODE, UserError
from shoal.cli.support.outcome import outcome_table, verdict_line
from shoal.cli.support.replay_outcome import show_replays
from shoal.cli.support.rows import show_table
from shoal.cli.support.spark import only_session, spark_mistakes
from shoal.cli.support.steps import CommandSteps

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from shoal.experiments.scenarios.scenario import Scenario
    from shoal.report.inputs import ReportRun
    from shoal.report.replays import Replay

YEAR = 2013
# A day of flights in this much virtual time: a month in about ten minutes.
DAY_US = 20_000_000
# Enough for these flights; the simulations beside Spark need memory too.
SPARK_MEMORY = "2g"
# The attribute that flight subscribers filter by, and the number of brokers over which those of one
# publisher spread.
SPREAD = 8
AIMED_AT = ("dep_delay", "arr_delay", "distance", "air_time")

# By folder, which is also the name in the report; the first is the reference.
RUNS: dict[str, dict[str, Any]] = {
    "baseline": {"system": "tree"},
    "load100": {"grape": {"priority": "load", "weight": 100}},
    "delay100": {"grape": {"priority": "delay", "weight": 100}},
}
# Links as short as a tree over the map allows, as an operator would lay them.
TOPOLOGY = {"kind": "minimum_spanning"}
# All clients start at once, and the first day begins at a whole day of virtual time, so that the
# timeline's windows are days.
START = {
    "subscribe_at_us": DAY_US // 10,
    "client_spacing_us": 0,
    "settle_us": DAY_US - DAY_US // 10,
}

NOTES = "what-is-here.txt"
NOTES_TEXT = """\
Made by `shoal demo`; the next one here replaces it. Tables are Parquet.

report.html    what came out, one page that opens offline
flights/       publications, and the rows that were rejected
workload/      publishers, subscriptions, brokers, and the events to replay
truth/         the deliveries that Spark SQL expects
runs/          a folder per network: its scenario, trace and checks
live/          what went through live brokers: their network files, logs and traces
summary/       the figures in the report
"""


def demo(
    out: Annotated[Path, typer.Option(help="The folder for all that the demo makes.")] = Path(
        "demo"
    ),
    month: Annotated[int, typer.Option(min=1, max=12, help="Which month of 2013.")] = 1,
    brokers: Annotated[int, typer.Option(min=2, help="At the busiest airports.")] = 63,
    seed: Annotated[int, typer.Option(min=0, help="Decides everything left to chance.")] = 1,
    console: Annotated[
        bool,
        typer.Option("--console", help="Then play it again and again, in a browser, until Ctrl-C."),
    ] = False,
) -> None:
    """The tour: real flights, an adaptive broker tree, a report.

    336,776 flights become publications on Spark; those of one month travel a tree of brokers at
    airports three times: without relocation, with GRAPE for load, with GRAPE for delay. The month's
    first days then go through live brokers on this machine.
    """
    if console:
        check_console()
    _claim(out)
    from shoal.client import ClientError
    from shoal.experiments.live.brokers import UnrestError
    from shoal.experiments.live.replay import ReplayError
    from shoal.experiments.runs.side_by_side import SimulationDiedError
    from shoal.report.comparison import sentences
    from shoal.report.replays import problems as replay_problems
    from shoal.report.replays import proof
    from shoal.runtime.serving import StoppedError
    from shoal.runtime.supervisor import StartError

    try:
        with spark_mistakes(), CommandSteps() as steps:
            runs, expected, replays = _run(steps, out, month, brokers, seed)
    except StoppedError:
        print("stopped", file=sys.stderr)
        raise typer.Exit(STOPPED_EXIT_CODE) from None
    except (ClientError, ReplayError, StartError, UnrestError) as error:
        raise UserError(f"live brokers: {error}") from error
    except (SimulationDiedError, OSError, ValueError) as error:
        raise UserError(str(error)) from error
    shown = Console()
    show_table(shown, outcome_table(runs))
    for sentence in sentences(runs):
        shown.print(sentence, soft_wrap=True, highlight=False)
    shown.print()
    show_replays(shown, replays)
    shown.print(f"\nreport: {out / 'report.html'}\n", soft_wrap=True, highlight=False)
    wrong = [problem for run in runs for problem in problems(run, expected)]
    for problem in wrong:
        shown.print(problem, soft_wrap=True, highlight=False)
    shown.print(verdict_line(runs), soft_wrap=True, highlight=False)
    shown.print(proof(replays), soft_wrap=True, highlight=False)
    if wrong or any(map(replay_problems, replays)):
        raise typer.Exit(1)
    if console:
        show_live(out / "live", seed, TOPOLOGY)
    else:
        hint = "the live network in a browser: shoal demo --console"
        shown.print(hint, soft_wrap=True, highlight=False)


def _claim(out: Path) -> None:
    """Make the folder; refuse one that holds something other than an earlier demo."""
    notes = out / NOTES
    if out.exists() and not out.is_dir():
        raise UserError(f"{out} is a file; give a folder by --out")
    if out.is_dir() and any(out.iterdir()) and not notes.is_file():
        raise UserError(f"{out} holds other files; give an empty or new folder by --out")
    out.mkdir(parents=True, exist_ok=True)
    notes.write_text(NOTES_TEXT, encoding="utf-8")


def problems(run: ReportRun, expected: int) -> list[str]:
    """Return errors of a run in which `expected` deliveries should arrive once and in order."""
    from shoal.report.comparison import FAULTS

    found = [f"{run.name}: {run.metrics[name]:,} {name}" for name in FAULTS if run.metrics[name]]
    if run.metrics["expected"] != expected:
        found.append(f"{run.name}: not every publication was accepted by the network")
    if run.checks["out_of_order"]:
        found.append(f"{run.name}: {run.checks['out_of_order']:,} out of order")
    return found


def scenario(name: str, workload: Path, seed: int) -> Scenario:
    """One of the three: the same brokers, links, clients and events under another system."""
    from shoal.experiments.scenarios.scenario import parse_scenario

    common = {
        "name": name,
        "seed": seed,
        "workload": {"path": str(workload)},
        "topology": TOPOLOGY,
        "run": START,
    }
    return parse_scenario(common | RUNS[name])


def _run(
    steps: CommandSteps, out: Path, month: int, brokers: int, seed: int
) -> tuple[Sequence[ReportRun], int, Sequence[Replay]]:
    """Every step; the runs, how many deliveries Spark expects of each, and the live replays."""
    from shoal.experiments.runs.side_by_side import simulate_all
    from shoal.pipeline.user_settings import DRIVER_MEMORY, user_settings
    from shoal.report.inputs import read_runs
    from shoal.report.page import render

    workload, summary = out / "workload", out / "summary"
    folders = [out / "runs" / name for name in RUNS]
    with ExitStack() as stack:
        with steps.step("start Spark"):
            memory = None if DRIVER_MEMORY in user_settings().values else SPARK_MEMORY
            spark = stack.enter_context(only_session("shoal demo", memory=memory))
        expected = _prepare(steps, spark, out, month, brokers, seed)
        with steps.step("simulate three networks", bars=list(RUNS)) as step:
            scenarios = [scenario(name, workload, seed) for name in RUNS]
            pairs = list(zip(scenarios, folders, strict=True))
            simulate_all(pairs, step.show_share, overwrite=True)
        _summarise(steps, spark, folders, out)
    replays = replay_live(steps, out / "live", seed, TOPOLOGY)
    with steps.step("write the report"):
        runs = read_runs(folders, summary)
        title = f"Flights from New York, {calendar.month_name[month]} {YEAR}"
        (out / "report.html").write_text(render(runs, title, replays), encoding="utf-8")
    return runs, expected, replays


def _prepare(
    steps: CommandSteps, spark: SparkSession, out: Path, month: int, brokers: int, seed: int
) -> int:
    """Publications, workload and truth; how many deliveries are expected."""
    from shoal.frames.times import instant
    from shoal.pipeline.ingest import ingest_flights
    from shoal.pipeline.truth import write_truth
    from shoal.pipeline.workloads.windows import TimeWindow
    from shoal.pipeline.workloads.windows import month as month_window
    from shoal.pipeline.workloads.workload import WorkloadOptions, write_workload

    with steps.step("flights to publications") as step:
        rows = ingest_flights(spark, out / "flights", overwrite=True)
        step.result = f"{rows.read:,} read = {rows.kept:,} kept + {rows.rejected:,} rejected"
    with steps.step("derive publishers and subscriptions") as step:
        days = calendar.monthrange(YEAR, month)[1]
        options = WorkloadOptions(
            brokers=f"airports:{brokers}",
            distribution="clustered",
            spread=min(SPREAD, brokers),
            seed=seed,
            aim_at=AIMED_AT,
            window=month_window(f"{YEAR}-{month:02}"),
            duration_us=days * DAY_US,
        )
        made = write_workload(spark, out / "flights", out / "workload", options, overwrite=True)
        step.result = (
            f"{made.events:,} events of {made.publishers} publishers, "
            f"{made.subscriptions:,} subscriptions, {made.brokers} brokers"
        )
    with steps.step("expected deliveries by Spark SQL") as step:
        truth = write_truth(spark, out / "workload", out / "truth", overwrite=True)
        step.result = f"{truth.expected:,}"
    first_days = TimeWindow(
        instant(f"{YEAR}-{month:02}-01"), instant(f"{YEAR}-{month:02}-{LIVE_DAYS + 1:02}")
    )
    few = msgspec.structs.replace(
        options,
        brokers=f"airports:{LIVE_BROKERS}",
        subscriptions=LIVE_SUBSCRIPTIONS,
        window=first_days,
        duration_us=LIVE_DURATION_US,
    )
    prepare_live(steps, spark, out / "flights", out / "live", few)
    return truth.expected


def _summarise(
    steps: CommandSteps, spark: SparkSession, folders: Sequence[Path], out: Path
) -> None:
    from shoal.pipeline.summaries import write_summary

    with steps.step("compare with the truth, summarise"):
        summary, truth = out / "summary", out / "truth"
        write_summary(spark, folders, truth, summary, window_us=DAY_US, overwrite=True)
