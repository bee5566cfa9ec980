"""Findings of evaluations that the repository keeps: `evaluations/SCALE/STUDY.json`.

A file holds each claim of a paper with its measurement, and says by which commit it was measured.
It holds no figure: these are drawn by `shoal reproduce`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from shoal.experiments.registry import STUDIES
from shoal.report.study import StudyFinding, read_study

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "evaluations"
SCALES = ("small", "paper")


class KeptStudy(msgspec.Struct, frozen=True, kw_only=True):
    """The findings of one study at one scale; `commit` measured them, `facts` say of what size."""

    commit: str
    facts: tuple[str, ...]
    claims: tuple[StudyFinding, ...]


def read_kept(folder: Path = FOLDER) -> Mapping[str, Mapping[str, KeptStudy]]:
    """By study, then by scale; without those that were never measured."""
    return {
        study: {
            scale: msgspec.json.decode(path.read_bytes(), type=KeptStudy)
            for scale in SCALES
            if (path := folder / scale / f"{study}.json").is_file()
        }
        for study in STUDIES
    }


def keep(measured: Path, commit: str, folder: Path = FOLDER) -> list[Path]:
    """Keep the findings in a study's folder, or in that of `shoal reproduce all`.

    Returns the files. ValueError for a folder that is none of a study's, or of a part of the runs.
    """
    written = []
    for found in sorted({*measured.glob("study.json"), *measured.glob("*/study.json")}):
        study, report = found.parent.name, read_study(found)
        if study not in STUDIES:
            raise ValueError(f"{found.parent}: not named like a study: {', '.join(STUDIES)}")
        if report.is_part:
            raise ValueError(f"{found}: {report.facts[-1]}; the same command goes on with them")
        if report.scale not in SCALES:
            raise ValueError(f"{found}: no scale; the same command writes it anew with one")
        path = folder / report.scale / f"{study}.json"
        kept = KeptStudy(commit=commit, facts=report.facts, claims=report.claims)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(msgspec.json.format(msgspec.json.encode(kept), indent=1) + b"\n")
        written.append(path)
    if not written:
        raise ValueError(f"{measured}: no study.json, neither in it nor in a folder of it")
    return written
