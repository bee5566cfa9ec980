"""Every claim that the relocation paper makes about its evaluation, with its judge.

First the headline reductions, then what each algorithm costs, then what the figures show for
clustered and random subscribers, for weights and for thresholds.  The last section is not the
paper's but ours: deliveries, and how good the choices are.

>>> len(CLAIMS) == len({claim.id for claim in CLAIMS})
True

Source: Cheung and Jacobsen, publisher relocation, abstract and sections 4.2, 5.2 and 6.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from shoal.experiments.claims import Claim
from shoal.experiments.relocation.evidence import Evidence, Place, percent, seconds
from shoal.experiments.relocation.grid import (
    BASELINE,
    DELAY,
    LOAD,
    POP,
    SPREADS,
    Distribution,
    Setting,
    grape,
)
from shoal.experiments.relocation.judges.paths import (
    long_moves_take,
    selections_ignore_paths,
    waits_grow_with_paths,
)
from shoal.experiments.relocation.judges.quality import chosen_within, exactly_once, regret_within
from shoal.experiments.relocation.judges.spreads import (
    alike,
    at_most,
    between,
    compared,
    cuts,
    longest_pop_ratio,
    lowest,
)
from shoal.experiments.relocation.judges.thresholds import (
    lowest_threshold_is_worst,
    overhead_at_most,
    overhead_by_threshold,
    response_grows,
)
from shoal.experiments.relocation.judges.weights import (
    settings_alike,
    weights_cost_alike,
    weights_trade,
)
from shoal.experiments.relocation.regret import Figure

CLUSTERED: Place = ("wide", "clustered")
RANDOM: Place = ("wide", "random")
CLUSTER: Place = ("cluster", "clustered")
CLUSTER_RANDOM: Place = ("cluster", "random")
EVERYWHERE = (CLUSTERED, RANDOM, CLUSTER, CLUSTER_RANDOM)

# Where subscribers use more than one broker, so that publications travel.
MANY = SPREADS[1:]
MEGABYTE = 1e6
FIVE_SECONDS_US = 5_000_000


def _bytes(value: float) -> str:
    return f"{value:,.0f} bytes"


_REDUCTIONS = (
    ("grape-load-input", LOAD, "input_utilisation", 0.68,
     "GRAPE load100 cuts the brokers' average input load (utilisation)"),
    ("grape-load-rate", LOAD, "message_rate_per_s", 0.84,
     "GRAPE load100 cuts the brokers' average message rate"),
    ("grape-delay-delay", DELAY, "delay_us", 0.68,
     "GRAPE delay100 cuts the average delivery delay"),
    ("pop-input", POP, "input_utilisation", 0.64,
     "POP cuts the brokers' average input load (utilisation)"),
    ("pop-rate", POP, "message_rate_per_s", 0.85,
     "POP cuts the brokers' average message rate"),
    ("pop-delay", POP, "delay_us", 0.63,
     "POP cuts the average delivery delay"),
)  # fmt: skip

_REMAINS = {
    "delay_us": "At X = 1 publishers and subscribers share the broker, and what remains is the "
    "way from their machine there and back: which hosts the seed draws decides about it.",
    **dict.fromkeys(
        ("input_utilisation", "message_rate_per_s"),
        "At X = 1 one broker is left of the way; shorter ways to begin with can be cut by less.",
    ),
}

HEADLINES = tuple(
    Claim(
        id,
        "Headline reductions (wide area, clustered)",
        text,
        f"{percent(least)}" if id != "grape-load-rate" else "84 to 85 %",
        cuts(*CLUSTERED, setting, metric, least),
        _REMAINS[metric],
    )
    for id, setting, metric, least, text in _REDUCTIONS
)

_COSTS = "What it costs"
COSTS = (
    Claim("pop-overhead", _COSTS, "POP's message overhead", "at most 32 %",
          at_most(EVERYWHERE, [POP], "overhead", 0.32, percent),
          "A traced publication is answered over every link that it passed, and at a publication "
          "per second N = 50 per minute is more than half of them. The fewer subscribers, the "
          "fewer deliveries stand against that: scale small has 20 of each publisher."),
    Claim("grape-overhead", _COSTS, "GRAPE's message overhead", "at most 16 %",
          at_most(EVERYWHERE, [LOAD, DELAY], "overhead", 0.16, percent),
          "A session's retrieval, pings and moves cost the same for few subscribers, but weigh "
          "more among few deliveries: scale small has 20 subscribers of each publisher."),
    Claim("grape-overhead-below-pop", _COSTS, "GRAPE's message overhead against POP's",
          "up to 91 % lower",
          compared(EVERYWHERE, [LOAD, DELAY], POP, "overhead",
                   lambda least, most: round(1 - least, 2) >= 0.91, "POP's",
                   spreads=MANY),
          "Ours counts all control messages, routing updates of moves included, not traces alone."),
    Claim("grape-overhead-random", _COSTS, "GRAPE's message overhead, random subscribers",
          "at most 5 %",
          at_most([RANDOM, CLUSTER_RANDOM], [LOAD, DELAY], "overhead", 0.05, percent),
          "As above: few deliveries at scale small."),
    Claim("grape-memory", _COSTS, "Memory of GRAPE's tracing per broker", "at most 31 MB",
          at_most(EVERYWHERE, [LOAD, DELAY], "memory_bytes", 31 * MEGABYTE, _bytes), ""),
    Claim("pop-memory", _COSTS, "Memory of POP's tracing per broker", "at most 19 MB",
          at_most(EVERYWHERE, [POP], "memory_bytes", 19 * MEGABYTE, _bytes), ""),
    Claim("pop-memory-below-grape", _COSTS, "POP's tracing needs less memory than GRAPE's",
          "19 against 31 MB",
          compared(EVERYWHERE, [POP], LOAD, "memory_bytes",
                   lambda least, most: most <= 1, "GRAPE load100's"),
          "Both hold a few hundred bytes: GRAPE's bit vectors go with the answer, POP's averages "
          "stay, with a number for each neighbour."),
    Claim("choosing", _COSTS, "GRAPE's choice alone, with 63 brokers (4.2)", "under 70 ms",
          chosen_within(63, 70_000), ""),
    Claim("selection-ratio", _COSTS, "GRAPE delay1 selects slower than POP", "up to 17 times",
          longest_pop_ratio([CLUSTERED, RANDOM], 17), ""),
    Claim("selection-answers", _COSTS, "Fetching traces, without ping times", "at most 5 s",
          at_most([CLUSTERED, RANDOM], [grape("delay", 1)], "selection_without_pings_max_us",
                  FIVE_SECONDS_US, seconds), ""),
    Claim("selection-path", _COSTS, "GRAPE's selection time does not depend on the path length",
          "negligible impact",
          selections_ignore_paths([CLUSTERED, RANDOM], grape("delay", 1)),
          "Ping times dominate, and the furthest of many brokers is far away wherever the "
          "publisher is."),
    Claim("wait-path", _COSTS, "The publisher's wait is proportional to the path length",
          "directly proportional",
          waits_grow_with_paths([CLUSTERED, RANDOM], [POP, LOAD, DELAY]),
          "Links of very different round trips: the same number of links takes different times."),
    Claim("wait-long", _COSTS, "A migration over 10 links (3.3)", "at most 5 s",
          long_moves_take([CLUSTERED, RANDOM], [POP, LOAD, DELAY], FIVE_SECONDS_US), ""),
)  # fmt: skip

_CLUSTERED = "Clustered subscribers"
_WALK = (
    "POP's averages forget all but the last few traces (a quarter is the newest), and its walk "
    "ends where no neighbour has the majority; delay100 and load100 weigh a whole session."
)
CLUSTERED_CLAIMS = (
    Claim("load-lowest-rate", _CLUSTERED, "load100 has the lowest message rate, but at X = 1",
          "at every X", lowest(CLUSTERED, LOAD, [BASELINE, POP, DELAY], "message_rate_per_s",
                               spreads=lambda spread: spread > 1),
          "What another setting saves is then smaller than what retrieval costs."),
    Claim("same-at-one", _CLUSTERED, "At X = 1 POP and GRAPE decide alike",
          "the same message rate",
          alike(CLUSTERED, POP, DELAY, ("message_rate_per_s",), spreads=(1,)),
          "delay100 decides by time: where the ways of publisher and subscribers over another "
          "broker are shorter it goes there, POP and load100 to the subscribers' own."),
    Claim("delay-lowest", _CLUSTERED, "delay100 has the lowest delay at almost all X",
          "almost all", lowest(CLUSTERED, DELAY, [BASELINE, POP, LOAD], "delay_us", share=0.8),
          "See the regret of its choices below."),
    *(
        Claim(f"pop-between-{metric}", _CLUSTERED,
              f"POP's {name} lies between load100's and delay100's", "between",
              between(place, POP, (LOAD, DELAY), metric), reason)
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
          compared([CLUSTERED], [POP], LOAD, "message_rate_per_s",
                   lambda least, most: least > 1, "GRAPE load100's", spreads=MANY),
          "POP saves more than its trace results cost."),
    Claim("load-delay-cluster", _CLUSTERED,
          "On the cluster load100 delivers later than even the baseline", "later",
          compared([CLUSTER], [LOAD], BASELINE, "delay_us",
                   lambda least, most: most > 1, "the baseline's delay"),
          "Better than the paper's. A third of all deliveries go to the high-rated subscribers, "
          "which load100 moves next to; the others are as far as before. The paper's cluster ran "
          "six or seven brokers on a machine, our brokers have one each."),
)  # fmt: skip

_RANDOM = "Random subscribers"
RANDOM_CLAIMS = (
    Claim("random-pop-delay", _RANDOM, "POP has the lowest delay", "lowest",
          lowest(RANDOM, POP, [BASELINE, LOAD, DELAY], "delay_us"),
          "delay100 knows every link's and broker's delay, and the regrets below say that it "
          "takes the best broker there is; POP counts subscribers only and cannot be better."),
    Claim("random-alike", _RANDOM, "load100 and delay100 do not differ visibly",
          "no visible difference",
          alike(RANDOM, LOAD, DELAY, ("message_rate_per_s", "input_utilisation", "delay_us")),
          "On links of very different latency the broker nearest to the subscribers in time is "
          "not the one nearest in hops; and few subscribers (scale small) are spread less evenly."),
    Claim("random-baseline", _RANDOM, "GRAPE's message rate is no higher than the baseline's",
          "matches the baseline",
          compared([RANDOM], [LOAD, DELAY], BASELINE, "message_rate_per_s",
                   lambda least, most: most <= 1.02, "the baseline's"), ""),
    Claim("random-pop-rate", _RANDOM, "POP's message rate is about half above GRAPE's",
          "about 50 % higher",
          compared([RANDOM], [POP], LOAD, "message_rate_per_s",
                   lambda least, most: round(most, 1) <= 1.5, "GRAPE load100's", most=1.5),
          "See POP's message overhead."),
)  # fmt: skip

_WEIGHTS = "Weights (cluster, clustered)"
_BOTH = ("message_rate_per_s", "delay_us")
WEIGHT_CLAIMS = (
    Claim("load1-delay100", _WEIGHTS, "load1 is virtually identical to delay100",
          "virtually identical", alike(CLUSTER, grape("load", 1), DELAY, _BOTH),
          "load1 may not take the broker of highest rate, even where that has the least delay."),
    Claim("delay1-load100", _WEIGHTS, "delay1 is virtually identical to load100",
          "virtually identical", alike(CLUSTER, grape("delay", 1), LOAD, _BOTH),
          "delay1 may not take the broker of highest delay, even where that has the least rate."),
    Claim("weights-trade", _WEIGHTS,
          "Less weight on load lowers the delay; less weight on delay lowers the message rate",
          "at every step", weights_trade(CLUSTER),
          "Decisions come from traces of 100 publications, and neighbouring weights often choose "
          "among the same few brokers."),
    Claim("weights-random", _WEIGHTS, "Random subscribers: neither priority nor weight matters",
          "no distinct differences", settings_alike(CLUSTER_RANDOM, _BOTH),
          "A priority on delay does find brokers of less delay where few subscribers are "
          "spread unevenly (scale small has 20 of each publisher)."),
    Claim("weights-overhead", _WEIGHTS, "Weights make no notable difference in message overhead",
          "none", weights_cost_alike(CLUSTER, "overhead", 0.05), ""),
)  # fmt: skip

_THRESHOLDS = "Thresholds (cluster, clustered, X = 16)"
THRESHOLD_CLAIMS = (
    Claim("grape-response", _THRESHOLDS, "A higher threshold lets GRAPE respond later",
          "longer", response_grows("grape"),
          "The delay is down after the first session; later ones move few publishers."),
    Claim("grape-threshold-overhead", _THRESHOLDS, "A higher threshold lowers GRAPE's overhead",
          "lower", overhead_by_threshold("grape", rising=False), ""),
    Claim("grape-lowest-rate", _THRESHOLDS,
          "At a threshold of 10 GRAPE's message rate exceeds the baseline's", "exceeds",
          lowest_threshold_is_worst("message_rate_per_s", above_baseline=True),
          "Better than the paper's: a least gain of 2 % keeps publishers from moving for "
          "differences that ten publications cannot show."),
    Claim("grape-lowest-hops", _THRESHOLDS,
          "At a threshold of 10 GRAPE ends with the highest hop count", "highest",
          lowest_threshold_is_worst("hops", above_baseline=False),
          "A publisher that would gain less than 2 % stays, so ten publications mislead less; and "
          "the highest threshold has decided only once or twice by then."),
    Claim("pop-response", _THRESHOLDS, "A higher threshold lets POP respond later",
          "longer", response_grows("pop"),
          "POP walks to the closest broker in one go, and the first walk finds most of the gain."),
    Claim("pop-threshold-overhead", _THRESHOLDS, "A higher threshold raises POP's overhead",
          "higher", overhead_by_threshold("pop", rising=True),
          "The window's limit rises with the threshold, so more publications are traced; at one "
          "publication per second all of them are, from a threshold of about 100 on."),
    Claim("grape-extreme", _THRESHOLDS, "GRAPE's overhead at the most extreme threshold",
          "at most 46 %", overhead_at_most("grape", 0.46), ""),
    Claim("pop-extreme", _THRESHOLDS, "POP's overhead at the most extreme threshold",
          "at most 57 %", overhead_at_most("pop", 0.57), ""),
)  # fmt: skip

_QUALITY = "Not the paper's: our own aims"


def _regret_claims() -> Iterator[Claim[Evidence]]:
    distributions: Sequence[Distribution] = ("clustered", "random")
    figures: Sequence[tuple[Setting, Figure, str]] = (
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
        "A bug: please report it with the run's name.",
        is_own=True,
    ),
    *_regret_claims(),
)

CLAIMS: Sequence[Claim[Evidence]] = (
    *HEADLINES,
    *COSTS,
    *CLUSTERED_CLAIMS,
    *RANDOM_CLAIMS,
    *WEIGHT_CLAIMS,
    *THRESHOLD_CLAIMS,
    *QUALITY_CLAIMS,
)
