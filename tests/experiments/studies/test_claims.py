"""Findings: met, beaten, missed with the reason, or not run; bands on both sides."""

from __future__ import annotations

import math

import msgspec
import pytest

from shoal.experiments.studies.claims import (
    Band,
    Claim,
    ClaimOutcome,
    StudyFinding,
    about,
    always,
    at_least,
    at_most,
    cut_by,
    judge_claims,
    share_of_at_most,
    within,
)


def judge(value: float | None) -> ClaimOutcome | None:
    return None if value is None else ClaimOutcome(f"{value} s", value)


CLAIM = Claim("wait", "Costs", "A publisher waits", "at most 5 s", judge, at_most(5), "a slow link",
              "the longest")  # fmt: skip


@pytest.mark.parametrize(
    ("value", "verdict", "ours", "reason"),
    [
        (5, "met", "5 s", ""),
        (4.6, "met", "4.6 s", ""),
        (6, "missed", "6 s", "a slow link"),
        (2, "beaten", "2 s (beaten by 60 %)", ""),
        (None, "not run", "", ""),
    ],
)
def test_only_a_miss_has_a_reason(value: int | None, verdict: str, ours: str, reason: str) -> None:
    assert judge_claims([CLAIM], value, "quotes") == [
        StudyFinding(
            id="wait",
            section="Costs",
            dataset="quotes",
            claim="A publisher waits",
            paper="at most 5 s",
            ours=ours,
            verdict=verdict,
            reason=reason,
            band=CLAIM.band.reason,
            reading="the longest",
            value=value,
            limits=CLAIM.limits,
        )
    ]


@pytest.mark.parametrize(
    ("band", "value", "verdict"),
    [
        (at_least(4.2), 4.1, ("missed", "")),
        (at_least(4.2), 4.15, ("met", "")),
        (at_least(4.2), 4.6, ("met", "")),
        (at_least(4.2), 7.5, ("beaten", "by 79 %")),
        (at_most(100), 103, ("missed", "")),
        (at_most(100), 91, ("met", "")),
        (at_most(100), 50, ("beaten", "by 50 %")),
        (cut_by(0.68), 0.67, ("missed", "")),
        (cut_by(0.68), 0.676, ("met", "")),
        (cut_by(0.68), 0.72, ("met", "")),
        (cut_by(0.68), 0.89, ("beaten", "by 21 points")),
        (share_of_at_most(0.32), 0.33, ("missed", "")),
        (share_of_at_most(0.32), 0.31, ("met", "")),
        (share_of_at_most(0.32), 0.08, ("beaten", "by 24 points")),
        (about(1.5), 0.9, ("missed", "")),
        (about(1.5), 1.4, ("met", "")),
        (about(1.5), 1.7, ("missed", "")),
        (within(0, 0.04, ""), 0.05, ("missed", "")),
        (within(0, 0.04, ""), 0.04, ("met", "")),
        (within(0, 0.04, ""), -0.01, ("missed", "")),
        (always(), 1.0, ("met", "")),
        (always(), 0.99, ("missed", "")),
    ],
)
def test_bands_have_two_sides(band: Band, value: float, verdict: tuple[str, str]) -> None:
    assert band.verdict(value) == verdict


@pytest.mark.parametrize(
    ("band", "worse", "better"),
    [
        (at_least(4.2), "2 % less", "10 % more"),
        (at_most(100), "2 % more", "10 % less"),
        (cut_by(0.68), "half a point less", "5 points more"),
        (share_of_at_most(0.32), "half a point more", "10 % less"),
    ],
)
def test_a_band_says_why_it_has_each_side(band: Band, worse: str, better: str) -> None:
    assert band.reason.startswith(f"{worse} (as it is rounded) to {better} (another seed")


@pytest.mark.parametrize(
    ("band", "even", "value", "verdict"),
    [
        (cut_by(0.6), 0.0, 0.01, "direction only"),
        (cut_by(0.6), 0.0, 0.6, "direction only"),
        (cut_by(0.6), 0.0, 0.0, "missed"),
        (cut_by(0.6), 0.0, -0.1, "missed"),
        (at_least(4.2), 1.0, 1.1, "direction only"),
        (at_least(4.2), 1.0, 0.9, "missed"),
        (about(0.3), 1.0, 0.9, "direction only"),
        (about(0.3), 1.0, 1.1, "missed"),
    ],
)
def test_only_the_side_of_no_difference_is_compared(
    band: Band, even: float, value: float, verdict: str
) -> None:
    claim = CLAIM._replace(band=band, even=even)
    (found,) = judge_claims([claim], value, "quotes")
    assert (found.verdict, found.ours) == (verdict, f"{value} s")
    assert found.reason == ("a slow link" if verdict == "missed" else "")


def test_a_band_without_an_end_is_read_again() -> None:
    """JSON has no infinite numbers."""
    claim = CLAIM._replace(band=Band(3.0, math.inf, "neither", "", 3.0))
    (found,) = judge_claims([claim], 10.0, "quotes")
    read = msgspec.json.decode(msgspec.json.encode(found), type=StudyFinding)
    assert read == found
    assert read.limits is not None
    assert [read.limits.verdict(value) for value in (2.0, 3.0, 1e300)] == ["missed", "met", "met"]
    assert not read.limits.turning(4.0, 9.0)


def test_findings_are_in_the_claims_order() -> None:
    claims = [CLAIM._replace(id=id, is_own=True) for id in ("c", "a", "b")]
    found = judge_claims(claims, 1, "quotes")
    assert [one.id for one in found] == ["c", "a", "b"]
    assert all(one.is_own for one in found)
