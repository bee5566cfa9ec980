"""Commands answer without Spark where they can; errors of Spark become one line."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import pytest

from shoal.cli.main import main
from shoal.cli.support.spark import spark_complaint
from shoal.pipeline import session
from tests.pipeline.checks.test_provenance import make, noted


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def spark_session(*_: object, **__: object) -> NoReturn:
        raise AssertionError("Spark was started")

    monkeypatch.setattr(session, "spark_session", spark_session)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with `there` and a run in it."""
    monkeypatch.chdir(tmp_path)
    for name in ("there", "run"):
        (tmp_path / name).mkdir()
    (tmp_path / "run" / "scenario.toml").touch()
    (tmp_path / "m.toml").touch()
    (tmp_path / "S.jsonl").touch()
    return tmp_path


def complaint(capsys: pytest.CaptureFixture[str], command: str) -> str:
    """The one line on stderr of a command that ends with exit code 2."""
    with pytest.raises(SystemExit) as caught:
        main(command.split())
    found = capsys.readouterr()
    assert (caught.value.code, found.out, found.err.count("\n")) == (2, "", 1)
    return found.err.removeprefix("shoal: ").rstrip("\n")


MATCH = "match --engine spark --subscriptions S.jsonl --publications"


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("ingest m.toml none --out out", "none does not exist"),
        ("ingest none.toml there --out out", "none.toml does not exist"),
        ("ingest quotes none --out out", "none does not exist"),
        ("workload none --brokers 3 --out out", "none does not exist"),
        ("workload there --brokers none.csv --out out", "none.csv does not exist"),
        (
            "workload there --brokers 3 --subscriptions none.csv --out out",
            "--subscriptions none.csv: is no number, and no such file exists",
        ),
        (
            "workload there --brokers -3 --out out",
            "--brokers -3: give a number, airports:NUMBER, or a file",
        ),
        *(
            (
                f"workload there --brokers 3 --duration-s {seconds} --out out",
                f"--duration-s {seconds}: a replay takes some seconds, such as 300",
            )
            for seconds in ("0", "-1", "nan", "inf")
        ),
        (
            "workload there --brokers 3 --publishers 0 --out out",
            "--publishers 0: must be at least 1",
        ),
        ("truth none --out out", "none is not a folder; make one with `shoal workload`"),
        ("summarise run --truth none --out out", "none does not exist"),
        (
            "summarise there --truth run --out out",
            "there/scenario.toml: no such file; is there a run's folder?",
        ),
        (f"{MATCH} none.parquet", "none.parquet does not exist"),
        (f"{MATCH} none.csv", "none.csv does not exist"),
    ],
)
def test_paths_are_checked_before_spark_starts(
    folder: Path, capsys: pytest.CaptureFixture[str], command: str, problem: str
) -> None:
    assert complaint(capsys, command) == problem


@pytest.mark.parametrize("options", ["", " --stream --once --out out"])
def test_a_file_that_is_no_parquet_is_named(
    folder: Path, capsys: pytest.CaptureFixture[str], options: str
) -> None:
    for name, content, reason in (
        ("day=1/1.parquet", "nonsense", "Parquet magic bytes not found"),
        ("notes.txt", "what is this?", "Parquet magic bytes not found"),
        ("0.parquet", "", "it is empty"),
    ):
        file = folder / "there" / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(content)
        (folder / "there" / "_SUCCESS").touch()
        found = complaint(capsys, f"{MATCH} there{options}")
        assert found.startswith(f"there/{name} is not a Parquet file; mend it or move it away (")
        assert reason in found
        file.unlink()


def test_ingest_names_what_is_no_parquet_before_spark_starts(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "broken.parquet").write_text("nonsense")
    found = complaint(capsys, "ingest m.toml broken.parquet --out out")
    assert found.startswith("broken.parquet is not a Parquet file (")
    (folder / "there" / "a.csv").write_text("a,b\n1,2\n")
    found = complaint(capsys, "ingest m.toml there --out out")
    assert found.startswith("there/a.csv is not a Parquet file; mend it or move it away (")
    assert found.endswith("; a folder is read as Parquet: name CSV files")


def test_a_truth_of_another_workload_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    noted(folder / "truth", make(folder / "one", "s"))
    noted(folder / "load", make(folder / "other", "t"))
    (folder / "load" / "scenario.toml").touch()
    assert complaint(capsys, "summarise load --truth truth --out out") == (
        "truth is the truth of the workload one, and load is of other: "
        "give the truth of that one, made by `shoal truth other`"
    )


BATCH_FAILED = """\
[STREAM_FAILED] Query [id = 6a6e] terminated with exception: [FOREACH_BATCH_USER_FUNCTION_ERROR] \
An error occurred in the user provided function. Reason: Traceback (most recent call last):
  File "py4j/clientserver.py", line 644, in _call_proxy
"""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[UNRESOLVED_COLUMN] no such column\nat line 3", "Spark could not do this: [UNRESOLVED_"),
        (
            BATCH_FAILED
            + ": org.apache.spark.SparkException: [FAILED_READ_FILE.NO_HINT] Encountered error "
            "while reading file file:///data/in%20here/1.parquet.  SQLSTATE: KD001\n\tat org.apa\n"
            "Caused by: java.io.IOException: cannot read a page\nCaused by: a.B$C: too short",
            "/data/in here/1.parquet cannot be read (too short); mend it or move it away",
        ),
        (
            BATCH_FAILED + "shoal.pipeline.tables.TableError: publications: no column 'id'\n\tat",
            "publications: no column 'id'",
        ),
        (
            "[PYTHON_DATA_SOURCE_ERROR] It failed: Traceback (most recent call last):\n"
            '  File "a.py", line 3\n'
            "ModuleNotFoundError: No module named 'mine'\n SQLSTATE: 38000",
            "Spark could not do this: [PYTHON_DATA_SOURCE_ERROR] It failed: ModuleNotFoundError: "
            "No module named 'mine'",
        ),
    ],
)
def test_what_spark_says_becomes_one_line(text: str, line: str) -> None:
    from pyspark.errors import AnalysisException

    found = spark_complaint(AnalysisException(text))
    assert found.startswith(line)
    assert "\n" not in found


def test_what_is_small_gets_a_session_for_little_work(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def spark_session(*_: object, is_brief: bool, **__: object) -> NoReturn:
        raise ValueError(f"is_brief: {is_brief}")

    monkeypatch.setattr(session, "spark_session", spark_session)
    (folder / "there" / "events").write_bytes(b"12")
    assert complaint(capsys, "truth there --engine spark --out out") == "is_brief: True"
    monkeypatch.setattr("shoal.cli.support.spark.BRIEF_BYTES", 1)
    assert complaint(capsys, "truth there --engine spark --out out") == "is_brief: False"
