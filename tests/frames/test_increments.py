"""Truth and pairs that grow with their inputs are those of a run on everything."""

from __future__ import annotations

import random
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shoal.cli.main import main
from shoal.frames import increments
from shoal.frames.folders import EVENTS
from shoal.frames.parquet_files import part_files
from shoal.pipeline.checks.provenance import check_truth
from shoal.pipeline.schemas import SUBSCRIPTIONS, arrow_schema

KEY = ["publisher", "sequence", "subscription"]


class Growing:
    """A workload's events and subscriptions, to which files are added."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self._random = random.Random(seed)
        self._made = {EVENTS: 0, "subscriptions.parquet": 0}
        for name in self._made:
            (folder / name).mkdir(parents=True)

    def add_events(self) -> None:
        rows = [
            {"publisher": "p", "sequence": at, "attributes": {"wind": self._random.uniform(0, 9)}}
            for at in self._numbers(EVENTS)
        ]
        self._write(EVENTS, pa.Table.from_pylist(rows))

    def add_subscriptions(self) -> None:
        rows = [
            {
                **dict.fromkeys(SUBSCRIPTIONS.names),
                "subscription": f"s{at}",
                "filter": f"wind > {self._random.uniform(0, 9)}",
            }
            for at in self._numbers("subscriptions.parquet")
        ]
        self._write(
            "subscriptions.parquet", pa.Table.from_pylist(rows, arrow_schema(SUBSCRIPTIONS))
        )

    def _numbers(self, name: str) -> range:
        first = self._made[name]
        self._made[name] += self._random.randint(1, 4)
        return range(first, self._made[name])

    def _write(self, name: str, table: pa.Table) -> None:
        pq.write_table(table, self.folder / name / f"part-{self._made[name]}.parquet")


def run(*words: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    return int(ended.value.code or 0)


def rows(folder: Path) -> list[tuple[object, ...]]:
    tables = [pq.ParquetFile(file).read(KEY) for file in part_files(folder)]
    return sorted(tuple(row.values()) for row in pa.concat_tables(tables).to_pylist())


@pytest.mark.parametrize("seed", range(3))
def test_parts_are_together_a_run_on_everything(seed: int, tmp_path: Path) -> None:
    given, chance = Growing(tmp_path / "work", seed), random.Random(seed)
    events, filters = (given.folder / name for name in (EVENTS, "subscriptions.parquet"))
    matching = ("match", "--publications", events, "--subscriptions", filters, "--out")
    given.add_events()
    given.add_subscriptions()
    for number in range(4):
        assert run("truth", given.folder, "--out", tmp_path / "truth", "--add") == 0
        assert run(*matching, tmp_path / "pairs", "--add") == 0
        assert run("truth", given.folder, "--out", tmp_path / f"all{number}") == 0
        expected = rows(tmp_path / f"all{number}")
        assert rows(tmp_path / "truth") == rows(tmp_path / "pairs") == expected
        check_truth(tmp_path / "truth", given.folder)
        grow = chance.sample([given.add_events, given.add_subscriptions], chance.randint(1, 2))
        for each in grow:
            each()


def test_a_killed_run_leaves_no_half_part_and_is_repeated(tmp_path: Path) -> None:
    given = Growing(tmp_path / "work", 1)
    given.add_events()
    given.add_subscriptions()
    add = ("truth", given.folder, "--out", tmp_path / "truth", "--add")
    assert run(*add) == 0
    before = rows(tmp_path / "truth")
    given.add_events()
    given.add_subscriptions()
    # The work folder stays, as after a kill, and the lock on it is free.
    killed = mock.patch.object(increments, "_publish", side_effect=KeyboardInterrupt)
    with killed, mock.patch("shutil.rmtree"):
        assert run(*add) == 130
    assert any(each.name.startswith(".adding.") for each in (tmp_path / "truth").iterdir())
    assert rows(tmp_path / "truth") == before
    assert run(*add) == 0
    assert run("truth", given.folder, "--out", tmp_path / "all") == 0
    assert rows(tmp_path / "truth") == rows(tmp_path / "all")
    assert sorted(each.name for each in (tmp_path / "truth").iterdir()) == [
        *("_workload.json", "part=0", "part=1"),
    ]


def test_two_runs_at_a_time_add_their_pairs_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = Growing(tmp_path / "work", 1)
    given.add_events()
    given.add_subscriptions()
    add = ("truth", given.folder, "--out", tmp_path / "truth", "--add")
    publish = increments._publish

    def after_another(filled: Path, target: Path) -> None:
        with mock.patch.object(increments, "_publish", publish):
            assert run(*add) == 0
        publish(filled, target)

    with mock.patch.object(increments, "_publish", after_another):
        assert run(*add) == 2
    assert "another run has added to it; run this again" in capsys.readouterr().err
    assert run("truth", given.folder, "--out", tmp_path / "all") == 0
    assert rows(tmp_path / "truth") == rows(tmp_path / "all")


def test_a_table_that_is_one_file_in_a_folder_is_added(tmp_path: Path) -> None:
    (tmp_path / "winds").mkdir()
    pq.write_table(
        pa.table({"id": ["p"], "wind": [4.0]}), tmp_path / "winds" / "publications.parquet"
    )
    (tmp_path / "s.jsonl").write_text('{"id": "windy", "filter": "wind > 3"}\n')
    given = ("--publications", tmp_path / "winds", "--subscriptions", tmp_path / "s.jsonl")
    assert run("match", *given, "--out", tmp_path / "pairs", "--add") == 0
    assert pq.read_table(tmp_path / "pairs").num_rows == 1


def test_what_cannot_be_added_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = Growing(tmp_path / "work", 1)
    given.add_events()
    given.add_subscriptions()
    whole = ("truth", given.folder, "--out", tmp_path / "whole")
    assert run(*whole) == 0
    assert run(*whole, "--add") == 2
    assert "whole is not a folder of parts; give another place" in capsys.readouterr().err
    assert run("truth", given.folder, "--out", tmp_path / "truth", "--add") == 0
    file = next((given.folder / EVENTS).iterdir())
    file.write_bytes(b"other")
    assert run("truth", given.folder, "--out", tmp_path / "truth", "--add") == 2
    assert f"{file} has changed since its pairs were made" in capsys.readouterr().err
