"""A truth is compared with runs of its own workload only."""

from __future__ import annotations

from pathlib import Path

import pytest

from shoal.pipeline.checks.provenance import (
    NOTE,
    ProvenanceError,
    check_same_workload,
    check_truth,
    write_note,
)


def make(folder: Path, subscriptions: str, events: str = "e") -> Path:
    for name, text in (("subscriptions.parquet", subscriptions), ("events", events)):
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name / "part-0.parquet").write_text(text)
    return folder


def noted(folder: Path, workload: Path) -> Path:
    folder.mkdir()
    write_note(workload, folder, folder)
    return folder


def test_another_workload_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    one, other = make(Path("one"), "s"), make(Path("other"), "t")
    truth, run, own = noted(Path("truth"), one), noted(Path("run"), other), noted(Path("own"), one)
    check_same_workload(truth, [own])
    with pytest.raises(ProvenanceError) as caught:
        check_same_workload(truth, [own, run])
    assert str(caught.value) == (
        "truth is the truth of the workload one, and run is of other: "
        "give the truth of that one, made by `shoal truth other`"
    )
    check_truth(truth, one)
    with pytest.raises(
        ProvenanceError, match="truth of the workload one, and the workload is other"
    ):
        check_truth(truth, other)


def test_a_copy_is_the_same_workload(tmp_path: Path) -> None:
    one, copy = make(tmp_path / "one", "s"), make(tmp_path / "copy", "s")
    check_same_workload(noted(tmp_path / "truth", one), [noted(tmp_path / "run", copy)])


def test_a_workload_that_was_made_anew(tmp_path: Path) -> None:
    workload = make(tmp_path / "one", "s")
    truth = noted(tmp_path / "truth", workload)
    make(workload, "s", "other events")
    run = noted(tmp_path / "run", workload)
    with pytest.raises(
        ProvenanceError, match=r"has changed since \S*truth came of it: make that an"
    ):
        check_same_workload(truth, [run])
    make(workload, "t")
    with pytest.raises(
        ProvenanceError, match=r"since \S*truth and \S*run came of it: make them an"
    ):
        check_same_workload(truth, [run])
    with pytest.raises(ProvenanceError, match=r"since \S*truth came of it"):
        check_truth(truth, workload)


def test_without_a_note_nobody_is_doubted(tmp_path: Path) -> None:
    workload = make(tmp_path / "one", "s")
    truth = noted(tmp_path / "truth", workload)
    (tmp_path / "run").mkdir()
    check_same_workload(truth, [tmp_path / "run"])
    (truth / NOTE).unlink()
    check_truth(truth, make(tmp_path / "other", "t"))


@pytest.mark.parametrize(
    ("inside", "what"), [("subscriptions.parquet", "workload"), ("scenario.toml", "run")]
)
def test_a_workload_or_a_run_is_no_truth(tmp_path: Path, inside: str, what: str) -> None:
    """Its tables have a truth's columns: every delivery was said to be lost, and a phantom."""
    (tmp_path / inside).mkdir()
    said = f"{tmp_path} is a {what}, not what `shoal truth` wrote"
    with pytest.raises(ProvenanceError, match=said):
        check_same_workload(tmp_path, [])
    with pytest.raises(ProvenanceError, match=said):
        check_truth(tmp_path, tmp_path)
