"""Every claim that the relocation paper makes about its evaluation, with its judge and its band.

First the headline reductions, then the cost of each algorithm, then the figures for clustered and
random subscribers, for weights and for thresholds. The last section is not the paper's but ours:
deliveries, and how good the choices are.

>>> len(CLAIMS) == len({claim.id for claim in CLAIMS})
True

Source: Cheung and Jacobsen, publisher relocation, abstract and sections 4.2, 5.2 and 6.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import msgspec

from shoal.experiments.relocation.evidence import ALIKE, Place, RelocationEvidence, seconds
from shoal.experiments.relocation.grid import (
    BASELINE,
    DELAY,
    LOAD,
    POP,
    SPREADS,
    Distribution,
    RelocationSetting,
    grape,
)
from shoal.experiments.relocation.judges.loads import (
    later_than_baseline,
    no_later_than_baseline,
)
from shoal.experiments.relocation.judges.paths import (
    HARDLY,
    LINEAR,
    long_moves_take,
    selections_grow_with_paths,
    selections_ignore_paths,
    waits_grow_with_paths,
)
from shoal.experiments.relocation.judges.quality import (
    choice_takes,
    exactly_once,
    regret_within,
    same_by_whole_machines,
)
from shoal.experiments.relocation.judges.spreads import (
    alike,
    between,
    compared,
    crowded,
    cuts,
    greatest,
    higher,
    longest_pop_ratio,
    lower_by,
    lowest,
)
from shoal.experiments.relocation.judges.thresholds import (
    greatest_overhead,
    lowest_threshold_is_worst,
    overhead_by_threshold,
    response_grows,
)
from shoal.experiments.relocation.judges.weights import (
    settings_alike,
    weights_cost_alike,
    weights_trade,
)
from shoal.experiments.relocation.measuring.regret import Figure
from shoal.experiments.studies.claims import (
    Band,
    Claim,
    about,
    always,
    at_most,
    cut_by,
    share_of_at_most,
    within,
)
from shoal.report.amounts import PERCENT, percent

CLUSTERED: Place = ("wide", "clustered")
RANDOM: Place = ("wide", "random")
CLUSTER: Place = ("cluster", "clustered")
CLUSTER_RANDOM: Place = ("cluster", "random")
EVERYWHERE = (CLUSTERED, RANDOM, CLUSTER, CLUSTER_RANDOM)

# Spreads with subscribers at more than one broker, so that publications travel.
MANY = SPREADS[1:]
MEGABYTE = 1e6
FIVE_SECONDS_US = 5_000_000
NOWHERE = math.inf

_IDENTICAL = within(
    0,
    ALIKE,
    f"{percent(ALIKE)}: each may be off by the 2 % that a publisher stays for",
    PERCENT,
)
_LINE = within(LINEAR, 1, f"a correlation of {LINEAR} is a line in a figure", "correlation")
_MORE = within(math.nextafter(1, 2), NOWHERE, "any more: the paper gives no figure", "times")
_NEARLY_ALL = within(0.8, 1, "four of five, up to all", PERCENT)
_MATCHES = Band(
    1 - ALIKE, 1 + ALIKE, "less",
    f"{percent(ALIKE)} either way: each may be off by the 2 % that a publisher stays for; less "
    "load is better", 1, unit="times",
)  # fmt: skip


def _bytes(value: float) -> str:
    return f"{value:,.0f} bytes"


_READING = "the best over X"
_REDUCTIONS = (
    ("grape-load-input", LOAD, "input_utilisation", 0.68,
     "GRAPE load100 cuts the brokers' average input load (utilisation)"),
    ("grape-load-rate", LOAD, "message_rate_per_s", 0.84,
     "GRAPE load100 cuts the brokers' average message rate"),
    ("grape-delay-delay", DELAY, "delay_us", 0.68,
     "GRAPE delay100 cuts the average delivery delay"),
    ("pop-input", POP, "input_utilisation", 0.64,
     "POP cuts the brokers' average input load (utilisation), trace results included"),
    ("pop-matching", POP, "matching_utilisation", 0.64,
     "... by publications alone"),
    ("pop-rate", POP, "message_rate_per_s", 0.85,
     "POP cuts the brokers' average message rate"),
    ("pop-delay", POP, "delay_us", 0.63,
     "POP cuts the average delivery delay"),
)  # fmt: skip

_REMAINS = {
    "delay_us": "At X = 1 publishers and subscribers share the broker, and what remains is the "
    "way from their machine there and back: which hosts the seed draws decides about it.",
    **dict.fromkeys(
        ("input_utilisation", "matching_utilisation", "message_rate_per_s"),
        "At X = 1 one broker is left of the way; shorter ways to begin with can be cut by less.",
    ),
}

HEADLINES = tuple(
    Claim(
        id,
        "Headline reductions (wide area, clustered)",
        f"{text}, at the best X",
        f"{percent(share)}" if id != "grape-load-rate" else "84 to 85 %",
        cuts(CLUSTERED, setting, metric),
        cut_by(share),
        _REMAINS[metric],
        _READING,
        is_again=metric == "matching_utilisation",
    )
    for id, setting, metric, share, text in _REDUCTIONS
)

_COSTS = "What it costs"
_BEST = "the most over X and settings"
_PROCESS = (
    "what the tables of traces hold, of what routing tables hold; the paper's is of a whole broker"
)
_COST_CLAIMS = (
    Claim("pop-overhead", _COSTS, "POP's message overhead", "at most 32 %",
          crowded(greatest(EVERYWHERE, [POP], "overhead", percent)), share_of_at_most(0.32),
          "A traced publication is answered over every link that it passed, and at a publication "
          "per second N = 50 per minute is more than half of them.", _BEST),
    Claim("grape-overhead", _COSTS, "GRAPE's message overhead", "at most 16 %",
          crowded(greatest(EVERYWHERE, [LOAD, DELAY], "overhead", percent)),
          share_of_at_most(0.16), "", _BEST),
    Claim("grape-overhead-below-pop", _COSTS, "GRAPE's message overhead below POP's",
          "up to 91 %",
          crowded(lower_by(EVERYWHERE, [LOAD, DELAY], POP, "overhead")), cut_by(0.91),
          "Ours counts all control messages, routing updates of moves included, not traces alone.",
          _READING),
    Claim("grape-overhead-random", _COSTS, "GRAPE's message overhead, random subscribers",
          "at most 5 %",
          crowded(greatest([RANDOM, CLUSTER_RANDOM], [LOAD, DELAY], "overhead", percent)),
          share_of_at_most(0.05), "", _BEST),
    Claim("grape-memory", _COSTS, "Memory of GRAPE's tracing per broker", "at most 31 MB",
          greatest(EVERYWHERE, [LOAD, DELAY], "memory_bytes", _bytes),
          at_most(31 * MEGABYTE, "bytes"), "", _BEST),
    Claim("pop-memory", _COSTS, "Memory of POP's tracing per broker", "at most 19 MB",
          greatest(EVERYWHERE, [POP], "memory_bytes", _bytes),
          at_most(19 * MEGABYTE, "bytes"), "", _BEST),
    Claim("grape-memory-share", _COSTS, "... as a share of the baseline's, GRAPE", "at most 58 %",
          greatest(EVERYWHERE, [LOAD, DELAY], "memory_share", percent), share_of_at_most(0.58),
          "", _PROCESS, is_again=True),
    Claim("pop-memory-share", _COSTS, "... and POP", "at most 34 %",
          greatest(EVERYWHERE, [POP], "memory_share", percent), share_of_at_most(0.34), "",
          _PROCESS, is_again=True),
    Claim("pop-memory-below-grape", _COSTS, "POP's tracing needs less memory than GRAPE's",
          "19 against 31 MB",
          higher(EVERYWHERE, [LOAD], POP, "memory_bytes"), always(),
          "Both hold a few hundred bytes: GRAPE's bit vectors go with the answer, POP's averages "
          "stay, with a number for each neighbour."),
    Claim("choosing", _COSTS, "GRAPE's choice alone, with 63 brokers (4.2)", "under 70 ms",
          choice_takes(63), at_most(70_000, "µs"), ""),
    Claim("selection-ratio", _COSTS, "GRAPE delay1 selects slower than POP", "up to 17 times",
          longest_pop_ratio([CLUSTERED, RANDOM]), at_most(17, "times"), "", "the most over X"),
    Claim("selection-answers", _COSTS, "Fetching traces, without ping times", "at most 5 s",
          greatest([CLUSTERED, RANDOM], [grape("delay", 1)], "selection_without_pings_max_us",
                   seconds), at_most(FIVE_SECONDS_US, "µs"), "", _BEST),
    Claim("selection-path", _COSTS, "GRAPE's selection time does not depend on the path length",
          "negligible impact",
          selections_ignore_paths([CLUSTERED, RANDOM], grape("delay", 1)),
          within(-HARDLY, HARDLY, f"a correlation below {HARDLY} hardly shows",
                 "correlation"),
          "Ping times dominate, and the furthest of many brokers is far away wherever the "
          "publisher is."),
    Claim("pop-selection-path", _COSTS, "POP's selection time grows with the path length",
          "grows", selections_grow_with_paths([CLUSTERED, RANDOM], POP), _LINE,
          "Links of very different round trips: the same number of links takes different times."),
    Claim("wait-path", _COSTS, "The publisher's wait is proportional to the path length",
          "directly proportional",
          waits_grow_with_paths([CLUSTERED, RANDOM], [POP, LOAD, DELAY]), _LINE,
          "Links of very different round trips: the same number of links takes different times."),
    Claim("wait-long", _COSTS, "A migration over 10 links (3.3)", "at most 5 s",
          long_moves_take([CLUSTERED, RANDOM], [POP, LOAD, DELAY]),
          at_most(FIVE_SECONDS_US, "µs"), "", "the longest of all"),
)  # fmt: skip
# A simulation's tables and virtual times beside processes of Java on PlanetLab.
_OF_THE_MACHINE = frozenset((
    "grape-memory", "pop-memory", "grape-memory-share", "pop-memory-share", "choosing",
    "selection-ratio", "selection-answers", "wait-long",
))  # fmt: skip
COSTS = tuple(
    claim._replace(is_comparable=claim.id not in _OF_THE_MACHINE) for claim in _COST_CLAIMS
)

_CLUSTERED = "Clustered subscribers"
_WALK = (
    "POP's averages forget all but the last few traces (a quarter is the newest), and its walk "
    "ends where no neighbour has the majority; delay100 and load100 weigh a whole session."
)
_SAVES = "What another setting saves is then smaller than what retrieval costs."
CLUSTERED_CLAIMS = (
    *(
        Claim(f"load-lowest-{id}", _CLUSTERED, f"load100 has the lowest {name}, but at X = 1",
              "at every X", lowest(CLUSTERED, LOAD, [BASELINE, POP, DELAY], metric, spreads=MANY),
              always(), _SAVES)
        for id, name, metric in (
            ("rate", "message rate", "message_rate_per_s"),
            ("input", "input utilisation", "input_utilisation"),
            ("output", "output utilisation", "output_utilisation"),
        )
    ),
    Claim("load-delay", _CLUSTERED, "load100 sacrifices delay: more than delay100's, but at X = 1",
          "more", higher([CLUSTERED], [LOAD], DELAY, "delay_us", spreads=MANY), always(),
          "Publishers next to the high-rated subscribers are next to a third of all deliveries."),
    Claim("load-hops", _CLUSTERED, "load100 sacrifices hops: more than delay100's, but at X = 1",
          "more", higher([CLUSTER], [LOAD], DELAY, "hops", spreads=MANY), always(),
          "Publishers next to the high-rated subscribers are next to a third of all deliveries."),
    Claim("same-at-one", _CLUSTERED, "At X = 1 POP and GRAPE decide alike",
          "the same message rate",
          alike(CLUSTERED, POP, DELAY, ("message_rate_per_s",), spreads=(1,)), _IDENTICAL,
          "delay100 decides by time: where the ways of publisher and subscribers over another "
          "broker are shorter it goes there, POP and load100 to the subscribers' own."),
    Claim("delay-lowest", _CLUSTERED, "delay100 has the lowest delay at almost all X",
          "almost all", lowest(CLUSTERED, DELAY, [BASELINE, POP, LOAD], "delay_us"), _NEARLY_ALL,
          "See the regret of its choices below."),
    *(
        Claim(f"pop-between-{metric}", _CLUSTERED,
              f"POP's {name} lies between load100's and delay100's", "between",
              between(place, POP, (LOAD, DELAY), metric), always(), reason,
              is_again=metric == "matching_utilisation")
        for metric, name, place, reason in (
            ("input_utilisation", "input utilisation", CLUSTERED,
             "A trace result costs a broker processing, too. Without control messages see below."),
            ("matching_utilisation", "input utilisation by publications alone", CLUSTERED, _WALK),
            ("delay_us", "delivery delay", CLUSTERED, _WALK),
            ("hops", "hop count", CLUSTER, _WALK),
        )
    ),
    Claim("pop-rate-above", _CLUSTERED, "POP's message rate exceeds GRAPE load100's",
          "exceeds, by its trace results",
          higher([CLUSTERED], [POP], LOAD, "message_rate_per_s", spreads=MANY), always(),
          "POP saves more than its trace results cost."),
    Claim("load-delay-cluster", _CLUSTERED,
          "On the cluster load100 delivers later than even the baseline", "later",
          later_than_baseline(LOAD, office=True), _MORE,
          "Only the main office's broker near saturation makes load100 late.",
          "the high-rated subscribers of all publishers at one main office (5.1), near saturation"),
    Claim("load-delay-cluster-idle", _CLUSTERED,
          "... idle, each publisher's high-rated subscribers at a broker of their own", "later",
          higher([CLUSTER], [LOAD], BASELINE, "delay_us"), always(),
          "A third of all deliveries go to the high-rated subscribers, which load100 moves next "
          "to; the others are as far as before, and no broker is busy.",
          "brokers are busy for 1 or 2 % of their time", is_again=True),
)  # fmt: skip

_RANDOM = "Random subscribers"
_EVERY_METRIC = (
    "message_rate_per_s", "input_utilisation", "output_utilisation", "delay_us", "hops",
    "overhead", "memory_bytes",
)  # fmt: skip
_CAPTION = "on the cluster (figure 5g's caption), with 100 subscribers of each publisher"
_OTHER_TESTBED = "on the wide area, with the scale's subscribers"


def _random_claims(place: Place) -> Iterator[Claim[RelocationEvidence]]:
    """The claims on the cluster with many subscribers, or again on the wide area."""
    is_again = place == RANDOM
    for claim in _random_claims_at(place):
        yield claim._replace(
            id=f"{claim.id}-wide" if is_again else claim.id,
            judge=claim.judge if is_again else crowded(claim.judge),
            claim=f"{claim.claim}, wide area" if is_again else claim.claim,
            reason=claim.reason if is_again else "",
            reading=", ".join(
                each for each in (claim.reading, _OTHER_TESTBED if is_again else _CAPTION) if each
            ),
            is_again=is_again or claim.is_again,
        )


def _random_claims_at(place: Place) -> Iterator[Claim[RelocationEvidence]]:
    yield from (
    Claim("random-pop-delay", _RANDOM, "POP has the lowest delay", "lowest",
          lowest(place, POP, [BASELINE, LOAD, DELAY], "delay_us"), always(),
          "delay100 knows every link's and broker's delay, and the regrets below say that it "
          "takes the best broker there is; POP counts subscribers only and cannot be better."),
    Claim("random-alike", _RANDOM, "load100 and delay100 do not differ visibly",
          "no visible difference",
          alike(place, LOAD, DELAY, _EVERY_METRIC), _IDENTICAL,
          "On links of very different latency the broker nearest to the subscribers in time is "
          "not the one nearest in hops; and few subscribers (scale small) are spread less evenly."),
    *(
        Claim(f"random-baseline-{id}", _RANDOM, f"GRAPE's {name} matches the baseline's",
              "matches",
              compared([place], [LOAD, DELAY], BASELINE, metric, "mean", "the baseline's"),
              _MATCHES, "", "the mean over X")
        for id, name, metric in (
            ("rate", "message rate", "message_rate_per_s"),
            ("input", "input utilisation", "input_utilisation"),
        )
    ),
    Claim("random-output", _RANDOM, "GRAPE's output utilisation surpasses the baseline's",
          "surpasses",
          higher([place], [LOAD, DELAY], BASELINE, "output_utilisation"), always(),
          "A publication leaves as many brokers as it did or fewer, whatever the move."),
    Claim("random-pop-rate", _RANDOM, "POP's message rate is about half above GRAPE's",
          "about 50 % higher",
          compared([place], [POP], LOAD, "message_rate_per_s", "mean", "GRAPE load100's", MANY),
          about(1.5, "times"), "At a small X few links are left of the way to be answered over.",
          "the mean over X, but for X = 1"),
    *(
        Claim(f"random-pop-{id}", _RANDOM, f"POP's {name} is GRAPE's", "the same",
              alike(place, POP, LOAD, (metric,)), _IDENTICAL, reason,
              is_again=metric == "matching_utilisation")
        for id, name, metric, reason in (
            ("hops", "hop count", "hops", _WALK),
            ("input", "input utilisation", "input_utilisation",
             "A trace result costs a broker processing, too. Without control messages see below."),
            ("matching", "input utilisation by publications alone", "matching_utilisation", _WALK),
            ("output", "output utilisation", "output_utilisation",
             "Trace results leave brokers, too."),
        )
    ),
    )  # fmt: skip


RANDOM_CLAIMS = (*_random_claims(CLUSTER_RANDOM), *_random_claims(RANDOM))

_WEIGHTS = "Weights (cluster, clustered)"
_BOTH = ("message_rate_per_s", "delay_us")
_LATER, _LOADED = (
    ("delay_us", "hops"),
    ("message_rate_per_s", "input_utilisation", "output_utilisation"),
)
_FEW_BROKERS = (
    "Decisions come from traces of 100 publications, and neighbouring weights often choose among "
    "the same few brokers."
)
WEIGHT_CLAIMS = (
    Claim("load1-delay100", _WEIGHTS, "load1 is virtually identical to delay100",
          "virtually identical", alike(CLUSTER, grape("load", 1), DELAY, _BOTH), _IDENTICAL,
          "load1 may not take the broker of highest rate, even where that has the least delay."),
    Claim("delay1-load100", _WEIGHTS, "delay1 is virtually identical to load100",
          "virtually identical", alike(CLUSTER, grape("delay", 1), LOAD, _BOTH), _IDENTICAL,
          "delay1 may not take the broker of highest delay, even where that has the least rate."),
    Claim("weights-load", _WEIGHTS,
          "Less weight on load lowers delay and hops, and raises message rate and utilisations",
          "at every step", weights_trade(CLUSTER, "load", _LATER, _LOADED), always(),
          _FEW_BROKERS),
    Claim("weights-delay", _WEIGHTS,
          "Less weight on delay raises delay and hops, and lowers message rate and utilisations",
          "at every step", weights_trade(CLUSTER, "delay", _LOADED, _LATER), always(),
          _FEW_BROKERS),
    Claim("weights-random", _WEIGHTS, "Random subscribers: neither priority nor weight matters",
          "no distinct differences", settings_alike(CLUSTER_RANDOM, _BOTH), _IDENTICAL,
          "A priority on delay does find brokers of less delay where few subscribers are "
          "spread unevenly (scale small has 20 of each publisher)."),
    Claim("weights-overhead", _WEIGHTS, "Weights make no notable difference in message overhead",
          "none", weights_cost_alike(CLUSTER, "overhead"),
          within(0, 0.02, "2 points: a tenth of what overheads are", PERCENT), ""),
    Claim("weights-memory", _WEIGHTS, "... nor in memory", "none",
          weights_cost_alike(CLUSTER, "memory_share"),
          within(0, 0.02, "2 points of what routing tables hold", PERCENT), ""),
)  # fmt: skip

_THRESHOLDS = "Thresholds (cluster, clustered, X = 16)"
THRESHOLD_CLAIMS = (
    Claim("grape-response", _THRESHOLDS, "A higher threshold lets GRAPE respond later",
          "longer", response_grows("grape"), always(),
          "The delay is down after the first session; later ones move few publishers."),
    Claim("grape-threshold-overhead", _THRESHOLDS, "A higher threshold lowers GRAPE's overhead",
          "lower", overhead_by_threshold("grape", rising=False), always(), ""),
    Claim("grape-lowest-rate", _THRESHOLDS,
          "At a threshold of 10 GRAPE's message rate exceeds the baseline's", "exceeds",
          lowest_threshold_is_worst("message_rate_per_s", above_baseline=True), _MORE,
          "A least gain of 2 % keeps publishers from moving for differences that ten publications "
          "cannot show."),
    Claim("grape-lowest-hops", _THRESHOLDS,
          "At a threshold of 10 GRAPE ends with the highest hop count", "highest",
          lowest_threshold_is_worst("hops", above_baseline=False), _MORE,
          "A publisher that would gain less than 2 % stays, so ten publications mislead less; and "
          "the highest threshold has decided only once or twice by then."),
    Claim("pop-response", _THRESHOLDS, "A higher threshold lets POP respond later",
          "longer", response_grows("pop"), always(),
          "POP walks to the closest broker in one go, and the first walk finds most of the gain."),
    Claim("pop-threshold-overhead", _THRESHOLDS, "A higher threshold raises POP's overhead",
          "higher", overhead_by_threshold("pop", rising=True), always(),
          "The window's limit rises with the threshold, so more publications are traced; at one "
          "publication per second all of them are, from a threshold of about 100 on."),
    Claim("grape-extreme", _THRESHOLDS, "GRAPE's overhead at the most extreme threshold",
          "at most 46 %", greatest_overhead("grape"), share_of_at_most(0.46), ""),
    Claim("pop-extreme", _THRESHOLDS, "POP's overhead at the most extreme threshold",
          "at most 57 %", greatest_overhead("pop"), share_of_at_most(0.57), ""),
)  # fmt: skip

KNOWING = tuple(msgspec.structs.replace(setting, knows_room=True) for setting in (POP, LOAD, DELAY))
_QUALITY = "Not the paper's: our own aims"


def _regret_claims() -> Iterator[Claim[RelocationEvidence]]:
    distributions: Sequence[Distribution] = ("clustered", "random")
    figures: Sequence[tuple[RelocationSetting, Figure, str]] = (
        (LOAD, "traced_load", "on the publications of a session"),
        (LOAD, "load", "over all publications"),
        (DELAY, "traced_delay", "on the publications of a session"),
        (DELAY, "delay", "over all publications"),
    )
    for distribution in distributions:
        for setting, figure, when in figures:
            what = figure.removeprefix("traced_")
            yield Claim(
                id=f"regret-{distribution}-{figure.replace('_', '-')}",
                section=_QUALITY,
                claim=f"{setting.label}, {distribution}: {what} above the best broker's, {when}",
                paper="aim: median 2 %, 95th percentile 10 %",
                judge=regret_within(distribution, setting, figure, 0.02, 0.10),
                band=within(0, 1, "as aimed", "of the aim"),
                reason="",
                is_own=True,
            )


QUALITY_CLAIMS = (
    Claim(
        "exactly-once",
        _QUALITY,
        "No delivery is lost, repeated or out of order in any run",
        "lossless (3.3)",
        exactly_once(),
        within(0, 0, "none", "wrong"),
        "A bug: please report it with the run's name.",
        is_own=True,
    ),
    Claim(
        "whole",
        _QUALITY,
        "With whole machines a network gives the same figures, all of them",
        "aim: every network that is run both ways",
        same_by_whole_machines(),
        within(0, 0, "none differs", "differ"),
        "A bug: please report it with the runs' names.",
        is_own=True,
    ),
    *_regret_claims(),
    Claim(
        "room",
        _QUALITY,
        "With decisions that know brokers' capacity no setting is later than the baseline",
        "aim: at every load, at one main office or several",
        no_later_than_baseline(KNOWING),
        always(),
        "",
        is_own=True,
    ),
)

CLAIMS: Sequence[Claim[RelocationEvidence]] = (
    *HEADLINES,
    *COSTS,
    *CLUSTERED_CLAIMS,
    *RANDOM_CLAIMS,
    *WEIGHT_CLAIMS,
    *THRESHOLD_CLAIMS,
    *QUALITY_CLAIMS,
)
