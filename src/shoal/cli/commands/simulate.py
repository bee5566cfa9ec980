"""`shoal simulate`: run a scenario in the simulator and keep its trace."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from shoal.cli.support.errors import UserError
from shoal.cli.support.places import check_place
from shoal.cli.support.still import duration, told
from shoal.cli.support.table_places import output_folder, put_output
from shoal.cli.support.waiting import waiting
from shoal.cli.systems.registry import ADVISING
from shoal.frames.table_places import named
from shoal.report.drawing import figures

if TYPE_CHECKING:
    from shoal.experiments.runs.run_totals import RunTotals
    from shoal.experiments.runs.seeds import SeedFigures

# A number that is mistyped should not simulate for days.
MAX_SEEDS = 1_000

# Possible outcomes of a link that brokers propose.
PROPOSED = {
    "done": "links exchanged",
    "failed": "exchanges of links that failed",
    "advised": "recommendations of links",
    "refused": "links refused",
}


def simulate(
    scenario_file: Annotated[
        Path, typer.Argument(metavar="SCENARIO.toml", help="The scenario to run, see examples/.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder the run is written to.")],
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY.PATH=VALUE", help="Change a key of the scenario."),
    ] = None,
    seeds: Annotated[
        int,
        typer.Option(
            min=1,
            max=MAX_SEEDS,
            help="Run so many seeds, 6 or more: reports then tell effects from chance.",
        ),
    ] = 1,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a run that is already in the folder.")
    ] = False,
) -> None:
    """Run a scenario in the deterministic simulator.

    The same scenario and seed write the same files, byte for byte.  A key that no scenario has
    is an error that names it.  With --seeds the folder has the run of the scenario's seed, and the
    figures of those that follow it.
    """
    # The code takes a moment by itself.
    with waiting(f"reading {scenario_file}"):
        from shoal.experiments.run_files import RunFileError
        from shoal.experiments.runs.run_folder import RunFolder, check_target
        from shoal.experiments.runs.runner import run_scenario
        from shoal.experiments.runs.seeds import figures_of, other_seeds
        from shoal.experiments.scenarios.scenario import load_scenario, written_form
        from shoal.experiments.scenarios.sections import ScenarioError
        from shoal.overlays.shapes import TopologyError
        from shoal.report.remarks import FAR_BEHIND_US, remarks
        from shoal.simulation.links.underlay import UnderlayError
        from shoal.typed_toml import TomlError

    out = output_folder(out, overwrite=overwrite)
    try:
        scenario = load_scenario(scenario_file, settings or ())
        check_target(out, overwrite=overwrite)
        check_place(out)
        with RunFolder(out, overwrite=overwrite) as folder:
            with _VirtualTime(scenario.name, FAR_BEHIND_US) as virtual_time:
                result = run_scenario(scenario, progress=virtual_time, sink=folder.sink)
            # Its tables are read here before they are moved.
            adviser = ADVISING.get(scenario.system)
            advice = adviser.of_run(scenario.parameters, result.tables) if adviser else ""
            by_seed = []
            if seeds > 1:
                by_seed = [figures_of(result, scenario.trace.window_us)]
                with waiting(f"{scenario.name}: {seeds - 1} more seeds") as status:
                    status.follow(lambda: f"{len(by_seed) - 1} done")
                    for figures_of_seed in other_seeds(scenario, seeds):
                        by_seed.append(figures_of_seed)
            folder.finish(result.checks, scenario, by_seed)
    except (ScenarioError, TopologyError, UnderlayError) as error:
        raise UserError(f"{scenario_file}: {error}") from error
    except (OSError, RunFileError, TomlError) as error:
        raise UserError(str(error)) from error
    put_output(out, overwrite=overwrite)
    console = Console()
    console.print(_summary(scenario.name, result.totals, result.checks))
    for remark in remarks(written_form(scenario), result.checks):
        console.print(remark, soft_wrap=True, highlight=False)
    if by_seed:
        console.print(_over_seeds(by_seed), soft_wrap=True, highlight=False)
    console.print(f"run written to {named(str(out))}", soft_wrap=True, highlight=False)
    if advice:
        print(advice)


def _over_seeds(by_seed: Sequence[SeedFigures]) -> str:
    """Return how far the two main figures spread."""
    rates = [each.message_rate_per_s for each in by_seed]
    delays_us = [each.delay_mean_us for each in by_seed if each.delay_mean_us is not None]
    words = f"over {len(by_seed)} seeds: {_spread(rates)} messages/s in at a broker"
    delays = _spread([each / 1_000 for each in delays_us])
    return f"{words}, {delays} ms mean delivery delay" if delays_us else words


def _spread(values: Sequence[float]) -> str:
    low, middle, high = (
        figures.quantity(each) for each in (min(values), median(values), max(values))
    )
    return f"{middle} ({low} to {high})"


class _VirtualTime:
    """A bar on stderr, and a word when brokers fall behind (see `runner.Progress`)."""

    def __init__(self, name: str, far_behind_us: int) -> None:
        console = Console(stderr=True)
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:.0f} of {task.total:.0f} s virtual time"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            # Into a file or pipe a bar leaves only empty lines.
            disable=not console.is_terminal,
        )
        self._task = self._progress.add_task(name, total=1)
        self._far_behind_us = far_behind_us
        self._is_behind = False
        self._began_s = time.monotonic()
        self._told = told(self._text, on_terminal=console.is_terminal)

    def _text(self) -> str:
        task = self._progress.tasks[self._task]
        passed = duration(time.monotonic() - self._began_s)
        how_far = f"{task.completed:.0f} of {task.total:.0f} s virtual time"
        return f"{task.description}, {how_far}, {passed}"

    def __enter__(self) -> _VirtualTime:
        self._progress.start()
        self._told.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._told.__exit__(None, None, None)
        self._progress.stop()

    def __call__(self, now_us: int, end_us: int, behind_us: int) -> None:
        if behind_us >= self._far_behind_us and not self._is_behind:
            self._is_behind = True
            self._progress.console.print(
                f"shoal: warning: {now_us / 1e6:.0f} s into the run a broker is "
                f"{behind_us / 1e6:.0f} s behind: more is published than it can handle",
                soft_wrap=True,
                highlight=False,
            )
        total = max(now_us, end_us, 1) / 1_000_000
        self._progress.update(self._task, completed=now_us / 1_000_000, total=total)


def _summary(name: str, totals: RunTotals, checks: Mapping[str, Any]) -> Table:
    """Return the figures of the run itself; `shoal summarise` compares it with the truth."""
    table = Table(title=name, show_header=False, title_justify="left")
    table.add_column(style="dim")
    table.add_column(justify="right")
    for key, value in checks.items():
        if key.endswith("_us"):
            table.add_row(f"{key.removesuffix('_us').replace('_', ' ')} (s)", f"{value / 1e6:,.3f}")
        else:
            table.add_row(key.replace("_", " "), f"{value:,}")
    if totals.delay_mean_us is not None and totals.hops_mean is not None:
        table.add_row("mean delivery delay (ms)", f"{totals.delay_mean_us / 1_000:,.1f}")
        table.add_row("mean hops", f"{totals.hops_mean:.2f}")
    table.add_row("broker messages in and out", f"{totals.messages:,}")
    table.add_row("publisher moves", str(totals.rows["migrations"]))
    for outcome, words in PROPOSED.items():
        if totals.outcomes[outcome]:
            table.add_row(words, f"{totals.outcomes[outcome]:,}")
    return table
