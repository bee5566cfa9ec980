"""Claims of a paper, each judged by what was measured here.

A claim is a sentence of the paper with its figure, a judge that looks at a study's evidence, and
the reason that we think lies behind a miss.  A judge answers what we measured and whether that
meets the claim; where its runs are missing it answers nothing, and the claim is "not run".  What is
better than the paper's figure by more than a band is "beaten", and by how much: it may be that we
measure something else.  Aims of our own are claims, too, and are counted apart.
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


# Another seed, or a network drawn otherwise, changes a figure by about as much.
BAND = 0.10


class Outcome(NamedTuple):
    """What was measured, in words, and whether it meets the claim; `beaten` by how much, if so."""

    ours: str
    met: bool
    beaten: str = ""


def beaten_by(value: float, figure: float, *, more_is_better: bool) -> str:
    """How much better than the paper's a figure is, as text; empty within the band.

    >>> beaten_by(7.5, 4.2, more_is_better=True), beaten_by(4.5, 4.2, more_is_better=True)
    ('by 79 %', '')
    >>> beaten_by(0.08, 0.16, more_is_better=False)
    'by 50 %'
    """
    gain = (value / figure - 1) * (1 if more_is_better else -1)
    return f"by {100 * gain:.0f} %" if gain > BAND else ""


class Claim(NamedTuple, Generic[Evidence]):
    """A claim of the paper, or an aim of our own; `reason` is shown when it is missed."""

    id: str
    section: str
    claim: str
    paper: str
    judge: Callable[[Evidence], Outcome | None]
    reason: str
    is_own: bool = False


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
    is_own: bool = False


def judge_claims(
    claims: Iterable[Claim[Evidence]], evidence: Evidence, dataset: str
) -> list[Finding]:
    """Every claim's finding, in their order; `dataset` names what the evidence comes from."""
    found = []
    for claim in claims:
        outcome = claim.judge(evidence)
        verdict, ours = "not run", ""
        if outcome is not None:
            verdict = "missed" if not outcome.met else "beaten" if outcome.beaten else "met"
            ours = outcome.ours
            if verdict == "beaten":
                ours += f" ({verdict} {outcome.beaten})"
        found.append(
            Finding(
                id=claim.id,
                section=claim.section,
                dataset=dataset,
                claim=claim.claim,
                paper=claim.paper,
                ours=ours,
                verdict=verdict,
                reason=claim.reason if verdict == "missed" else "",
                is_own=claim.is_own,
            )
        )
    return found
