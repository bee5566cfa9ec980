"""The paper's claims about its evaluation (VIII), each with a judge that looks at the runs.

DNR in the paper's text is IDR, BID-based routing is TID.  The last section has aims of our own.

>>> len(CLAIMS) == len({claim.id for claim in CLAIMS})
True

Source: OctopiA, section VIII.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from itertools import chain, pairwise, repeat

from shoal.experiments.octopia.evidence import OctopiaEvidence
from shoal.experiments.octopia.grid import RATES, Part, Way
from shoal.experiments.studies.claims import (
    Band,
    Claim,
    ClaimOutcome,
    about,
    always,
    cut_by,
    within,
)
from shoal.report.amounts import PERCENT, percent

NAMES: Mapping[Way, str] = {
    "tid": "TID",
    "tid-dynamic": "TID, dynamic",
    "snr": "SNR",
    "idr": "IDR",
    "steady": "IDR, steady",
    "ordered": "IDR, in order",
    "spread": "spread over trees",
}
VARIED: Mapping[Part, str] = {
    "publishers": "count",
    "subscribers": "count",
    "uneven": "latency_us",
    "loaded": "advertising_us",
    "churn": "count",
    "burst": "rate",
    "sources": "sources",
    "output": "output_us",
    "links": "output_us",
    "matched": "matched",
    "clusters": "clusters",
    "failures": "clusters",
}
# Largest share of the mean delay that order may cost.
ORDER_AT_MOST = 0.05

Judge = Callable[[OctopiaEvidence], ClaimOutcome | None]


# The varied parameter, as rows of claims name it.
AT: Mapping[str, str] = {
    "publishers": "with {:,}",
    "subscribers": "with {:,}",
    "burst": "at {:,} a minute",
    "output": "at {:,} µs",
    "clusters": "with {:,} clusters",
    "sources": "with {:,} at a time",
    "loaded": "with one each {:,} µs",
}


def _each(shares: Mapping[int, float], part: Part, word: str = "") -> str:
    """Return each share of the varied parameter, the first with `word`."""
    at = AT.get(part, "at {:,}")
    words = chain([f" {word}" if word else ""], repeat(""))
    rows = zip(words, shares.items(), strict=False)
    return ", ".join(f"{percent(share)}{more} {at.format(value)}" for more, (value, share) in rows)


def cut_in(part: Part, figure: str, ours: Way, theirs: Way) -> Judge:
    """Judge by which share a figure is lower, in the mean over the varied parameter."""

    def judge(evidence: OctopiaEvidence) -> ClaimOutcome | None:
        shares = evidence.cut(part, VARIED[part], figure, ours, theirs)
        if not shares:
            return None
        return ClaimOutcome(_each(shares, part, "less"), statistics.fmean(shares.values()))

    return judge


def cut_at(rate: int, figure: str, ours: Way, theirs: Way) -> Judge:
    """The same at one rate of the burst."""

    def judge(evidence: OctopiaEvidence) -> ClaimOutcome | None:
        share = evidence.cut("burst", "rate", figure, ours, theirs).get(rate)
        return None if share is None else ClaimOutcome(f"{percent(share)} less", share)

    return judge


def more_in(part: Part, figure: str, ours: Way, theirs: Way) -> Judge:
    """Judge by which share a figure is higher, in the mean over the varied parameter."""
    lower = cut_in(part, figure, ours, theirs)

    def judge(evidence: OctopiaEvidence) -> ClaimOutcome | None:
        found = lower(evidence)
        if found is None:
            return None
        shares = evidence.cut(part, VARIED[part], figure, ours, theirs)
        more = {value: -share for value, share in shares.items()}
        return ClaimOutcome(_each(more, part, "more"), -found.value)

    return judge


def stays_inside(evidence: OctopiaEvidence) -> ClaimOutcome | None:
    """The share of a cluster's subscription messages that other clusters' brokers receive, as a
    part of TID's.
    """
    ours, theirs = (list(evidence.by("churn", "count", way).values()) for way in ("ordered", "tid"))
    if not ours or not theirs:
        return None
    shares = [statistics.fmean(one.figures["outside"] for one in each) for each in (ours, theirs)]
    return ClaimOutcome(
        f"{percent(shares[0])} outside; TID {percent(shares[1])}", shares[0] / shares[1]
    )


def flat(evidence: OctopiaEvidence) -> ClaimOutcome | None:
    """The greater of two ratios: the longest by the shortest advertisement delay of each system."""
    ratios = []
    for way in ("tid", "ordered"):
        delays = [
            one.figures["delay_ms"] for one in evidence.by("publishers", "count", way).values()
        ]
        if len(delays) < 2:
            return None
        ratios.append(max(delays) / min(delays))
    return ClaimOutcome(
        f"longest by shortest: TID {ratios[0]:.2f}, OctopiA {ratios[1]:.2f}", max(ratios)
    )


def sooner(ours: Way, theirs: Way) -> Judge:
    """The share of rates at which one is stable before another."""

    def judge(evidence: OctopiaEvidence) -> ClaimOutcome | None:
        pairs = evidence.pairs("burst", "rate", ours, theirs)
        if not pairs:
            return None
        text = ", ".join(
            f"{one['stable_s']:.0f} against {other['stable_s']:.0f} s at {rate:,}"
            for rate, (one, other) in pairs.items()
        )
        wins = [one["stable_s"] < other["stable_s"] for one, other in pairs.values()]
        return ClaimOutcome(text, sum(wins) / len(wins))

    return judge


def within_a_second(way: Way) -> Judge:
    """The share of deliveries that take less than a second, in the mean over rates."""

    def judge(evidence: OctopiaEvidence) -> ClaimOutcome | None:
        found = evidence.by("burst", "rate", way).values()
        if not found:
            return None
        share = statistics.fmean(one.figures["within_1_s"] for one in found)
        return ClaimOutcome(percent(share), share)

    return judge


def alike_at_first(evidence: OctopiaEvidence) -> ClaimOutcome | None:
    """The greatest maximum delay of the three by the least, in the first tenth of deliveries."""
    ratios = []
    for rate in RATES:
        most = []
        for way in ("tid", "snr", "idr"):
            run = evidence.by("burst", "rate", way).get(rate)
            if run is None:
                break
            most.append(max(run.series[: max(1, len(run.series) // 10)]))
        else:
            ratios.append(max(most) / min(most))
    if not ratios:
        return None
    return ClaimOutcome(f"the longest is {max(ratios):.2f} times the shortest", max(ratios))


def falls(varied: str, part: Part, *, is_rising: bool) -> Judge:
    """Judge the share of steps at which IDR's gain falls as the varied parameter rises, or falls
    itself.

    The row's rounded gains count: equal ones have not fallen.
    """

    def judge(evidence: OctopiaEvidence) -> ClaimOutcome | None:
        gains = evidence.cut(part, varied, "mean_s", "idr", "snr")
        if len(gains) < 2:
            return None
        ordered = [round(gains[value], 3) for value in sorted(gains, reverse=not is_rising)]
        steps = [after < before for before, after in pairwise(ordered)]
        return ClaimOutcome(f"gains: {_each(gains, part)}", sum(steps) / len(steps))

    return judge


# --- ours ---------------------------------------------------------------------------------------


def price_of_order(part: Part) -> Judge:
    """The most by which the mean delay in order is above the free one's."""

    def judge(evidence: OctopiaEvidence) -> ClaimOutcome | None:
        shares = evidence.cut(part, VARIED[part], "burst_mean_s", "ordered", "steady")
        if not shares:
            return None
        more = {value: -share for value, share in shares.items()}
        return ClaimOutcome(_each(more, part, "more"), max(more.values()))

    return judge


def in_order(evidence: OctopiaEvidence) -> ClaimOutcome | None:
    """The share of deliveries that come behind a later one, over all runs in order."""
    found = [one.figures["overtaken"] for one in evidence.found
             if one.setting.way == "ordered" and "overtaken" in one.figures]  # fmt: skip
    free = [one.figures["overtaken"] for one in evidence.found
            if one.setting.way in ("idr", "steady") and "overtaken" in one.figures]  # fmt: skip
    if not found or not free:
        return None
    text = f"{percent(max(found))} in {len(found)} runs; free {percent(statistics.fmean(free))}"
    return ClaimOutcome(text, max(found))


def nothing_missing(evidence: OctopiaEvidence) -> ClaimOutcome | None:
    """Deliveries that never came, over all runs with bursts."""
    found = [one.figures["missing"] for one in evidence.found if "missing" in one.figures]
    if not found:
        return None
    return ClaimOutcome(f"{sum(found):,.0f} in {len(found)} runs", sum(found))


def gains_at_every(part: Part) -> Judge:
    """Judge the share of the varied parameter's values at which routing in order is quicker than
    static.
    """

    def judge(evidence: OctopiaEvidence) -> ClaimOutcome | None:
        shares = evidence.cut(part, VARIED[part], "burst_mean_s", "ordered", "snr")
        if not shares:
            return None
        wins = [share > 0 for share in shares.values()]
        return ClaimOutcome(_each(shares, part, "less"), sum(wins) / len(wins))

    return judge


def survives(evidence: OctopiaEvidence) -> ClaimOutcome | None:
    """Deliveries lost to clients elsewhere, of publications 10 s after k - 1 of a region died."""
    found = evidence.by("failures", "clusters", "ordered")
    if not found:
        return None
    text = ", ".join(
        f"k = {k}: {one.figures['lost']:.0f} of {one.figures['expected']:,.0f}, "
        f"whole after {one.figures['repaired_s']:.1f} s"
        for k, one in found.items()
    )
    return ClaimOutcome(text, sum(one.figures["lost"] for one in found.values()))


def steadier(evidence: OctopiaEvidence) -> ClaimOutcome | None:
    """The share of rates at which our rule of congestion gives shorter delays than equation 10."""
    shares = evidence.cut("burst", "rate", "burst_mean_s", "steady", "idr")
    if not shares:
        return None
    wins = [share > 0 for share in shares.values()]
    return ClaimOutcome(_each(shares, "burst", "less"), sum(wins) / len(wins))


def spread_gains(evidence: OctopiaEvidence) -> ClaimOutcome | None:
    """Return how much shorter the mean delay of all is where bursts are spread over trees; the
    least.
    """
    shares = evidence.cut("burst", "rate", "mean_s", "spread", "idr")
    if not shares:
        return None
    return ClaimOutcome(_each(shares, "burst", "less"), min(shares.values()))


# --- all of them --------------------------------------------------------------------------------

SUBSCRIBERS = "Subscriber scalability (figure 11)"
COSTS = "It follows from what a hop and a search cost; the calibration is ours (see the notes)."
HOST = (
    "A broker sends one copy at a time, and IDR's host makes fewer of each notification: it "
    "depends on how much of a broker's work copies are. A burst does not wait for its host if each "
    "link sends by itself."
)
BESIDE = (
    "Two thirds of what is delivered was published beside the burst. With us that hardly waits, "
    "whichever way notifications take, and nearly all of the burst waits longer than a second."
)
IDLE_LINKS = (
    "On idle links TID's trees are as short as can be. Advertisements that find load on the links "
    "get longer trees (section II); the row below has them."
)
LOADED_LINKS = "The paper does not print how often its clients advertised."
SPREADING = "advertisements come one each 2 to 5 ms, so that they meet on the links (section II)"
# The figure follows from what a hop, a search or a copy costs, which the paper does not print.
BY_CONSTANTS = frozenset({
    "9a", "11a", "delay-100", "delay-80", "delay-60", "queue-snr", "queue-tid",
})  # fmt: skip

SAME_COPIES = within(-0.0035, 0.0035, "as much either way", PERCENT)

Row = tuple[str, str, str, str, Judge, Band, str]


def _claims(
    section: str, rows: Sequence[Row], *, is_own: bool = False
) -> list[Claim[OctopiaEvidence]]:
    return [
        Claim(
            id,
            section,
            claim,
            paper,
            judge,
            band,
            reason,
            reading,
            is_own,
            even=0.0 if id in BY_CONSTANTS else None,
        )
        for id, claim, paper, reading, judge, band, reason in rows
    ]


CLAIMS: tuple[Claim[OctopiaEvidence], ...] = (
    *_claims("Publisher scalability (figure 9)", [
        ("9a-flat", "The advertisement delay hardly depends on how many there are",
         "nearly constant", "", flat, within(1.0, 1.1, "a tenth", "times"), COSTS),
        ("9a", "OctopiA's advertisement delay is lower", "63.5 % less", "",
         cut_in("publishers", "delay_ms", "ordered", "tid"), cut_by(0.635), COSTS),
        ("9b", "SRTs are smaller", "93 % less", "5 of 70 brokers keep one",
         cut_in("publishers", "srt", "ordered", "tid"), cut_by(0.93), ""),
        ("9c", "Fewer messages between brokers", "98.9 times less",
         "98.9 % less: 4 for 341; as times it would be 85, and missed",
         cut_in("publishers", "messages", "ordered", "tid"), cut_by(0.989), ""),
    ]),
    *_claims(SUBSCRIBERS, [
        ("11a", "OctopiA's subscription delay is lower", "33 % less", "",
         cut_in("subscribers", "delay_ms", "ordered", "tid"), cut_by(0.33), COSTS),
        ("11b", "OctopiA's PRTs are larger", "33 % more", "",
         more_in("subscribers", "prt", "ordered", "tid"), about(0.33, PERCENT), IDLE_LINKS),
        ("11c", "PADRES sends fewer messages", "32.7 % less", "",
         cut_in("subscribers", "messages", "tid", "ordered"), about(0.327, PERCENT), IDLE_LINKS),
    ]),
    *(each._replace(is_again=True) for each in _claims(SUBSCRIBERS, [
        ("11b-loaded", "With load while advertisements spread: OctopiA's PRTs are larger",
         "33 % more", SPREADING, more_in("loaded", "prt", "ordered", "tid"), about(0.33, PERCENT),
         LOADED_LINKS),
        ("11c-loaded", "... PADRES sends fewer messages", "32.7 % less", SPREADING,
         cut_in("loaded", "messages", "tid", "ordered"), about(0.327, PERCENT), LOADED_LINKS),
    ])),
    *_claims(SUBSCRIBERS, [
        ("churn", "Subscriptions that end and begin in a cluster load that cluster only (VI)",
         "a limited part", "messages at brokers of other clusters, against TID's; OctopiA's are "
         "bits of cluster index vectors", stays_inside,
         within(0, 0.9999, "any less; the paper gives no figure", PERCENT), ""),
    ]),
    *_claims("Dynamic notification routing", [
        *((f"delay-{rate // 1000}", f"IDR's mean delay is lower, {rate // 1000} K a minute",
           paper + " less", "", cut_at(rate, "mean_s", "idr", "snr"), cut_by(share), HOST)
          for rate, paper, share in zip(
              RATES, ("17.5 %", "17.7 %", "21 %"), (0.175, 0.177, 0.21), strict=True)),
        ("stable-snr", "IDR is stable before SNR", "239 s before",
         "no thousand deliveries in a row have one of 1 s any more", sooner("idr", "snr"), always(),
         HOST),
        ("stable-tid", "TID is not stable when IDR is", "it never is", "", sooner("idr", "tid"),
         always(), HOST),
        ("queue-snr", "Less waits at the host's outputs to other clusters than with SNR",
         "61 % less", "in the mean until static routing has sent the burst",
         cut_in("burst", "waiting", "idr", "snr"), cut_by(0.61), HOST),
        ("queue-tid", "Less waits there than with TID", "73 % less", "",
         cut_in("burst", "waiting", "idr", "tid"), cut_by(0.73), HOST),
        ("messages-snr", "IDR sends hardly more messages than SNR", "0.3 % more", "",
         more_in("burst", "copies", "idr", "snr"), SAME_COPIES, ""),
        ("messages-tid", "IDR sends fewer messages than TID", "58.6 % less", "",
         cut_in("burst", "copies", "idr", "tid"), cut_by(0.586), "TID, which matches at its ends, "
         "sends to all that a subscription overlaps, OctopiA to what matches. To reach some twenty "
         "brokers takes some thirty copies all the same; what else the paper's TID sends we do not "
         "know."),
        ("second-idr", "Delays below 1 s with IDR", "53.8 %", "", within_a_second("idr"),
         about(0.538, PERCENT), BESIDE),
        ("second-snr", "Delays below 1 s with SNR", "44.1 %", "", within_a_second("snr"),
         about(0.441, PERCENT), BESIDE),
        ("second-tid", "Delays below 1 s with TID", "31 %", "", within_a_second("tid"),
         about(0.31, PERCENT), BESIDE),
        ("more-sources", "IDR gains less with more bursts at a time", "less", "",
         falls("sources", "sources", is_rising=True), always(), HOST),
        ("lower-rates", "IDR gains less at lower rates", "less", "",
         falls("rate", "burst", is_rising=False), always(),
         "By the paper's own figures gains rise as rates fall, from 17.5 to 21 %; so do ours."),
        ("alike", "At first the maximum delay is alike in all three", "the same", "",
         alike_at_first, within(1.0, 1.1, "a tenth", "times"),
         "IDR's delays are the shorter ones from the beginning, as its host makes fewer copies."),
    ]),
    *_claims("Ours", [
        ("order", "In order the burst's mean delay is at most 5 % above the free one's", "5 %", "",
         price_of_order("burst"), within(-1.0, ORDER_AT_MOST, "the goal", PERCENT), ""),
        ("order-output", "The same, with quicker and slower outputs", "5 %", "",
         price_of_order("output"), within(-1.0, ORDER_AT_MOST, "the goal", PERCENT), ""),
        ("order-clusters", "The same, with 2 to 6 clusters", "5 %", "",
         price_of_order("clusters"), within(-1.0, ORDER_AT_MOST, "the goal", PERCENT), ""),
        ("in-order", "Nothing is out of order", "none", "", in_order,
         within(0, 0, "none", PERCENT), ""),
        ("missing", "Everything is delivered", "all", "", nothing_missing,
         within(0, 0, "none", "lost"), ""),
        ("gain-output", "In order a burst arrives sooner than with static routing, at any output",
         "sooner", "", gains_at_every("output"), always(), HOST),
        ("gain-clusters", "The same, with 2 to 6 clusters", "sooner", "",
         gains_at_every("clusters"), always(), "With two clusters there is no other to go by."),
        ("steady", "Our rule of congestion gives shorter delays than equation 10", "shorter", "",
         steadier, always(), ""),
        ("spread", "Spread over trees, publications arrive sooner than by IDR, as much as the "
         "paper's do by IDR", "17.5 %", "", spread_gains, cut_by(0.175), ""),
        ("failures", "k - 1 brokers of a region die: nothing is lost elsewhere from 10 s on",
         "none", "", survives, within(0, 0, "none", "lost"), ""),
    ], is_own=True),
)  # fmt: skip
