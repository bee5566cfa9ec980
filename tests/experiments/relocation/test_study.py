"""From runs to pages: all the paper's figures, consistent tables, no invented values."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pyarrow.parquet as pq

from shoal.experiments.relocation.claims import CLAIMS
from shoal.experiments.relocation.evidence import RelocationEvidence
from shoal.experiments.relocation.figures import LOOKS, figure_groups
from shoal.experiments.relocation.grid import BASELINE, EVERY_WEIGHT, LOAD, POP, SCALES
from shoal.experiments.relocation.measuring.regret import Regrets
from shoal.experiments.relocation.measuring.results import RelocationResults, Where
from shoal.experiments.relocation.page import conclude, regret_table
from shoal.experiments.relocation.runs import study_run
from shoal.experiments.studies.runs import write_summary
from shoal.experiments.studies.study import write_conclusion
from shoal.report.study import StudyLine, read_study
from tests.experiments.relocation.summaries import selection, spec, stand, summary

WHERE = Where("quotes", "wide", "clustered")


def test_every_figure_of_the_paper_is_drawn() -> None:
    groups = figure_groups(RelocationEvidence(RelocationResults([]), "quotes", [], []))
    ids = [figure.id for group in groups for figure in group.figures]
    assert len(ids) == len(set(ids))
    wanted = {f"quotes-{number}{letter}" for number in (5, 6) for letter in "abcdefgh"}
    assert wanted <= set(ids)


def test_missing_runs_are_left_out_of_figures() -> None:
    runs = [summary(spec(BASELINE, 4), message_rate_per_s=5.0)]
    runs += [summary(spec(LOAD, spread), message_rate_per_s=1.0) for spread in (4, 16)]
    figures = figure_groups(RelocationEvidence(RelocationResults(runs), "quotes", [], []))[
        0
    ].figures
    assert figures[0].lines == (
        StudyLine(name="baseline", points=((4, 5.0),), look=LOOKS["baseline"]),
        StudyLine(name="load100", points=((4, 1.0), (16, 1.0)), look=LOOKS["load100"]),
    )


def test_every_setting_has_a_look_of_its_own() -> None:
    looks = [LOOKS[setting.label] for setting in EVERY_WEIGHT]
    assert len(looks) == len(set(looks))


def test_regrets_in_one_row_per_setting() -> None:
    rows = [
        Regrets(where=WHERE, setting="pop", figure=figure, decisions=9, median=0.01, p95=0.5,
                best_taken=0.25)
        for figure in ("traced_load", "load", "traced_delay", "delay")
    ]  # fmt: skip
    (row,) = regret_table(rows).rows
    both = ["1.0 %", "50 %", "25 %"]
    assert row == ("quotes", "clustered", "pop", "9", *both, *both)


def test_a_study_is_written_from_files_of_runs(tmp_path: Path) -> None:
    probes = [
        summary(spec(BASELINE, study="probe", probe=number), {"stands": {"P": stand(name, 9, 1)}})
        for number, name in enumerate("AB")
    ]
    counts = ("expected", "lost", "duplicated", "phantom", "out_of_order", "migrations")
    metrics = {"overhead": 0.3, **dict.fromkeys(counts, 0.0)}
    moved = summary(
        spec(POP, subscriptions=100), {"selections": (selection("P", "A", "B"),)}, **metrics
    )
    tasks = []
    for one in (*probes, moved):
        task = study_run(one.spec, tmp_path / "workloads", tmp_path / "runs", {}, None, 1)
        tasks.append(task)
        write_summary(Path(task.file), msgspec.structs.replace(one, key=task.key))
    tasks.append(study_run(spec(LOAD), tmp_path, tmp_path / "runs", {}, None, 1))
    conclusion = conclude(tasks, SCALES["small"], ["quotes of nobody"])
    findings = write_conclusion(tmp_path, conclusion)
    study = read_study(tmp_path / "study.json")
    assert len(findings) == len(study.claims) == len(CLAIMS)
    assert "3 simulated networks" in " ".join(study.facts)
    by_id = {one.id: one for one in findings}
    assert by_id["pop-overhead"].verdict == "met"
    assert by_id["grape-overhead"].verdict == "not run"
    assert len(pq.read_table(tmp_path / "tables" / "claims.parquet")) == len(CLAIMS)
    assert study.tables[0].title == "Under load"
    assert len(study.tables[1].rows) == 1
