from dataclasses import replace
from pathlib import Path

from rich.console import Console

from shoal.cli.support.outcome import outcome_table, verdict_line
from shoal.report.drawing.figures import MINUS
from shoal.report.inputs import read_runs
from tests.report.fake_runs import make_runs


def test_three_runs_fit_a_terminal_of_80_columns(tmp_path: Path) -> None:
    runs = read_runs(*make_runs(tmp_path))
    console = Console(width=80, record=True, file=(tmp_path / "out").open("w"))
    console.print(outcome_table(runs))
    text = console.export_text()
    line = next(line for line in text.splitlines() if "Broker message rate" in line)
    assert line.split()[-4:] == ["16.8", f"{MINUS}31.0%", "21.0", f"{MINUS}14.0%"]
    assert "Expected deliveries" in text
    assert "\N{HORIZONTAL ELLIPSIS} 99th percentile, ms" in text
    assert max(map(len, text.splitlines())) <= 80


def test_the_verdict_adds_up_the_runs(tmp_path: Path) -> None:
    runs = read_runs(*make_runs(tmp_path))
    runs[1].metrics["lost"] = 2
    assert verdict_line(runs) == (
        "deliveries expected by Spark in 3 runs: 393,216, delivered: 393,216, lost: 2, "
        "duplicated: 0, phantom: 0"
    )
    assert verdict_line(runs[:1]).startswith("deliveries expected by Spark: 131,072, ")


def test_of_several_seeds_the_medians_come_first_and_the_rest_says_of_which_seed_it_is(
    tmp_path: Path,
) -> None:
    runs = read_runs(*make_runs(tmp_path))
    rates = (30.0, 10.0, 20.0)
    seeded = [replace(run, seeds=[run.metrics | {"message_rate_per_s": rate} for rate in rates])
              for run in runs[:2]]  # fmt: skip
    console = Console(width=80, record=True, file=(tmp_path / "out").open("w"))
    console.print(outcome_table(seeded))
    text = console.export_text()
    medians, first = text.split("Figures below: of the first seed only")
    assert "Median of 3 seeds" in medians
    line = next(line for line in medians.splitlines() if "Broker message rate" in line)
    assert line.split()[-2:] == ["20.0", "20.0"]
    line = next(line for line in first.splitlines() if "Broker message rate" in line)
    assert line.split()[-2:] == ["16.8", f"{MINUS}31.0%"]
    assert max(map(len, text.splitlines())) <= 80
    assert "in 2 runs of the first seed: " in verdict_line(seeded)


def test_runs_of_one_seed_have_no_medians(tmp_path: Path) -> None:
    runs = read_runs(*make_runs(tmp_path))
    console = Console(width=80, record=True, file=(tmp_path / "out").open("w"))
    console.print(outcome_table(runs))
    assert "seed" not in console.export_text()
