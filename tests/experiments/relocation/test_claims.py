"""The list of claims."""

from __future__ import annotations

from shoal.experiments.claims import judge_claims
from shoal.experiments.relocation.claims import CLAIMS
from shoal.experiments.relocation.evidence import Evidence
from shoal.experiments.relocation.results import Results


def test_every_claim_of_the_paper_answers_nothing_to_nothing() -> None:
    findings = judge_claims(CLAIMS, Evidence(Results([]), "quotes", [], []), "quotes")
    assert {finding.verdict for finding in findings} == {"not run"}
    assert all(claim.reason or claim.id for claim in CLAIMS)
