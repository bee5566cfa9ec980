"""The paper's claims about its evaluation (5.1 to 5.3), each with a judge that looks at the runs.

The paper's figures have no numbers left, so most claims are comparisons; every band has its
meaning. The last section has aims of our own.

>>> len(CLAIMS) == len({claim.id for claim in CLAIMS})
True

Source: Cost and Interest, section 5.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

from shoal.experiments.self_organising.evidence import SelfOrganisingEvidence
from shoal.experiments.self_organising.grid import (
    FEWEST_NETWORKS,
    LEAST_GAIN,
    LOCAL,
    NEAR,
    PAPER_NETWORKS,
    Part,
)
from shoal.experiments.self_organising.modelling.optimum import MAX_BROKERS_FOR_ALL
from shoal.experiments.self_organising.modelling.setting import HEURISTICS, WINDOW, What
from shoal.experiments.studies.claims import (
    Claim,
    ClaimOutcome,
    always,
    mean_and_interval,
    share_band,
    within,
)
from shoal.report.amounts import PERCENT, percent

NAMES: dict[What, str] = {"static": "static", "ci": "CI", "mst": "lMST", "mit": "lMIT"}
# Windows at the end of a time without changes that count as settled.
SETTLED = 5
# Share of the fall of costs until they are settled; and the time of a quick fall: a fifth of that.
MOST_OF_IT, QUICK = 0.9, 5_000
PHASE = 25
# lMIT's gains are unchanged within so much of the static costs.
SAME = 0.05

Judge = Callable[[SelfOrganisingEvidence], ClaimOutcome | None]


# --- 5.1 ----------------------------------------------------------------------------------------


def all_below_static(evidence: SelfOrganisingEvidence) -> ClaimOutcome | None:
    """Judge the upper ends of the intervals of heuristics' costs, relative to the static tree's."""
    ratios = {what: evidence.ratios("adaptivity", what) for what in HEURISTICS}
    if any(len(found) < 2 for found in ratios.values()):
        return None
    ends = {what: mean_and_interval(found) for what, found in ratios.items()}
    text = ", ".join(
        f"{NAMES[what]} {percent(mean)} ± {percent(half)}" for what, (mean, half) in ends.items()
    )
    return ClaimOutcome(f"of the static tree's: {text}", max(map(sum, ends.values())))


def soon(evidence: SelfOrganisingEvidence) -> ClaimOutcome | None:
    """Judge the ticks until the slowest heuristic has made most of its reduction before the first
    change.
    """
    took: dict[What, int] = {}
    for what in HEURISTICS:
        curve = evidence.curve(what)[:PHASE]
        if len(curve) < PHASE:
            return None
        goal = 1 - MOST_OF_IT * (1 - statistics.fmean(curve[-SETTLED:]))
        took[what] = WINDOW * next(n + 1 for n, value in enumerate(curve) if value <= goal)
    text = ", ".join(f"{NAMES[what]} {ticks:,}" for what, ticks in took.items())
    return ClaimOutcome(f"{percent(MOST_OF_IT)} of it after ticks: {text}", max(took.values()))


class _CostChange(NamedTuple):
    """Relative costs of a network: before a change, right after it, and once settled."""

    before: float
    after: float
    settled: float


def _changes(
    evidence: SelfOrganisingEvidence, part: Part
) -> list[tuple[What, list[_CostChange]]] | None:
    """For each heuristic and change: the costs of each network."""
    found = []
    for what in HEURISTICS:
        curves = evidence.curves(part, what)
        if not curves or min(map(len, curves)) < 3 * PHASE:
            return None
        found += [(what, [_change_at(curve, at) for curve in curves]) for at in (PHASE, 2 * PHASE)]
    return found


def _change_at(curve: Sequence[float], at: int) -> _CostChange:
    before = statistics.fmean(curve[at - SETTLED : at])
    settled = statistics.fmean(curve[at + PHASE - SETTLED : at + PHASE])
    return _CostChange(before, curve[at], settled)


def rises_in(part: Part) -> Judge:
    """Judge the share of heuristics and changes at which costs rise."""
    return lambda evidence: _share(_changes(evidence, part), lambda one: one.after - one.before)


def falls_in(part: Part) -> Judge:
    """Judge the share of heuristics and changes after which costs fall again."""
    return lambda evidence: _share(_changes(evidence, part), lambda one: one.after - one.settled)


def _share(
    found: list[tuple[What, list[_CostChange]]] | None, by: Callable[[_CostChange], float]
) -> ClaimOutcome | None:
    """Return how often costs differ in the mean over networks, and where that may be chance."""
    if found is None:
        return None
    differences = [(what, [by(one) for one in networks]) for what, networks in found]
    yes = [statistics.fmean(values) > 0 for _, values in differences]
    no = [NAMES[what] for (what, _), held in zip(differences, yes, strict=True) if not held]
    unsure = [NAMES[what] for what, values in differences if _may_be_none(values)]
    text = f"{sum(yes)} of {len(yes)}" + (f"; not {', '.join(sorted({*no}))}" if no else "")
    if unsure:
        text += f"; {len(unsure)} within the 95 % interval ({', '.join(sorted({*unsure}))})"
    return ClaimOutcome(text, sum(yes) / len(yes), bool(unsure))


def _may_be_none(differences: Sequence[float]) -> bool:
    """Return whether no difference lies within the interval, of so many networks as have one."""
    if len(differences) < FEWEST_NETWORKS:
        return False
    mean, half = mean_and_interval(differences)
    return abs(mean) <= half


def lowest(evidence: SelfOrganisingEvidence) -> ClaimOutcome | None:
    """CI's costs as a part of the better baseline's, on the same networks."""
    ratios = {
        what: evidence.ratios("adaptivity", "ci", other=what) for what in HEURISTICS if what != "ci"
    }
    if not all(ratios.values()):
        return None
    means = {what: statistics.fmean(found) for what, found in ratios.items()}
    text = ", ".join(f"{percent(mean)} of {NAMES[what]}'s" for what, mean in means.items())
    return ClaimOutcome(text, max(means.values()))


def narrow(evidence: SelfOrganisingEvidence) -> ClaimOutcome | None:
    """Half intervals over means, averaged over curves and windows; with as many networks only."""
    found = []
    for what in ("static", *HEURISTICS):
        runs = [one.windows for one in evidence.runs("adaptivity", what).values()]
        if len(runs) < PAPER_NETWORKS:
            return None
        for values in zip(*runs, strict=True):
            mean, half = mean_and_interval(values)
            found.append(half / mean)
    share = statistics.fmean(found)
    return ClaimOutcome(percent(share), share)


# --- 5.2 ----------------------------------------------------------------------------------------


def _gains(evidence: SelfOrganisingEvidence) -> dict[int, float]:
    """Return, by eta, the gain over the static tree's costs, with all costs counted."""
    return {
        hops: 1 - statistics.fmean(one.total / static.total for one, static in pairs)
        for hops, pairs in evidence.by_hops().items()
    }


def best_hops(evidence: SelfOrganisingEvidence) -> ClaimOutcome | None:
    gains = _gains(evidence)
    if len(gains) < 3:
        return None
    text = ", ".join(f"{hops}: {percent(gain)}" for hops, gain in gains.items())
    return ClaimOutcome(text, max(gains, key=gains.__getitem__))


def falls_beyond(evidence: SelfOrganisingEvidence) -> ClaimOutcome | None:
    gains = [gain for hops, gain in _gains(evidence).items() if hops >= 4]
    if len(gains) < 2:
        return None
    steps = [later < sooner for sooner, later in pairwise(gains)]
    return ClaimOutcome(f"{sum(steps)} of {len(steps)} steps", sum(steps) / len(steps))


def _parts(evidence: SelfOrganisingEvidence, *kinds: str) -> dict[int, float]:
    """By eta: these kinds of messages, as a part of all that the changed tree costs."""
    return {
        hops: statistics.fmean(
            sum(sum(one.costs[kind]) for kind in kinds) / one.total for one, _ in pairs
        )
        for hops, pairs in evidence.by_hops().items()
    }


def broadcasts_grow(evidence: SelfOrganisingEvidence) -> ClaimOutcome | None:
    pairs = evidence.by_hops()
    sums = [statistics.fmean(sum(one.costs["broadcasts"]) for one, _ in pairs[n]) for n in pairs]
    if len(sums) < 2:
        return None
    steps = [later > sooner for sooner, later in pairwise(sums)]
    parts = _parts(evidence, "broadcasts")
    text = ", ".join(f"{hops}: {percent(part)}" for hops, part in parts.items())
    return ClaimOutcome(f"of all costs {text}", sum(steps) / len(steps))


def cheap_exchanges(evidence: SelfOrganisingEvidence) -> ClaimOutcome | None:
    parts = _parts(evidence, "requests", "exchanges")
    if not parts:
        return None
    alone = _parts(evidence, "exchanges")
    text = (
        f"at most {percent(max(parts.values()))}, {percent(max(alone.values()))} without requests"
    )
    return ClaimOutcome(text, max(parts.values()))


# --- 5.3 ----------------------------------------------------------------------------------------


def _over_alpha(evidence: SelfOrganisingEvidence, what: What) -> str:
    found = evidence.improvements(what)
    return ", ".join(f"{alpha:g}: {percent(gain)}" for alpha, gain in found.items())


def worsens(evidence: SelfOrganisingEvidence) -> ClaimOutcome | None:
    found = evidence.improvements("mst")
    if len(found) < 3:
        return None
    value = statistics.correlation(list(found), list(found.values()))
    return ClaimOutcome(f"{_over_alpha(evidence, 'mst')}; correlation {value:.2f}", value)


def reasonable(evidence: SelfOrganisingEvidence) -> ClaimOutcome | None:
    found = [gain for alpha, gain in evidence.improvements("mit").items() if alpha < 0.5]
    if not found:
        return None
    return ClaimOutcome(_over_alpha(evidence, "mit"), min(found))


def unchanged(evidence: SelfOrganisingEvidence) -> ClaimOutcome | None:
    found = evidence.improvements("mit")
    below = [gain for alpha, gain in found.items() if alpha < 0.5]
    beyond = [gain for alpha, gain in found.items() if alpha >= 0.5]
    if not below or not beyond:
        return None
    value = statistics.fmean(beyond) - statistics.fmean(below)
    return ClaimOutcome(f"{100 * value:+.1f} points".replace("-", "\N{MINUS SIGN}"), abs(value))


def never_worse(evidence: SelfOrganisingEvidence) -> ClaimOutcome | None:
    gains = {what: evidence.improvements(what) for what in HEURISTICS}
    if not all(gains.values()):
        return None
    alphas = list(gains["ci"])
    held = [
        all(gains["ci"][alpha] >= gains[what].get(alpha, 0.0) for what in HEURISTICS)
        for alpha in alphas
    ]
    text = f"CI {_over_alpha(evidence, 'ci')}; best at {sum(held)} of {len(held)}"
    return ClaimOutcome(text, sum(held) / len(held))


# --- 7 ------------------------------------------------------------------------------------------


def local_gains(evidence: SelfOrganisingEvidence) -> ClaimOutcome | None:
    """By how much more CI saves, of the static tree's costs, if subscribers are near publishers."""
    gains: dict[int, dict[int, float]] = {}
    for near in (0, NEAR):
        static, ours = (
            evidence.runs("locality", what, lambda one, near=near: one.setting.near == near)  # type: ignore[misc]
            for what in LOCAL
        )
        gains[near] = {
            seed: 1 - one.total / static[seed].total for seed, one in ours.items() if seed in static
        }
    more = [gain - gains[0][seed] for seed, gain in gains[NEAR].items() if seed in gains[0]]
    if not more:
        return None
    means = [percent(statistics.fmean(each.values())) for each in (gains[NEAR], gains[0])]
    text = f"saves {means[0]} at the {NEAR} nearest brokers, {means[1]} at any"
    return ClaimOutcome(text, statistics.fmean(more), _may_be_none(more))


# --- ours ---------------------------------------------------------------------------------------


def regret_of(what: What) -> Judge:
    def judge(evidence: SelfOrganisingEvidence) -> ClaimOutcome | None:
        found = evidence.regrets(what, MAX_BROKERS_FOR_ALL)
        if not found:
            return None
        middle = statistics.median(found)
        worst = statistics.quantiles(found, n=10)[-1] if len(found) > 1 else middle
        return ClaimOutcome(f"{percent(middle)}, 90th percentile {percent(worst)}", middle)

    return judge


def best_everywhere(evidence: SelfOrganisingEvidence) -> ClaimOutcome | None:
    """Judge all networks on which CI and all others ran with the same costs."""
    cells: dict[tuple[object, ...], dict[What, float]] = {}
    for one in evidence.found:
        if one.part in ("adaptivity", "alpha"):
            place = (one.part, one.setting.seed, one.setting.alpha)
            cells.setdefault(place, {})[one.setting.what] = one.total
    whole = [cell for cell in cells.values() if len(cell) == len(NAMES)]
    if not whole:
        return None
    won = sum(min(cell, key=cell.__getitem__) == "ci" for cell in whole)
    return ClaimOutcome(f"{won} of {len(whole)} cells", won / len(whole))


def variant(counted: bool, least_gain: int) -> Judge:
    """Judge CI with one of our changes, as a part of its costs without."""

    def judge(evidence: SelfOrganisingEvidence) -> ClaimOutcome | None:
        plain = evidence.runs("hops", "ci", lambda one: one.setting.hops == 4)
        ours = evidence.runs(
            "ours",
            "ci",
            lambda one: (one.setting.counted, one.setting.least_gain) == (counted, least_gain),
        )
        found = [one.total / plain[seed].total for seed, one in ours.items() if seed in plain]
        if not found:
            return None
        mean = statistics.fmean(found)
        return ClaimOutcome(f"{percent(mean)} of the paper's CI", mean)

    return judge


def smaller_as_ids(evidence: SelfOrganisingEvidence) -> ClaimOutcome | None:
    runs = evidence.runs("adaptivity", "ci").values()
    if not runs:
        return None
    share = statistics.fmean(one.counts["ids"] / one.counts["filter"] for one in runs)
    return ClaimOutcome(f"{percent(share)} of the bytes", share)


_ADAPT = "Adaptivity (5.1, figure 4)"
_HOPS = "What the heuristic costs (5.2, figure 5)"
_ALPHA = "Links and brokers of different cost (5.3, figure 6)"
_OURS = "Aims of our own"
_TRANSIT = (
    "A cycle's brokers weigh only what their own clients want; most of what a link carries among "
    "100 brokers is on its way from and to others. About every second exchange makes the tree "
    "dearer, and as what is estimated differs from cycle to cycle, exchanging never ends."
)
_MST = (
    "Where routers are far apart a few links are very cheap, and the tree of the cheapest links "
    "is good for everybody; it knows what it is after exactly, and ends. " + _TRANSIT
)
_NONE = "the paper gives no figure"
_REDRAWN = (
    "links' and brokers' costs and all loads are drawn anew at both times, as a part of the static "
    "tree's costs"
)

CLAIMS: Sequence[Claim[SelfOrganisingEvidence]] = (
    Claim("below-static", _ADAPT, "All three heuristics cut costs significantly",
          "significantly", all_below_static,
          within(0, 0.9999, f"the 95 % interval ends below the static tree's; {_NONE}", PERCENT),
          _TRANSIT, "all costs of 75,000 ticks, messages of the heuristic included"),
    Claim("soon", _ADAPT, "... and quickly", "quickly", soon,
          within(0, QUICK, f"{QUICK:,} ticks, a fifth of the time to the next change; {_NONE}",
                 "ticks"),
          _TRANSIT, f"{percent(MOST_OF_IT)} of what costs fall by until the first change"),
    Claim("rise", _ADAPT, "Costs rise when links' and when brokers' costs change", "at both",
          rises_in("adaptivity"), always(),
          "lMST and lMIT do not look at what brokers cost: for new costs their trees are no worse.",
          "as a part of the static tree's costs, which change, too"),
    Claim("fall", _ADAPT, "... and fall again", "at both", falls_in("adaptivity"), always(),
          _TRANSIT, "the same"),
    Claim("rise-redrawn", _ADAPT, "Costs rise when costs and loads change", "at both",
          rises_in("redrawn"), always(), "", _REDRAWN, is_again=True),
    Claim("fall-redrawn", _ADAPT, "... and fall again", "at both", falls_in("redrawn"), always(),
          _TRANSIT, _REDRAWN, is_again=True),
    Claim("lowest", _ADAPT, "CI performs better than both others", "lowest", lowest,
          within(0, 0.9999, f"any less than the better of the two; {_NONE}", PERCENT), _MST),
    Claim("narrow", _ADAPT, "95 % intervals", "below 6 % on average", narrow,
          share_band(0, 0.06, "less", "any less", 0.06),
          "Networks and costs are drawn anew for each run.",
          f"with {PAPER_NETWORKS} networks only"),
    Claim("best-hops", _HOPS, "The greatest gain is at eta", "4", best_hops,
          within(4, 4, "exactly"), "How many are reached depends on the tree's shape.",
          "gain after 25,000 ticks, all messages counted"),
    Claim("falls-beyond", _HOPS, "... and decreases beyond", "at every step", falls_beyond,
          always(), "Differences are smaller than networks differ.", "the same"),
    Claim("broadcasts", _HOPS, "Broadcasts cost more the farther they go", "at every step",
          broadcasts_grow, always(), ""),
    Claim("exchanges", _HOPS, "Executing reconfigurations, of the adapted network's costs",
          "less than 3 % for all eta", cheap_exchanges,
          within(0, 0.03, "any less: the paper says no more", PERCENT),
          "Requests come each interval, and most are refused.",
          "requests along cycles and five messages a link"),
    Claim("mst-alpha", _ALPHA, "lMST gains less the more brokers cost", "worse with alpha",
          worsens, within(-1, -0.8, f"a correlation of \N{MINUS SIGN}0.8 or stronger; {_NONE}",
                          "correlation"),
          "At alpha 1 there is no cheaper link, but cheap links are short, and short ways have few "
          "brokers."),
    Claim("mit-links", _ALPHA, "lMIT performs reasonably well while links cost more",
          "reasonably well", reasonable,
          within(0.05, 1, f"a gain of 5 % or more; {_NONE}", PERCENT), _TRANSIT, "alpha below 0.5"),
    Claim("mit-brokers", _ALPHA, "... which does not change when brokers cost more", "no change",
          unchanged,
          within(0, SAME, f"{percent(SAME)} of the static tree's costs either way", PERCENT),
          "Short ways have fewer brokers, whatever links cost."),
    Claim("ci-alpha", _ALPHA, "CI performs equally or better than both at every alpha",
          "every one", never_worse, always(), _MST),
    Claim("locality", _ALPHA, "CI saves more if clients are local (7)", "even more", local_gains,
          within(1e-9, 1, f"any more; {_NONE}", PERCENT), "",
          f"subscribers at the {NEAR} brokers whose links to the publisher's cost least"),
    Claim("cells", _OURS, "CI costs least of all four in every cell of the grid", "every one",
          best_everywhere, always(), _MST, is_own=True),
    Claim("regret", _OURS, "Eight brokers: CI's tree above the best of all, median",
          "at most 10 %", regret_of("ci"), share_band(0, 0.10, "less", "any less", 0.1),
          "It weighs one cycle at a time, and not what passes through.",
          "20 types with 2 subscribers each, 10,000 ticks without changes", is_own=True),
    Claim("regret-mst", _OURS, "... lMST's", "at most 10 %", regret_of("mst"),
          share_band(0, 0.10, "less", "any less", 0.1),
          "It does not look at what brokers cost, nor at who wants what.", is_own=True),
    Claim("counted", _OURS, "What three brokers share counted in two filters, not estimated",
          "costs fall", variant(True, 0), within(0, 0.9999, "any less", PERCENT),
          "Two filters are of intervals that overlap by half on average.", is_own=True),
    Claim("least-gain", _OURS, f"Exchanges only for {LEAST_GAIN} % of the cycle or more",
          "costs fall", variant(False, LEAST_GAIN), within(0, 0.9999, "any less", PERCENT),
          _TRANSIT, is_own=True),
    Claim("both", _OURS, "... both together", "costs fall", variant(True, LEAST_GAIN),
          within(0, 0.9999, "any less", PERCENT), _TRANSIT, is_own=True),
    Claim("ids", _OURS, "Identifiers where they are smaller than the filter", "fewer bytes",
          smaller_as_ids, within(0, 0.9999, "any fewer", PERCENT), "", is_own=True),
)  # fmt: skip
