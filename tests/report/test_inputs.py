"""Reading runs for a report: order, part files, and errors."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shoal.report.inputs import ReportError, read_runs
from tests.report.fake_runs import make_runs, write


def test_runs_come_in_the_order_given_with_their_own_rows(tmp_path: Path) -> None:
    (baseline, load, _), summary = make_runs(tmp_path)
    runs = read_runs([load, baseline], summary)
    assert [run.name for run in runs] == ["load100", "baseline"]
    assert runs[0].metrics["system"] == "grape"
    assert len(runs[0].migrations) == runs[0].metrics["migrations"] > 0
    assert runs[1].migrations == []
    assert len(runs[0].loads) == len(runs[0].brokers) == 10
    assert runs[0].scenario["grape"]["priority"] == "load"


def test_a_table_may_be_a_folder_of_part_files_as_spark_writes_it(tmp_path: Path) -> None:
    runs, summary = make_runs(tmp_path)
    expected = read_runs(runs, summary)[0].timeline
    file = summary / "timeline.parquet"
    table = pq.read_table(file)
    file.unlink()
    file.mkdir()
    (file / "_SUCCESS").touch()
    pq.write_table(table.slice(0, 50), file / "part-0.parquet")
    pq.write_table(table.slice(50), file / "part-1.parquet")
    assert read_runs(runs, summary)[0].timeline == expected


def test_a_run_that_was_not_summarised_is_named(tmp_path: Path) -> None:
    _, summary = make_runs(tmp_path / "one")
    others, _ = make_runs(tmp_path / "two", names=["other"])
    with pytest.raises(ReportError, match=r"runs\.parquet: column 'run' has no 'other'"):
        read_runs(others, summary)


def test_two_runs_of_one_name_are_refused(tmp_path: Path) -> None:
    one, summary = make_runs(tmp_path / "one")
    two, _ = make_runs(tmp_path / "two")
    with pytest.raises(ReportError, match="two runs are called 'baseline'"):
        read_runs([one[0], two[0]], summary)


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("message_rate_per_s", None, "column 'message_rate_per_s' is missing"),
        ("message_rate_per_s", ["12"], "holds string, expected number"),
        ("window_start_us", [1.5], "holds double, expected whole number"),
        ("run", [None], "column 'run' has 1 null values"),
    ],
)
def test_a_misshapen_table_is_an_error_with_file_and_column(
    tmp_path: Path, column: str, values: list[object] | None, message: str
) -> None:
    runs, summary = make_runs(tmp_path)
    file = summary / "timeline.parquet"
    table = pq.read_table(file).slice(0, 1)
    at = table.column_names.index(column)
    table = table.remove_column(at)
    if values is not None:
        kind = pa.string() if values == [None] else None
        table = table.add_column(at, column, pa.array(values, type=kind))
    pq.write_table(table, file)
    with pytest.raises(ReportError, match=f"timeline.parquet: .*{message}"):
        read_runs(runs, summary)


@pytest.mark.parametrize("file", ["brokers.parquet", "scenario.toml", "checks.json"])
def test_a_missing_or_broken_file_is_named(tmp_path: Path, file: str) -> None:
    runs, summary = make_runs(tmp_path)
    (runs[1] / file).write_text("= {", encoding="utf-8")
    with pytest.raises(ReportError, match=f"load100.{file}: not "):
        read_runs(runs, summary)
    (runs[1] / file).unlink()
    with pytest.raises(ReportError, match=f"load100.{file}: no such"):
        read_runs(runs, summary)


def test_a_link_to_an_unknown_broker_is_named(tmp_path: Path) -> None:
    runs, summary = make_runs(tmp_path)
    links = [{"left": "ATL", "right": "XYZ"}]
    write(runs[0] / "links.parquet", links, {"left": pa.string(), "right": pa.string()})
    with pytest.raises(ReportError, match=r"links\.parquet: column 'right' names broker 'XYZ'"):
        read_runs(runs, summary)
