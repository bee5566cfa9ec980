"""Studies over several seeds: the verdict on the mean, its interval, and every seed's rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from shoal.experiments.studies.claims import Claim, ClaimOutcome, always, cut_by, judge_claims
from shoal.experiments.studies.repeated import over_seeds, plan_over_seeds
from shoal.experiments.studies.study import Conclusion, Study, StudyRows, StudySource
from shoal.report.study import StudyFinding, StudyReport, score


def _judge(value: float | None) -> ClaimOutcome | None:
    return None if value is None else ClaimOutcome(f"{100 * value:.0f} % less", value)


CLAIM = Claim("delay", "Costs", "Delay", "50 % less", _judge, cut_by(0.5), "a slow link")


def findings(*values: float | None, claim: Claim[float | None] = CLAIM) -> list[StudyFinding]:
    return [judge_claims([claim], value, "quotes")[0] for value in values]


@pytest.mark.parametrize(
    ("values", "verdict", "turns", "ours"),
    [
        # The first seed alone would beat the claim, and another would miss it.
        (
            (0.6, 0.4, 0.5, 0.52, 0.5),
            "met",
            True,
            "50.4 % ± 8.8 % over 5 seeds, the verdict turns at 49.5 % and 55.5 %; "
            "the first: 60 % less",
        ),
        (
            (0.4, 0.41, 0.39, 0.4, 0.4),
            "missed",
            False,
            "40.00 % ± 0.88 % over 5 seeds; the first: 40 % less",
        ),
        (
            (0.6, 0.61, 0.6, 0.59, 0.6),
            "beaten",
            False,
            "60.00 % ± 0.88 % over 5 seeds; the first: 60 % less",
        ),
        ((0.9, 0.1), "met", False, "50 % over 2 seeds; the first: 90 % less"),
        (
            (0.4, 0.4, 0.4, 0.4, 0.4),
            "missed",
            False,
            "40 % in each of 5 seeds; the first: 40 % less",
        ),
        ((None, 0.4), "missed", False, "40 % less"),
        ((None, None), "not run", False, ""),
    ],
)
def test_the_mean_over_seeds_decides(
    values: Sequence[float | None], verdict: str, turns: bool, ours: str
) -> None:
    found = over_seeds(findings(*values))
    assert (found.verdict, found.turns) == (verdict, turns)
    assert found.ours == ours
    assert found.reason == ("a slow link" if verdict == "missed" else "")


def test_a_place_without_the_claim_is_a_miss_that_may_turn() -> None:
    found = over_seeds(findings(1.0, 1.0, 1.0, 0.75, 1.0, claim=CLAIM._replace(band=always())))
    assert (found.verdict, found.turns) == ("missed", True)
    assert "95 % ± 14 % over 5 seeds, the verdict turns at 100 %" in found.ours
    assert score([found]) == ["of the paper's 1 claim 1 missed (1 turns within its interval)"]


def test_few_seeds_keep_what_one_seed_found_to_turn() -> None:
    one, other = findings(0.5, 0.5)
    assert over_seeds([one, msgspec.structs.replace(other, turns=True)]).turns
    assert not over_seeds([one, other]).turns


def test_a_direction_that_turns_is_shown() -> None:
    found = over_seeds(findings(0.1, 0.3, -0.2, 0.1, 0.0, claim=CLAIM._replace(even=0.0)))
    assert (found.verdict, found.turns) == ("direction only", True)


class _Options(msgspec.Struct, frozen=True):
    pass


class _SeedRun(NamedTuple):
    name: str
    value: float
    cost: float = 1.0
    rank: int = 0
    is_done: bool = True

    def __call__(self) -> None: ...


class _SeedPlan:
    """Its one run measures a hundredth of its seed."""

    def __init__(self, options: _Options, scale: str, root: Path, seed: int) -> None:
        self._root = root
        self._seed = seed

    @property
    def sources(self) -> Sequence[StudySource]:
        return [StudySource("workload", lambda spark: f"in {self._root.name}")]

    def runs(self) -> Sequence[_SeedRun]:
        return [_SeedRun(f"{self._root.name}/run", self._seed / 100)]

    def conclude(self, runs: Sequence[_SeedRun]) -> Conclusion:
        value = runs[0].value if runs else None
        report = StudyReport(
            title="T", facts=(), notes=(), tables=(), groups=(),
            claims=tuple(judge_claims([CLAIM], value, "quotes")),
        )  # fmt: skip
        rows = [{"value": one.value} for one in runs]
        return Conclusion(report, {"metrics": StudyRows(rows, {"value": "double"})})


STUDY = Study("made", "Made for this test.", _Options, _SeedPlan)  # type: ignore[arg-type]  # its runs are tuples


def test_each_seed_has_a_folder_and_rows(tmp_path: Path) -> None:
    plan = plan_over_seeds(STUDY, _Options(), "small", tmp_path / "study", 1, 2)
    assert [source.title for source in plan.sources] == ["workload, seed 1", "workload, seed 1001"]
    made = [source.make(None) for source in plan.sources]  # type: ignore[arg-type]  # needs no Spark
    assert made == ["in study", "in seed-1001"]
    runs = plan.runs()
    assert [run.name for run in runs] == ["study/run", "seed-1001/run"]
    found = plan.conclude(runs)
    assert found.tables["metrics"].rows == [
        {"value": 0.01, "study_seed": 1},
        {"value": 10.01, "study_seed": 1001},
    ]
    assert found.tables["metrics"].columns == {"value": "double", "study_seed": "integer"}
    (claim,) = found.report.claims
    assert claim.value == pytest.approx(5.01)
    assert "seeds 1, 1001" in found.report.facts[-1]
    (part,) = plan.conclude(runs[1:]).report.claims
    assert part.value == pytest.approx(10.01)


def test_one_seed_is_the_study_itself(tmp_path: Path) -> None:
    plan = plan_over_seeds(STUDY, _Options(), "small", tmp_path, 1, 1)
    assert type(plan) is _SeedPlan
