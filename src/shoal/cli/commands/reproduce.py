"""`shoal reproduce`: repeat a paper's evaluation, and say claim by claim where we stand.

The studies are in `experiments/registry.py`; each declares its options and its runs. Its runs are
independent of each other: Spark carries them to whatever cores there are. Each leaves a file when
it is done, so an interrupted study goes on where it was. `all` repeats one study after the other,
each in a folder of its own, and says on one page where all of them stand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import typer
from rich.console import Console
from rich.table import Table

from shoal.cli.support.declared_options import declared_options, given, with_declared
from shoal.cli.support.errors import STOPPED_EXIT_CODE, UserError
from shoal.cli.support.spark import (
    ConfOption,
    MasterOption,
    MemoryOption,
    spark_mistakes,
    spark_settings,
)
from shoal.cli.support.steps import CommandSteps
from shoal.cli.support.studies import GOES_ON, StudyMeans, carry_out, claim_folder
from shoal.experiments.registry import STUDIES
from shoal.experiments.studies.repeated import plan_over_seeds
from shoal.experiments.studies.study import ScaleName

if TYPE_CHECKING:
    from shoal.report.study import StudyFinding

    Paper: TypeAlias = str
else:
    Paper = Literal[*STUDIES, "all"]

ALL = "all"
# A number that is mistyped should not run for weeks.
MOST_SEEDS = 100
# Without another: each study's is in it, so that those that were made alone count for all.
FOLDER = Path("reproduction")
NOTES_TEXT = """\
Made by `shoal reproduce {paper}`; the same command goes on with the missing runs.

RESULTS.md     claim by claim, where we stand
index.html     the same with the figures, one page that opens offline
figures/       the figures as SVG, and as PDF if shoal[figures] is installed
claims.csv     a row for each claim: value, half of its 95 % interval, unit, band, verdict
tables.tex     claims and tables for LaTeX (package booktabs)
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
    seeds: Annotated[
        int,
        typer.Option(
            min=1,
            max=MOST_SEEDS,
            help="Repeat all runs with so many seeds: claims are judged by their means, with 95 % "
            "intervals from 5 on.",
        ),
    ] = 1,
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
            name: plan_over_seeds(
                study,
                study.options(**{field: data[field] for field in study.options.__struct_fields__}),
                scale,
                folders[name],
                seed,
                seeds,
            )
            for name, study in studies.items()
        }
        if paper == ALL:
            claim_folder(root, NOTES_OF_ALL, folders)
        for name, folder in folders.items():
            claim_folder(folder, NOTES_TEXT.format(paper=name))
        with spark_mistakes(), CommandSteps() as steps:
            means = StudyMeans(master, memory, spark_settings(conf or ()), minutes)
            done = carry_out("shoal reproduce", steps, plans, folders, means)
            if paper == ALL:
                _write_overview(root, folders)
    except KeyboardInterrupt:
        Console(stderr=True).print(GOES_ON)
        raise typer.Exit(STOPPED_EXIT_CODE) from None
    except (OSError, ValueError) as error:
        raise UserError(str(error)) from error
    _print(done.findings, root)
    done.exit_if_partial()


_reproduce.__doc__ = "\n\n".join([
    "Repeat a paper's evaluation, and report the result claim by claim.",
    *(f"`{name}`: {study.summary}" for name, study in STUDIES.items()),
    "`all`: one after the other, each in a folder of its own, and a page with all results.",
    "On a cluster all nodes must see the folder.  RESULTS.md and index.html have a row per claim, "
    "met or missed.",
])  # fmt: skip
reproduce = with_declared(_reproduce, "data", OPTIONS)


def _write_overview(root: Path, folders: Mapping[str, Path]) -> None:
    from shoal.report.overview_pages import write_overview
    from shoal.report.study import read_study

    studies = {name: at / "study.json" for name, at in folders.items()}
    write_overview(
        root, {name: read_study(path) for name, path in studies.items() if path.is_file()}
    )


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
