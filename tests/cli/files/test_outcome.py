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
