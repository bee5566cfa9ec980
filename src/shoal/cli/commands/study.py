"""`shoal study`: run a scenario in many settings with many seeds, and compare them pair by pair.

It is the executor of `shoal reproduce` with a design of one's own: the runs are independent, go to
all cores, and each leaves a file, so the same command goes on with the missing runs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from shoal.cli.support.errors import STOPPED_EXIT_CODE, UserError
from shoal.cli.support.rows import show_table
from shoal.cli.support.spark import (
    ConfOption,
    MasterOption,
    MemoryOption,
    spark_mistakes,
    spark_settings,
)
from shoal.cli.support.steps import CommandSteps
from shoal.cli.support.studies import GOES_ON, StudyMeans, carry_out, claim_folder
from shoal.frames.table_places import is_uri

NOTES_TEXT = """\
Made by `shoal study`; the same command goes on with the missing runs.

RESULTS.md     every metric of every setting, beside the reference
index.html     the same with figures, one page that opens offline
results.csv    a row for each run and metric
tables.tex     the tables for LaTeX (package booktabs)
figures/       the figures as SVG, and as PDF if shoal[figures] is installed
tables/        Parquet: results, changes against the reference, costs by phase and kind
runs/          a file per run
truth/         the deliveries that each workload's runs must make
"""
MOST_SEEDS = 1_000


def study(
    scenario_file: Annotated[
        Path, typer.Argument(metavar="SCENARIO.toml", help="The scenario that the settings change.")
    ],
    vary: Annotated[
        list[str],
        typer.Option(
            "--vary",
            metavar="KEY.PATH=VALUE,VALUE,...",
            help="A factor: a key of the scenario with its values (system=tree,grape). Repeated, "
            "all combinations run. The first factor's first value is the reference.",
        ),
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="The folder for results; it can be continued.")
    ],
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY.PATH=VALUE", help="Change a key in all settings."),
    ] = None,
    seeds: Annotated[
        int,
        typer.Option(min=1, max=MOST_SEEDS, help="Seeds of each setting; intervals take 6."),
    ] = 6,
    minutes: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            help="End after this, with a page of the runs that are done.",
            show_default="no end",
        ),
    ] = None,
    master: MasterOption = None,
    memory: MemoryOption = None,
    conf: ConfOption = None,
) -> None:
    """Compare settings of a scenario: systems, parameters, workloads, each over several seeds.

    Each setting runs with the same seeds, and is compared with the reference seed by seed: medians,
    95 % intervals, and whether a difference is more than chance. All deliveries are compared with
    the truth. A parameter of one system is left out for the others.
    """
    from shoal.experiments.comparisons.design import Design, parse_factor
    from shoal.experiments.comparisons.study import ComparisonPlan
    from shoal.experiments.studies.study import write_csv
    from shoal.report.study import read_study

    if is_uri(str(out)):
        raise UserError(f"{out}: a study is in a folder of this machine; give a path")
    root = out.resolve()
    try:
        factors = tuple(parse_factor(each) for each in vary)
        plan = ComparisonPlan(Design(scenario_file, tuple(settings or ()), factors, seeds), root)
        claim_folder(root, NOTES_TEXT)
        with spark_mistakes(), CommandSteps() as steps:
            means = StudyMeans(master, memory, spark_settings(conf or ()), minutes)
            done = carry_out("shoal study", steps, {"study": plan}, {"study": root}, means)
        write_csv(root / "tables" / "results.parquet", root / "results.csv")
        report = read_study(root / "study.json")
    except KeyboardInterrupt:
        Console(stderr=True).print(GOES_ON)
        raise typer.Exit(STOPPED_EXIT_CODE) from None
    except (OSError, ValueError) as error:
        raise UserError(str(error)) from error
    console = Console(highlight=False)
    if report.tables and report.tables[0].rows:
        at_a_glance = report.tables[0]
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for column in at_a_glance.columns:
            table.add_column(column, overflow="fold")
        for row in at_a_glance.rows:
            table.add_row(*row)
        show_table(console, table)
        console.print()
    for note in report.notes[:-2]:
        console.print(note, soft_wrap=True)
    console.print(f"{root / 'RESULTS.md'}\n{root / 'index.html'}", soft_wrap=True)
    done.exit_if_partial()
