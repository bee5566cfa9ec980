"""Claims of a paper, each judged by measurements.

A claim is a sentence of the paper with its figure, a judge that looks at a study's evidence, a
band, and the reason that we think lies behind a miss. A judge returns the measurement, as text and
as one value; without its runs it returns nothing, and the claim is "not run". The band holds the
values that count as the paper's figure, on both sides: inside it the claim is met. Outside on the
better side it is beaten, and by how much: it may be that we measure something else. Else it is
missed, also where a figure is too high that is neither better nor worse for being so. Figures that
depend on the machine or on a constant of ours are not comparable with the paper's, and get no other
verdict. If such a figure's direction is the paper's whatever the constant is, the verdict is
"direction only", and "missed" if it has the other direction. Aims of our own are claims, too, and
are counted apart. Nothing here changes a parameter: a missed claim is shown as missed.

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
>>> sided = [claim._replace(even=10.0)]
>>> [judge_claims(sided, [value], "quotes")[0].verdict for value in (9.0, 11.0)]
['direction only', 'missed']
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, Literal, NamedTuple, TypeVar

import msgspec

from shoal.report.amounts import PERCENT
from shoal.report.study import FindingLimits, StudyFinding, Verdict

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
# Begins the distance from the paper's figure, behind our own.
BEATEN = " (beaten "
DIRECTION = "the paper's direction: the size follows from a constant or a protocol of ours"

VERDICTS_NOTE = (
    "A claim is met when our figure lies within its band, beaten when it is better, and missed "
    "otherwise; a missed claim says why that may be. Direction only: the size of our figure "
    "follows from a constant that the paper does not print, or from a protocol of ours, and it "
    "lies on the paper's side. Aims of our own are counted apart."
)

# Student's t: 97.5 % lie below, by degrees of freedom from 1 on.
T_975 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064,
)  # fmt: skip
# The same of the normal distribution, from which t differs little for more degrees.
Z_975 = 1.96


def mean_and_interval(values: Sequence[float]) -> tuple[float, float]:
    """The mean, and half of its 95 % confidence interval; infinite of a single value.

    >>> mean, half = mean_and_interval([1.0, 2.0, 3.0])
    >>> mean, round(half, 3)
    (2.0, 2.484)
    """
    if len(values) < 2:
        return values[0], math.inf
    degrees = len(values) - 1
    if degrees <= len(T_975):
        t = T_975[degrees - 1]
    else:
        t = Z_975 + (Z_975**3 + Z_975) / (4 * degrees)
    half = t * statistics.stdev(values) / math.sqrt(len(values))
    return statistics.fmean(values), half


class ClaimOutcome(NamedTuple):
    """The measurement, as text, and the value for the band; `turns` if its interval has another
    verdict.
    """

    ours: str
    value: float
    turns: bool = False


class Band(NamedTuple):
    """Values that count as the paper's figure: from `low` to `high`, and the reason of the width.

    A value outside is compared with `figure`; a share in points, not as a ratio. Values are read
    in `unit`: `%` of shares, or a word such as `times`.
    """

    low: float
    high: float
    better: Better
    reason: str
    figure: float
    in_points: bool = False
    unit: str = ""

    def verdict(self, value: float) -> tuple[Verdict, str]:
        """Met, beaten or missed; and by how much, if beaten.

        >>> at_least(4.2).verdict(7.5), at_least(4.2).verdict(4.5), at_least(4.2).verdict(4.0)
        (('beaten', 'by 79 %'), ('met', ''), ('missed', ''))
        >>> about(1.5).verdict(0.9), always().verdict(0.75)
        (('missed', ''), ('missed', ''))
        """
        verdict = self.limits.verdict(value)
        return verdict, self.distance(value) if verdict == "beaten" else ""

    @property
    def limits(self) -> FindingLimits:
        """The verdicts on a value below, in and above the band."""
        less: Verdict = "beaten" if self.better == "less" else "missed"
        more: Verdict = "beaten" if self.better == "more" else "missed"
        return FindingLimits(
            low=_finite(self.low),
            high=_finite(self.high),
            verdicts=(less, "met", more),
        )

    def distance(self, value: float) -> str:
        """How far a value lies from the paper's figure."""
        if self.in_points:
            return f"by {abs(100 * (value - self.figure)):.0f} points"
        return f"by {100 * abs(value / self.figure - 1):.0f} %"


def _finite(bound: float) -> float | None:
    return bound if math.isfinite(bound) else None


def _reason(worse: str, better: str) -> str:
    """Return why a band has both its sides: the paper's rounding, and the spread over seeds."""
    return f"{worse} (as it is rounded) to {better} ({SEED})"


def at_least(figure: float, unit: str = "") -> Band:
    """A gain: the paper's, rounded as it prints it, or more by the spread over seeds."""
    low, high = figure * (1 - ROUNDED), figure * (1 + SHARE)
    reason = _reason(f"{100 * ROUNDED:.0f} % less", f"{100 * SHARE:.0f} % more")
    return Band(low, high, "more", reason, figure, unit=unit)


def at_least_printed(text: str) -> Band:
    """A gain of at least what prints as the paper's figure, or more by the spread over seeds.

    >>> gain = at_least_printed("1.2 times")
    >>> gain.verdict(1.15)[0], gain.verdict(1.14)[0], gain.unit
    ('met', 'missed', 'times')
    >>> at_least_printed("67").low, at_least_printed("4").low
    (66.5, 3.5)
    """
    number, _, unit = text.partition(" ")
    figure = float(number)
    half = 0.5 * 10 ** -len(number.partition(".")[2])
    reason = _reason(f"what prints as {number}", f"{100 * SHARE:.0f} % more")
    return Band(figure - half, figure * (1 + SHARE), "more", reason, figure, unit=unit)


def at_most(figure: float, unit: str = "") -> Band:
    """A cost: the paper's, rounded as it prints it, or less by the spread over seeds."""
    low, high = figure * (1 - SHARE), figure * (1 + ROUNDED)
    reason = _reason(f"{100 * ROUNDED:.0f} % more", f"{100 * SHARE:.0f} % less")
    return Band(low, high, "less", reason, figure, unit=unit)


def share_band(low: float, high: float, better: Better, reason: str, figure: float) -> Band:
    """A band of shares, which read as percentages and are compared by points."""
    return Band(low, high, better, reason, figure, in_points=True, unit=PERCENT)


def cut_by(share: float) -> Band:
    """A figure lower by a share: the paper's, or more by some points."""
    reason = _reason("half a point less", f"{100 * POINTS:.0f} points more")
    high = share + POINTS + HALF_A_POINT
    return share_band(share - HALF_A_POINT, high, "more", reason, share)


def share_of_at_most(share: float) -> Band:
    """A share that a cost takes: the paper's, or less by a tenth of it."""
    reason = _reason("half a point more", f"{100 * SHARE:.0f} % less")
    high = share + HALF_A_POINT
    return share_band(share * (1 - SHARE), high, "less", reason, share)


def about(figure: float, unit: str = "", share: float = SHARE, reason: str = SEED) -> Band:
    """A figure that is neither better nor worse for being higher."""
    low, high = figure * (1 - share), figure * (1 + share)
    return Band(
        low, high, "neither", f"{100 * share:.0f} % either way: {reason}", figure, unit=unit
    )


def within(low: float, high: float, reason: str, unit: str = "") -> Band:
    """A value that has no better side."""
    return Band(low, high, "neither", reason, high, unit=unit)


def always() -> Band:
    """A comparison that holds wherever it is made; the value is the share of those places."""
    return Band(1.0, 1.0, "neither", "no exception", 1.0, unit=PERCENT)


class Claim(NamedTuple, Generic[Evidence]):
    """A claim of the paper, or an aim of our own; `reason` is shown when it is missed.

    `reading` says how the claim is read here where the paper leaves a choice, whatever the verdict.
    One that is read in two ways has two rows, of which the second `is_again`: shown, not counted.
    Unless it `is_comparable`, the figures stand beside each other without a judgement. With `even`,
    the value of no difference, only the side of it is compared.
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
    even: float | None = None

    @property
    def limits(self) -> FindingLimits:
        """The verdicts on a value: the band's, of its direction only, or none."""
        if not self.is_comparable:
            nothing: Verdict = "not comparable"
            verdicts = (nothing, nothing, nothing)
            return msgspec.structs.replace(self.band.limits, verdicts=verdicts)
        if self.even is not None:
            below: Verdict = "direction only" if self.band.figure < self.even else "missed"
            above: Verdict = "direction only" if self.band.figure > self.even else "missed"
            verdicts = (below, "missed", above)
            return FindingLimits(low=self.even, high=self.even, verdicts=verdicts)
        return self.band.limits


def judge_claims(
    claims: Iterable[Claim[Evidence]], evidence: Evidence, dataset: str
) -> list[StudyFinding]:
    """Every claim's finding, in their order; `dataset` names the source of the evidence."""
    found = []
    for claim in claims:
        outcome = claim.judge(evidence)
        verdict: Verdict = "not run"
        ours = ""
        limits = claim.limits
        if outcome is not None:
            ours = outcome.ours
            verdict = limits.verdict(outcome.value)
            if verdict == "beaten":
                ours += f"{BEATEN}{claim.band.distance(outcome.value)})"
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
                band=claim.band.reason if claim.even is None else DIRECTION,
                reading=claim.reading,
                is_own=claim.is_own,
                is_again=claim.is_again,
                value=None if outcome is None else outcome.value,
                unit=claim.band.unit,
                limits=limits,
                turns=outcome is not None and outcome.turns,
            )
        )
    return found
