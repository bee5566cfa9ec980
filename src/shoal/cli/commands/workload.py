"""`shoal workload`: publications become publishers, subscriptions, brokers and events."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from shoal.cli.support.errors import UserError
from shoal.cli.support.places import check_exist, check_new
from shoal.cli.support.spark import (
    ConfOption,
    EngineOption,
    Making,
    MasterOption,
    MemoryOption,
    OutOption,
    OverwriteOption,
    Place,
    print_counts,
)
from shoal.cli.support.table_places import as_text, local
from shoal.cli.support.waiting import waiting
from shoal.frames.folders import EVENTS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from shoal.pipeline.workloads.windows import TimeWindow
    from shoal.pipeline.workloads.workload import WorkloadCounts, WorkloadOptions

US_PER_S = 1_000_000
MIN_DURATION_S = 1 / US_PER_S
# Some 30 years.
MAX_DURATION_S = 1e9
AIRPORTS = "airports:"


def workload(
    publications: Annotated[str, typer.Argument(metavar="PLACE", help="Output of `shoal ingest`.")],
    out: OutOption,
    brokers: Annotated[str, typer.Option(help="A number, airports:NUMBER (flights), or a file.")],
    subscriptions: Annotated[
        str, typer.Option(help="How many per publisher, or a file with your own.")
    ] = "20",
    distribution: Annotated[
        Literal["random", "clustered"], typer.Option(help="The relocation paper's, section 5.1.")
    ] = "random",
    spread: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Brokers over which one publisher's subscriptions spread; 8, or all if fewer.",
        ),
    ] = None,
    publishers: Annotated[
        str | None,
        typer.Option(help="So many, the busiest, or a file with your own; all by default."),
    ] = None,
    home: Annotated[
        str | None, typer.Option(help="The attribute that names a publisher's first broker.")
    ] = None,
    aim_at: Annotated[
        list[str] | None, typer.Option(help="An attribute for thresholds; repeat for more.")
    ] = None,
    month: Annotated[str | None, typer.Option(help="Only events of this month: 2013-01.")] = None,
    from_time: Annotated[
        str | None, typer.Option("--from", help="Only events from this time on (UTC).")
    ] = None,
    to_time: Annotated[
        str | None, typer.Option("--to", help="Only events before this time (UTC).")
    ] = None,
    duration_s: Annotated[
        float | None, typer.Option(help="Replay the events in this many seconds.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Decides everything left to chance.")] = 1,
    overwrite: OverwriteOption = False,
    engine: EngineOption = "auto",
    master: MasterOption = None,
    memory: MemoryOption = None,
    conf: ConfOption = None,
) -> None:
    """Derive publishers, advertisements and subscriptions from publications, or take your own.

    A file of subscriptions (Parquet, CSV or JSON lines) has the columns id and filter, and may
    have broker, client, from and to: when they come and go, in the publications' time; and every
    and changed: their rate and change.  One of publishers has publisher, and may have broker and
    advertisement.
    """
    making = Making("workload", out, overwrite, engine, master, memory, conf or ())
    given, target = making.input(publications), making.output()
    how_many, own_subscriptions = _number_or_file("--subscriptions", subscriptions)
    busiest, own_publishers = _number_or_file("--publishers", publishers)
    if month is not None and (from_time is not None or to_time is not None):
        raise UserError("give either --month or --from and --to")
    if isinstance(given, Path):
        check_exist(given)
    if isinstance(given, Path) and (given / EVENTS).exists():
        raise UserError(f"{publications} is a workload already; give the output of `shoal ingest`")
    if duration_s is not None and not MIN_DURATION_S <= duration_s <= MAX_DURATION_S:
        raise UserError(f"--duration-s {duration_s:g}: a replay takes some seconds, such as 300")
    if brokers.startswith("-"):
        raise UserError(f"--brokers {brokers}: give a number, {AIRPORTS}NUMBER, or a file")
    if brokers.startswith(AIRPORTS):
        count = brokers.removeprefix(AIRPORTS)
        if not count.isdigit() or not int(count):
            raise UserError(f"--brokers {brokers}: say how many, such as {AIRPORTS}63")
    if not brokers.isdigit() and not brokers.startswith(AIRPORTS):
        brokers = str(local(brokers))
        check_exist(Path(brokers))
    files = [each for each in (given, own_subscriptions, own_publishers) if isinstance(each, Path)]
    if isinstance(target, Path):
        check_new(target, overwrite=overwrite, inputs=files)
    try:
        window = _window(month, from_time, to_time)
    except ValueError as error:
        raise UserError(str(error)) from error
    # Importing the pipeline takes a moment, too.
    with waiting("reading publications"):
        from shoal.pipeline.workloads.workload import WorkloadOptions
    options = WorkloadOptions(
        brokers=brokers,
        subscriptions=how_many or 1,
        own_subscriptions=own_subscriptions,
        own_publishers=own_publishers,
        distribution=distribution,
        spread=spread,
        seed=seed,
        home=home,
        publishers=busiest,
        aim_at=tuple(aim_at or ()),
        window=window,
        duration_us=None if duration_s is None else round(duration_s * US_PER_S),
    )
    for line in _time_warnings(given, window) if isinstance(given, Path) else ():
        print(f"shoal: warning: {line}", file=sys.stderr)
    counts = making.make(
        "deriving publishers and subscriptions",
        (lambda at: _small(given, at, options, overwrite=overwrite))
        if isinstance(given, Path)
        else None,
        lambda spark: _by_spark(spark, given, target, options, overwrite=overwrite),
        target,
        inputs=[] if isinstance(given, Path) else [given],
    )
    _print(f"{publications} -> {out}", counts)
    for complaint in counts.complaints:
        print(f"shoal: warning: {complaint}", file=sys.stderr)


def _small(
    publications: Path, out: Path, options: WorkloadOptions, *, overwrite: bool
) -> WorkloadCounts:
    from shoal.pipeline.workloads.small_workload import write_small_workload

    return write_small_workload(publications, out, options, overwrite=overwrite)


def _by_spark(
    spark: SparkSession,
    publications: Place,
    out: Place,
    options: WorkloadOptions,
    *,
    overwrite: bool,
) -> WorkloadCounts:
    if isinstance(publications, Path) and isinstance(out, Path):
        from shoal.pipeline.workloads.workload import write_workload

        return write_workload(spark, publications, out, options, overwrite=overwrite)
    from shoal.spark.steps import workload_places

    places = as_text(publications), as_text(out)
    return workload_places(spark, *places, options, overwrite=overwrite)


def _time_warnings(publications: Path, window: TimeWindow) -> list[str]:
    """Return what is odd about the times; nothing for a table that cannot be read."""
    with waiting("reading publications"):
        from shoal.pipeline.checks.publication_facts import event_times
        from shoal.pipeline.checks.time_checks import time_warnings
        from shoal.pipeline.ingest import publications_table

        table = publications_table(publications)
        try:
            return time_warnings(lambda: event_times(table, window.from_us, window.to_us))
        except (ValueError, LookupError, OSError):  # the command names what is wrong with it
            return []


def _number_or_file(option: str, text: str | None) -> tuple[int | None, Path | None]:
    """Return the value of an option: a number, or a file."""
    if text is None:
        return None, None
    if not text.lstrip("-").isdigit():
        path = local(text)
        if not path.exists():
            raise UserError(f"{option} {text}: is no number, and no such file exists")
        check_exist(path)
        return None, path
    if int(text) < 1:
        raise UserError(f"{option} {text}: must be at least 1")
    return int(text), None


def _window(month: str | None, from_time: str | None, to_time: str | None) -> TimeWindow:
    """Return when events count."""
    from shoal.frames.times import instant
    from shoal.pipeline.workloads import windows

    if month is not None:
        return windows.month(month)
    return windows.TimeWindow(
        instant(from_time) if from_time is not None else None,
        instant(to_time) if to_time is not None else None,
    )


def _print(title: str, counts: WorkloadCounts) -> None:
    print_counts(
        title,
        {
            "events": counts.events,
            "publishers": counts.publishers,
            "subscriptions": counts.subscriptions,
            "brokers": counts.brokers,
            **({"subscriptions at other times": counts.left_out} if counts.left_out else {}),
            **{
                f"mean selectivity, {rate_class}": f"{mean:.1%}"
                for rate_class, mean in counts.selectivity.items()
            },
        },
    )
