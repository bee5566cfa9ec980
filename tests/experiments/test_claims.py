"""Findings: met, missed with the reason, or not run; in the claims' order."""

from __future__ import annotations

import pytest

from shoal.experiments.claims import Claim, Finding, Outcome, beaten_by, judge_claims


def at_most_five(value: int | None) -> Outcome | None:
    return None if value is None else Outcome(f"{value} s", value <= 5)


CLAIM = Claim("wait", "Costs", "A publisher waits", "at most 5 s", at_most_five, "a slow link")


@pytest.mark.parametrize(
    ("value", "verdict", "ours", "reason"),
    [(5, "met", "5 s", ""), (6, "missed", "6 s", "a slow link"), (None, "not run", "", "")],
)
def test_only_a_miss_has_a_reason(value: int | None, verdict: str, ours: str, reason: str) -> None:
    assert judge_claims([CLAIM], value, "quotes") == [
        Finding(
            id="wait",
            section="Costs",
            dataset="quotes",
            claim="A publisher waits",
            paper="at most 5 s",
            ours=ours,
            verdict=verdict,
            reason=reason,
        )
    ]


def test_what_is_better_than_the_paper_by_more_than_a_band_is_beaten() -> None:
    def judge(value: float) -> Outcome:
        return Outcome(f"{value} s", value <= 5, beaten_by(value, 5, more_is_better=False))

    claim = CLAIM._replace(judge=judge, is_own=True)
    found = [judge_claims([claim], value, "quotes")[0] for value in (6.0, 5.0, 4.5, 2.0)]
    assert [one.verdict for one in found] == ["missed", "met", "met", "beaten"]
    assert found[-1].ours == "2.0 s (beaten by 60 %)"
    assert all(one.is_own for one in found)


def test_findings_are_in_the_claims_order() -> None:
    claims = [CLAIM._replace(id=id) for id in ("c", "a", "b")]
    assert [one.id for one in judge_claims(claims, 1, "quotes")] == ["c", "a", "b"]
