"""Links a truth or a run to its workload: a note beside its tables.

A note names the workload's folder and holds a digest of the sources of deliveries, the
subscriptions and the events. So a truth is never compared with runs of another workload, nor with
those of the same folder before it was made anew.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

import msgspec

# Spark and Arrow ignore files whose names begin so.
NOTE = "_workload.json"
_DECISIVE = ("subscriptions", "events")
# Possible judges of a truth.
SPARK, DEFINITIONS = "Spark", "the filters"


class ProvenanceError(ValueError):
    """Tables of different workloads; says which is of which."""


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """A workload: its folder, relative to the note's, and the digest of its content then.

    `judge` is the source of a truth.
    """

    workload: str
    digest: str
    judge: str = SPARK


def write_note(workload: Path, folder: Path, home: Path, *, judge: str = SPARK) -> None:
    """Say in `folder`, which will be `home`, which workload its tables are of."""
    text = os.path.relpath(workload.resolve(), home.resolve())
    origin = Origin(workload=Path(text).as_posix(), digest=workload_digest(workload), judge=judge)
    (folder / NOTE).write_bytes(msgspec.json.encode(origin) + b"\n")


def check_same_workload(truth: Path, runs: Iterable[Path]) -> None:
    """MismatchError for a run of another workload than the truth's.

    A folder without a note is accepted.
    """
    _check_is_truth(truth)
    of_truth = _origin(truth)
    for run in runs:
        of_run = _origin(run)
        if of_truth is not None and of_run is not None and of_truth[1] != of_run[1]:
            raise ProvenanceError(_difference(truth, of_truth, run, of_run))


def check_truth(truth: Path, workload: Path) -> None:
    """MismatchError when a truth is of another workload, or none."""
    _check_is_truth(truth)
    origin = _origin(truth)
    if origin is not None and origin[1] != workload_digest(workload):
        now = workload.resolve(), workload_digest(workload)
        raise ProvenanceError(_difference(truth, origin, None, now))


def _check_is_truth(truth: Path) -> None:
    """MismatchError for other folders of this pipeline with tables that resemble a truth."""
    for inside, what in (("subscriptions.parquet", "workload"), ("scenario.toml", "run")):
        if (truth / inside).exists():
            raise ProvenanceError(f"{truth} is a {what}, not what `shoal truth` wrote for one")


def workload_digest(workload: Path) -> str:
    """Of a workload's subscriptions and events, whatever their files are called."""
    whole = hashlib.sha256()
    for table in _DECISIVE:
        files: list[Path] = []
        for path in (workload / table, workload / f"{table}.parquet"):
            files += path.rglob("*.parquet") if path.is_dir() else [path] if path.exists() else []
        whole.update("".join(sorted(map(file_digest, files))).encode() + b"\n")
    return whole.hexdigest()


def file_digest(path: Path) -> str:
    """Of a file's contents."""
    with path.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def judge_of(truth: Path) -> str:
    """Return the judge of a truth; one without a note was made by Spark."""
    note = _note(truth)
    return SPARK if note is None else note.judge


def _note(folder: Path) -> Origin | None:
    try:
        return msgspec.json.decode((folder / NOTE).read_bytes(), type=Origin)
    except (OSError, msgspec.DecodeError):
        return None


def _origin(folder: Path) -> tuple[Path, str] | None:
    """The workload's folder and its digest; None without a note."""
    note = _note(folder)
    return None if note is None else ((folder / note.workload).resolve(), note.digest)


def _difference(
    truth: Path, of_truth: tuple[Path, str], run: Path | None, of_run: tuple[Path, str]
) -> str:
    workload = _shown(of_run[0])
    if of_truth[0] != of_run[0]:
        other = f"{run} is of {workload}" if run else f"the workload is {workload}"
        return (
            f"{truth} is the truth of the workload {_shown(of_truth[0])}, and {other}: "
            f"give the truth of that one, made by `shoal truth {workload}`"
        )
    now = workload_digest(of_run[0])
    old = [str(path) for path, origin in ((truth, of_truth), (run, of_run)) if origin[1] != now]
    return (
        f"the workload {workload} has changed since {' and '.join(old)} came of it: "
        f"make {'them' if len(old) > 1 else 'that'} anew"
    )


def _shown(path: Path) -> str:
    """Relative to the working folder where it is below it."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
