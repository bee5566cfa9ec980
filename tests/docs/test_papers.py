"""The tables of PAPERS.md are the findings that the repository keeps."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from shoal.experiments.registry import STUDIES
from shoal.experiments.studies.study import Conclusion
from shoal.report.study import StudyFinding, StudyReport
from tools.papers.__main__ import made, stale
from tools.papers.kept import KeptStudy, keep, read_kept
from tools.papers.shown import PAPERS, SHOWN


def finding(id: str, claim: str, verdict: str = "met", **fields: object) -> StudyFinding:
    given = {"id": id, "section": "Load", "dataset": "quotes", "claim": claim, "paper": "half"}
    given |= {"ours": "51 %", "verdict": verdict, "reason": ""}
    return msgspec.convert(given | fields, StudyFinding)


def report(*claims: StudyFinding, missing: str = "", scale: str = "small") -> bytes:
    whole = StudyReport(
        title="x", scale=scale, facts=("9 runs",), notes=(), claims=claims, tables=(), groups=()
    )
    return msgspec.json.encode(
        Conclusion(whole, {}).of_a_part(missing).report if missing else whole
    )


def test_the_pages_are_as_the_findings_say() -> None:
    assert not [path.name for path, _ in stale()], "run `make papers`"


def test_findings_have_all_claims_that_are_shown() -> None:
    kept = read_kept()
    assert set(kept) == set(STUDIES) == set(PAPERS) == set(SHOWN)
    assert kept["relocation"]
    for study, scales in kept.items():
        for each in scales.values():
            assert {claim.id for claim in each.claims} >= set(SHOWN[study]), study


def test_findings_are_kept_by_study_and_scale(tmp_path: Path) -> None:
    measured, folder = tmp_path / "octopia", tmp_path / "kept"
    measured.mkdir()
    (measured / "study.json").write_bytes(report(finding("9a", "Less load")))
    assert keep(measured, "c0ffee", folder) == [folder / "small" / "octopia.json"]
    found = read_kept(folder)["octopia"]["small"]
    assert (found.commit, [each.id for each in found.claims]) == ("c0ffee", ["9a"])


def test_findings_without_a_scale_are_not_kept(tmp_path: Path) -> None:
    measured = tmp_path / "octopia"
    measured.mkdir()
    (measured / "study.json").write_bytes(report(scale=""))
    with pytest.raises(ValueError, match="no scale"):
        keep(measured, "c0ffee", tmp_path / "kept")


@pytest.mark.parametrize(
    ("name", "missing", "said"),
    [
        ("octopia", "3 of 9 runs have not been made", "3 of 9 runs"),
        ("octopia", "the workloads have not been made, nor any run", "nor any"),
        ("elsewhere", "", "not named like a study: relocation"),
    ],
)
def test_a_part_of_the_runs_is_not_kept(tmp_path: Path, name: str, missing: str, said: str) -> None:
    measured = tmp_path / name
    measured.mkdir()
    (measured / "study.json").write_bytes(report(missing=missing))
    with pytest.raises(ValueError, match=said):
        keep(measured, "c0ffee", tmp_path / "kept")
    assert not (tmp_path / "kept").exists()


def test_tables_have_verdicts_of_each_scale() -> None:
    claims = [
        finding(id, f"claim {id}", "missed" if id == "9b" else "met", value=0.51, unit="%")
        for id in SHOWN["octopia"]
    ]
    claims[0] = msgspec.structs.replace(claims[0], turns=True, half=0.04)
    claims[2] = msgspec.structs.replace(claims[2], claim="... and also")
    small = KeptStudy(commit="c0ffee", facts=("9 runs",), claims=tuple(claims))
    whole = msgspec.structs.replace(small, claims=(finding("9a", "claim 9a", ours="64 %, once"),))
    marks = "".join(
        f"<!-- table {each} -->\n<!-- end of {each} -->\n" for each in ("counts", "octopia")
    )
    pages = made({"octopia": {"small": small, "paper": whole}}, f"Before\n{marks}Behind\n")
    overview = next(text for path, text in pages.items() if path.name == "PAPERS.md")
    assert overview.startswith("Before\n")
    assert overview.endswith("Behind\n")
    assert "| claim 9a | half | met, turns: 51.0 % ± 4.0 % | met |" in overview
    assert "| claim 9b | half | **missed**: 51 % |  |" in overview
    assert "| claim 9b and also | half |" in overview.replace("... ", "")
    every = next(text for path, text in pages.items() if path.name == "octopia.md")
    assert "| claim 9a | half |  | met: 51 % | met: 64 %, once |" in every
    rows = [line for line in overview.splitlines() if "](docs/" in line]
    link = "[{}](docs/background/papers/claims/octopia.md)"
    assert [row.split(" | ")[1:] for row in rows] == [
        ["small", link.format(18), "17", "1", "1 |"],
        ["paper", link.format(1), "1", "", " |"],
    ]
    assert "| claims | met | missed | turn |" in overview
    assert (
        made({"octopia": {"small": small, "paper": whole}}, overview)[
            next(path for path in pages if path.name == "PAPERS.md")
        ]
        == overview
    )


def test_a_page_without_a_place_for_a_table_is_named() -> None:
    with pytest.raises(ValueError, match="no place for a table: <!-- table counts -->"):
        made({}, "nothing")
