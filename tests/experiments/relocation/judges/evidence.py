"""Evidence made of given summaries."""

from __future__ import annotations

from typing import Any

from shoal.experiments.relocation.evidence import Place, RelocationEvidence
from shoal.experiments.relocation.measuring.results import RelocationResults
from shoal.experiments.relocation.measuring.summary import RunSummary
from shoal.experiments.studies.claims import ClaimOutcome

WIDE: Place = ("wide", "clustered")


def evidence(*runs: RunSummary, **more: Any) -> RelocationEvidence:
    return RelocationEvidence(
        RelocationResults(runs), "quotes", more.get("regrets", []), more.get("networks", [])
    )


def value(outcome: ClaimOutcome | None) -> float:
    assert outcome is not None
    return outcome.value
