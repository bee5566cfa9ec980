"""Claims of a paper, each judged by what was measured here.

A claim is a sentence of the paper with its figure, a judge that looks at a study's evidence, and
the reason that we think lies behind a miss.  A judge answers what we measured and whether that
meets the claim; where its runs are missing it answers nothing, and the claim is "not run".
Nothing here changes a parameter: what is missed is shown as missed.

>>> def judge(times: list[float]) -> Outcome | None:
...     return Outcome(f"{max(times):g} s", max(times) <= 5) if times else None
>>> claim = Claim("wait", "Costs", "A publisher waits", "at most 5 s", judge, "a slow link")
>>> [(one.verdict, one.ours, one.reason) for one in judge_claims([claim], [3.0, 6.0], "quotes")]
[('missed', '6 s', 'a slow link')]
>>> [one.verdict for one in judge_claims([claim], [], "quotes")]
['not run']
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, NamedTuple, TypeVar

import msgspec

Evidence = TypeVar("Evidence")


class Outcome(NamedTuple):
    """What was measured, in words, and whether it meets the claim."""

    ours: str
    met: bool


class Claim(NamedTuple, Generic[Evidence]):
    """A claim of the paper; `reason` is shown when it is missed."""

    id: str
    section: str
    claim: str
    paper: str
    judge: Callable[[Evidence], Outcome | None]
    reason: str


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A claim and what became of it, as the reports show it."""

    id: str
    section: str
    dataset: str
    claim: str
    paper: str
    ours: str
    verdict: str
    reason: str


def judge_claims(
    claims: Iterable[Claim[Evidence]], evidence: Evidence, dataset: str
) -> list[Finding]:
    """Every claim's finding, in their order; `dataset` names what the evidence comes from."""
    found = []
    for claim in claims:
        outcome = claim.judge(evidence)
        verdict = "not run" if outcome is None else "met" if outcome.met else "missed"
        found.append(
            Finding(
                id=claim.id,
                section=claim.section,
                dataset=dataset,
                claim=claim.claim,
                paper=claim.paper,
                ours="" if outcome is None else outcome.ours,
                verdict=verdict,
                reason=claim.reason if verdict == "missed" else "",
            )
        )
    return found
