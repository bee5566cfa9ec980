"""Evidence made of given summaries."""

from __future__ import annotations

from typing import Any

from shoal.experiments.relocation.evidence import Evidence, Place
from shoal.experiments.relocation.measuring.results import Results
from shoal.experiments.relocation.measuring.summary import RunSummary
from shoal.experiments.studies.claims import Outcome

WIDE: Place = ("wide", "clustered")


def evidence(*runs: RunSummary, **more: Any) -> Evidence:
    return Evidence(Results(runs), "quotes", more.get("regrets", []), more.get("networks", []))


def value(outcome: Outcome | None) -> float:
    assert outcome is not None
    return outcome.value
