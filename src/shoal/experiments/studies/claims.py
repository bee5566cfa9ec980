"""Claims of a paper, each judged by measurements.

A claim is a sentence of the paper with its figure, a judge that looks at a study's evidence, a
band, and the reason that we think lies behind a miss. A judge returns the measurement, as text and
as one value; without its runs it returns nothing, and the claim is "not run". The band holds the
values that count as the paper's figure, on both sides: inside it the claim is met. Outside on the
better side it is beaten, and by how much: it may be that we measure something else. Else it is
missed, also where a figure is too high that is neither better nor worse for being so. Figures that
depend on the machine or on a constant of ours are not comparable with the paper's, and get no other
verdict. Aims of our own are claims, too, and are counted apart. Nothing here changes a parameter: a
missed claim is shown as missed.

>>> def judge(times: list[float]) -> ClaimOutcome | None:
...     return ClaimOutcome(f"{max(times):g} s", max(times)) if times else None
>>> claim = Claim("wait", "Costs", "A publisher waits", "at most 5 s", judge, at_most(5.0),
...               "a slow link")
>>> [(one.verdict, one.ours, one.reason) for one in judge_claims([claim], [3.0, 6.0], "quotes")]
[('missed', '6 s', 'a slow link')]
>>> [(one.verdict, one.ours) for one in judge_claims([claim], [3.0], "quotes")]
[('beaten', '3 s (beaten by 40 %)')]
>>> [one.verdict for one in judge_claims([claim], [], "quotes")]
['not run']
>>> [one.verdict for one in judge_claims([claim._replace(is_comparable=False)], [3.0], "quotes")]
['not comparable']
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, Literal, NamedTuple, TypeVar

from shoal.report.study import StudyFinding, Verdict

Evidence = TypeVar("Evidence")
Better = Literal["more", "less", "neither"]

# Another seed, or a network drawn otherwise, changes a figure by about as much.
SHARE = 0.10
SEED = "another seed changes it by as much"
# The same of a share, in its own units: a share is never far above another, so that points say more
# than a ratio.
POINTS = 0.05
# A figure is printed to two digits.
ROUNDED = 0.02
# A share is printed as a whole number of points.
HALF_A_POINT = 0.005


class ClaimOutcome(NamedTuple):
    """The measurement, as text, and the value for the band."""

    ours: str
    value: float


class Band(NamedTuple):
    """Values that count as the paper's figure: from `low` to `high`, and the reason of the width.

    A value outside is compared with `figure`; a share in points, not as a ratio.
    """

    low: float
    high: float
    better: Better
    reason: str
    figure: float
    in_points: bool = False

    def verdict(self, value: float) -> tuple[Verdict, str]:
        """Met, beaten or missed; and by how much, if beaten.

        >>> at_least(4.2).verdict(7.5), at_least(4.2).verdict(4.5), at_least(4.2).verdict(4.0)
        (('beaten', 'by 79 %'), ('met', ''), ('missed', ''))
        >>> about(1.5).verdict(0.9), always().verdict(0.75)
        (('missed', ''), ('missed', ''))
        """
        if self.low <= value <= self.high:
            return "met", ""
        is_better = {"more": value > self.high, "less": value < self.low, "neither": False}
        return ("beaten", self._distance(value)) if is_better[self.better] else ("missed", "")

    def _distance(self, value: float) -> str:
        if self.in_points:
            return f"by {abs(100 * (value - self.figure)):.0f} points"
        return f"by {100 * abs(value / self.figure - 1):.0f} %"


def _reason(worse: str, better: str) -> str:
    """Return why a band has both its sides: the paper's rounding, and the spread over seeds."""
    return f"{worse} (as it is rounded) to {better} ({SEED})"


def at_least(figure: float) -> Band:
    """A gain: the paper's, rounded as it prints it, or more by the spread over seeds."""
    low, high = figure * (1 - ROUNDED), figure * (1 + SHARE)
    reason = _reason(f"{100 * ROUNDED:.0f} % less", f"{100 * SHARE:.0f} % more")
    return Band(low, high, "more", reason, figure)


def at_least_printed(text: str) -> Band:
    """A gain of at least what prints as the paper's figure, or more by the spread over seeds.

    >>> at_least_printed("1.2").verdict(1.15)[0], at_least_printed("1.2").verdict(1.14)[0]
    ('met', 'missed')
    >>> at_least_printed("67").low, at_least_printed("4").low
    (66.5, 3.5)
    """
    figure = float(text)
    half = 0.5 * 10 ** -len(text.partition(".")[2])
    reason = _reason(f"what prints as {text}", f"{100 * SHARE:.0f} % more")
    return Band(figure - half, figure * (1 + SHARE), "more", reason, figure)


def at_most(figure: float) -> Band:
    """A cost: the paper's, rounded as it prints it, or less by the spread over seeds."""
    low, high = figure * (1 - SHARE), figure * (1 + ROUNDED)
    reason = _reason(f"{100 * ROUNDED:.0f} % more", f"{100 * SHARE:.0f} % less")
    return Band(low, high, "less", reason, figure)


def cut_by(share: float) -> Band:
    """A figure lower by a share: the paper's, or more by some points."""
    reason = _reason("half a point less", f"{100 * POINTS:.0f} points more")
    high = share + POINTS + HALF_A_POINT
    return Band(share - HALF_A_POINT, high, "more", reason, share, in_points=True)


def share_of_at_most(share: float) -> Band:
    """A share that a cost takes: the paper's, or less by a tenth of it."""
    reason = _reason("half a point more", f"{100 * SHARE:.0f} % less")
    high = share + HALF_A_POINT
    return Band(share * (1 - SHARE), high, "less", reason, share, in_points=True)


def about(figure: float, share: float = SHARE, reason: str = SEED) -> Band:
    """A figure that is neither better nor worse for being higher."""
    low, high = figure * (1 - share), figure * (1 + share)
    return Band(low, high, "neither", f"{100 * share:.0f} % either way: {reason}", figure)


def within(low: float, high: float, reason: str) -> Band:
    """A value that has no better side."""
    return Band(low, high, "neither", reason, high)


def always() -> Band:
    """A comparison that holds wherever it is made; the value is the share of those places."""
    return Band(1.0, 1.0, "neither", "no exception", 1.0)


class Claim(NamedTuple, Generic[Evidence]):
    """A claim of the paper, or an aim of our own; `reason` is shown when it is missed.

    `reading` says how the claim is read here where the paper leaves a choice, whatever the verdict.
    One that is read in two ways has two rows, of which the second `is_again`: shown, not counted.
    Unless it `is_comparable`, the figures stand beside each other without a judgement.
    """

    id: str
    section: str
    claim: str
    paper: str
    judge: Callable[[Evidence], ClaimOutcome | None]
    band: Band
    reason: str
    reading: str = ""
    is_own: bool = False
    is_again: bool = False
    is_comparable: bool = True


def judge_claims(
    claims: Iterable[Claim[Evidence]], evidence: Evidence, dataset: str
) -> list[StudyFinding]:
    """Every claim's finding, in their order; `dataset` names the source of the evidence."""
    found = []
    for claim in claims:
        outcome = claim.judge(evidence)
        verdict: Verdict = "not run"
        ours = ""
        if outcome is not None:
            ours = outcome.ours
            verdict, by_how_much = claim.band.verdict(outcome.value)
            if not claim.is_comparable:
                verdict = "not comparable"
            elif by_how_much:
                ours += f" ({verdict} {by_how_much})"
        found.append(
            StudyFinding(
                id=claim.id,
                section=claim.section,
                dataset=dataset,
                claim=claim.claim,
                paper=claim.paper,
                ours=ours,
                verdict=verdict,
                reason=claim.reason if verdict == "missed" else "",
                band=claim.band.reason,
                reading=claim.reading,
                is_own=claim.is_own,
                is_again=claim.is_again,
            )
        )
    return found
