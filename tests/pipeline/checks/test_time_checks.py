"""Times that would press a replay together are named by ingest, and before a workload is made."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pyspark.sql import SparkSession

from shoal.cli.main import main
from shoal.pipeline.checks import time_checks
from shoal.pipeline.checks.time_checks import time_warnings
from shoal.pipeline.ingest import ingest_mapped, ingest_small
from tests.examples import one_in
from tests.pipeline.small.test_small_files import tables

MAPPING = 'publisher = ["site"]\ntime = { column = "at", %s }\n[columns]\nsite = "string"\n'
SECOND = 1_000_000
NEW_YEAR = 1_767_225_600


def run(*words: object) -> None:
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    assert not ended.value.code


def test_a_lone_row_of_2116_is_named_by_ingest_and_workload(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mapping, data = tmp_path / "m.toml", tmp_path / "data.csv"
    mapping.write_text(MAPPING % 'format = "iso8601"')
    times = [f"2026-01-01T{hour:02}:00" for hour in range(24)]
    data.write_text("at,site\n" + "".join(f"{time},kiel\n" for time in [*times, "2116-01-31"]))
    line = (
        "shoal: warning: 1 of 25 rows (4 %) is far from the others in time, at 2116-01-31 00:00; "
        "the others, from 2026-01-01 00:00 to 2026-01-01 23:00, would be pressed into 0.0029 % of "
        'a replay: write before = "2026-01-02" under [time] in the declaration to reject it'
    )
    run("ingest", mapping, data, "--out", tmp_path / "out")
    assert line in capsys.readouterr().err.splitlines()
    words = ("workload", tmp_path / "out", "--brokers", 2, "--out")
    run(*words, tmp_path / "workload")
    assert line in capsys.readouterr().err.splitlines()
    run(*words, tmp_path / "window", "--to", "2027-01-01")
    assert "far from" not in capsys.readouterr().err
    mapping.write_text(MAPPING % 'format = "iso8601", before = "2026-01-02"')
    run("ingest", mapping, data, "--out", tmp_path / "again")
    assert "far from" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("declared", "unit", "remedy"),
    [
        ("epoch_s", 1_000, "epoch_ms"),
        ("epoch_ms", 1, "epoch_s"),
        ("epoch_us", 1_000, "epoch_ms"),
        ("epoch_ms", 1_000_000, "epoch_us"),
    ],
)
def test_another_unit_of_epochs_is_named(
    tmp_path: Path, declared: str, unit: int, remedy: str
) -> None:
    mapping, data = tmp_path / "m.toml", tmp_path / "data.csv"
    mapping.write_text(MAPPING % f'format = "{declared}"')
    times = [(NEW_YEAR + second) * unit for second in range(5)]
    data.write_text("at,site\n" + "".join(f"{time},kiel\n" for time in times))
    (line,) = ingest_small(mapping, [data], tmp_path / "out").time_warnings
    assert line.endswith(
        f'or in another unit 2026-01-01 00:00: write format = "{remedy}" for "{declared}"'
    )


@pytest.mark.parametrize(
    "times",
    [
        [],
        [0, 1, 2],
        [second * SECOND for second in range(2_000_000)],
        [(NEW_YEAR + day * 86_400) * SECOND for day in (*range(300), 400)],
        [(NEW_YEAR + 86_400 * step) * SECOND for step in (0, 1)],
    ],
)
def test_times_without_fault_are_not_named(times: list[int]) -> None:
    assert time_warnings(lambda: iter([np.array(times, np.int64)])) == []


def test_a_sample_decides_and_all_rows_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_checks, "MOST_SAMPLED", 10)
    usual = (NEW_YEAR + np.arange(1_000) * 60) * SECOND
    far = np.array([0, 1, 2_500_000_000 * SECOND])
    (line,) = time_warnings(lambda: iter([usual[:500], far, usual[500:]]))
    assert line.startswith("3 of 1,003 rows (0.3 %) are far from the others in time, at 1970-01-01")
    assert 'write earliest = "2026-01-01" and before = "2026-01-02" under' in line


BOUNDED = [
    ('column = "at", format = "iso8601"', "time column 'at': '%s' is not a time from"),
    ('column = "at", format = "dd/M/yyyy[ HH:mm]"', "time column 'at': '%s' is not a time from"),
    ('expression = "try_to_timestamp(at)"', "the event time: '%s 00:00:00' is not a time from"),
]


@pytest.mark.parametrize(("rule", "reason"), one_in(2, BOUNDED))
def test_rows_out_of_time_are_rejected(
    spark: SparkSession, tmp_path: Path, rule: str, reason: str
) -> None:
    mapping, data = tmp_path / "m.toml", tmp_path / "data.csv"
    bounds = 'earliest = "2026-01-01", before = "2027-01-01"'
    text = MAPPING.replace('column = "at", %s', f"{rule}, {bounds}")
    mapping.write_text(text + 'at = "string"\n')
    times = ["2025-12-31", "2026-01-01", "2026-12-31", "2027-01-01", "soon"]
    if "dd" in rule:
        times = ["/".join(reversed(time.split("-"))) for time in times]
        times = [time.replace("/01/", "/1/") for time in times]
    data.write_text("at,site\n" + "".join(f"{time},kiel\n" for time in times))
    counts = ingest_mapped(spark, mapping, [data], tmp_path / "out")
    assert (counts.kept, counts.rejected) == (2, 3)
    found = [row["reason"] for row in tables(tmp_path / "out")["rejects"]]
    assert found[:2] == [
        f"{reason % time} 2026-01-01 and before 2027-01-01" for time in (times[0], times[3])
    ]
    assert "before" not in found[2]
    if "iso8601" in rule:
        assert ingest_small(mapping, [data], tmp_path / "small") == counts
