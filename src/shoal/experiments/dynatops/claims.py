"""The paper's claims about its evaluation (6.3); the last section has aims of our own.

>>> len(CLAIMS) == len({claim.id for claim in CLAIMS})
True

Source: DYNATOPS, sections 1, 4 and 6.3; its figures have no numbers left but those in the text.
"""

from __future__ import annotations

from collections.abc import Sequence

from shoal.experiments.dynatops.evidence import DynatopsEvidence
from shoal.experiments.dynatops.judges import (
    FAST,
    SAME,
    always_gains,
    below_all,
    below_among,
    below_hashed_users,
    below_the_best_other,
    best_under_every_pattern,
    changes,
    delay,
    falls,
    falls_then_rises,
    free_hours,
    gain_grows,
    gateways_save,
    halves_help,
    handovers,
    less,
    less_sensitive,
    more_when_skewed,
    overhead,
    reconfiguring,
    regret_of,
    seconds,
    subscribing,
    tco_between,
    tco_under_zipf,
    ten_suffices,
    weight_mends,
    within_the_bound,
)
from shoal.experiments.dynatops.visit_judges import share_of_visits, visits_of_a_user
from shoal.experiments.studies.claims import (
    Band,
    Claim,
    about,
    always,
    at_most,
    cut_by,
    share_band,
    within,
)
from shoal.report.amounts import PERCENT, percent

_VISITS = "Users' visits of cells in three months (6.1.1, figure 5)"
_PLACE = "Users with places (6.3.1, figure 6)"
_CHANCE = "Users without places (6.3.1, figures 7 and 8)"
_FREE = "Time between two looks (6.3.2, figure 9)"
_PLANS = "Sizes (6.3.3, figure 10 and table 1)"
_OURS = "Aims of our own"
_NONE = "the paper gives no figure"
_FRIENDS = (
    "Four of a user's five topics are where its friends are, who live anywhere: no broker of its "
    "cluster has many users who want the same. Each change of a friend's place is a new choice."
)
_OFTEN = "Summaries are exchanged every hour here; the paper does not say how often. " + _FRIENDS
_SLOWLY = (
    "Brokers go on changing places for some twenty days, and the mean is of all hours: after those "
    "delay is a fifth below Bayeux's. " + _FRIENDS
)
_STOPS = "It stops at the first broker that no swap helps."
_GRID = (
    "A grid's ways go by geography, as aircraft do: who wants a cell is beside its root; a ring's "
    "roots are anywhere."
)
_FAR = (
    "The larger the cluster, the farther users are from their brokers: of 50 that is more than "
    "what ways between brokers are shorter. Up to users' brokers delay falls at every step."
)
_NEAR = share_band(0, 0.05, "less", "any less", 0.05)
_FEWER = Band(1e-9, 1, "more", "any less", 0, unit=PERCENT)
_LESS = _FEWER._replace(reason=f"any less; {_NONE}")
_HOPS = (
    "Chord's ways are as long as Bayeux's with binary digits; users of 100 brokers want nearly "
    "everything everywhere, and what is left to gain is within a hop."
)

CLAIMS: Sequence[Claim[DynatopsEvidence]] = (
    Claim("visits-once", _VISITS, "Pairs of user and cell that are of one visit (5a)", "1/3",
          share_of_visits(lambda each: each.once), about(1 / 3, PERCENT), ""),
    Claim("visits-short", _VISITS, "Stays of less than a day (5b)", "about half",
          share_of_visits(lambda each: each.short), about(0.5, PERCENT), ""),
    Claim("visits-long", _VISITS, "... of more than a week", "10 %",
          share_of_visits(lambda each: each.long), about(0.1, PERCENT),
          "The drawn stays have 10 %, of which three months cut the longest: 9.5 % in a year."),
    Claim("visits", _VISITS, "Visits of a user", "11 (450,000 of 40,000 people)", visits_of_a_user,
          about(450 / 40),
          "Drawn users are always somewhere: stays of which half are below a day and a tenth above "
          "a week fill three months in thirty visits. Eleven leave most of the time without one."),
    Claim("subscribing", _PLACE, "Subscription overhead is cut (6a)", "less",
          below_the_best_other(subscribing, ["bayeux-location", "geops"]), _LESS, _OFTEN,
          "DYNATOPS at its best size of cluster, against the lower of Bayeux (loc) and GeoPS"),
    Claim("cluster", _PLACE,
          "... it falls with the size of the cluster, and rises when it is large",
          "rises at 50", falls_then_rises, always(), _OFTEN,
          "summaries exchanged every hour, as in all other rows; every 6 h and 24 h beside it"),
    Claim("weight", _PLACE,
          "Placing by similarity alone unbalances load; weighting load mends it (6b)",
          "both", weight_mends, always(), _FRIENDS,
          "deviation of loads, as a part of their mean"),
    Claim("handovers", _PLACE, "Handovers due to mobility, against GeoPS (6c)", "80 % fewer",
          less(handovers, "geops"), cut_by(0.80), _FRIENDS),
    Claim("delay-bayeux", _PLACE, "Delay, against Bayeux (6d)", "over 60 % less",
          less(delay, "bayeux"), cut_by(0.60), _SLOWLY),
    Claim("delay-geops", _PLACE, "... against GeoPS", "30 % less", less(delay, "geops"),
          cut_by(0.30),
          "A grid's ways go by geography, a ring's do not: GeoPS' messages travel a quarter "
          "as far."),
    Claim("overhead-bayeux", _PLACE, "Messages for each publication, against Bayeux (6e)",
          "over 40 % fewer", less(overhead, "bayeux"), cut_by(0.40), _FRIENDS),
    Claim("overhead-geops", _PLACE, "... against GeoPS", "20 % fewer", less(overhead, "geops"),
          cut_by(0.20), _FRIENDS),
    Claim("halves", _PLACE,
          "Placing users, and changing brokers' places, each cut delay and messages (6d, 6e)",
          "both", halves_help("bayeux-location"), always(), _FRIENDS,
          "each alone, against Bayeux (loc)"),
    Claim("halves-static", _PLACE, "... against Bayeux (static)", "both", halves_help("bayeux"),
          always(), _FRIENDS, "each alone", is_again=True),
    Claim("gain-grows", _PLACE, "Delay and messages fall with the size of the cluster (6f)",
          "at every step", gain_grows, always(), _FAR),
    Claim("ten", _PLACE, "Clusters of ten are enough to be better than all others (4)",
          "in all", ten_suffices, always(), _FRIENDS),
    Claim("changes", _CHANCE, "Topics that brokers begin or cease to want (7a)", "80 % fewer",
          below_all(changes, ["bayeux", "tco"]), cut_by(0.80), "",
          "the least over rates of change"),
    Claim("subscribing-fast", _CHANCE,
          "Subscription overhead is cut where subscriptions change fast (1)", "over 40 %",
          below_all(subscribing, ["bayeux"], [FAST]), cut_by(0.40), "",
          "section 1 does not say with which users, nor how often summaries are exchanged; TCO has "
          "no trees to subscribe at", even=0.0),
    Claim("delay", _CHANCE, "Delay, against Bayeux and TCO (7b)", "10 % less",
          below_all(delay, ["bayeux", "tco"]), cut_by(0.10), _HOPS),
    Claim("overhead", _CHANCE, "Messages for each publication, against both (7c)",
          "over 50 % fewer",
          below_all(overhead, ["bayeux", "tco"]), cut_by(0.50), ""),
    Claim("tco", _CHANCE, "TCO has fewer messages than Bayeux and BNR, and more delay",
          "everywhere",
          tco_between, always(),
          "A topic of 300 users is wanted at nearly all of 100 brokers: there are hardly "
          "relays to "
          "be saved, and few hops to links that all have."),
    Claim("reconfiguring", _CHANCE,
          "Messages to change the overlay, against TCO, at fast change (7d)",
          "over 80 % fewer", below_all(reconfiguring, ["tco"], [FAST]), cut_by(0.80),
          "TCO's are links that change, which the paper counts as one message each.",
          "DYNATOPS' are the messages that brokers send, TCO's the links that change", even=0.0),
    Claim("sensitive", _CHANCE,
          "They grow less with the rate of changes than TCO's (7d)", "less sensitive",
          less_sensitive, Band(0, 1 - 1e-9, "less", f"any less; {_NONE}", 1, unit="times"), "",
          "from the slowest to the fastest rate of changes"),
    Claim("bound", _CHANCE, "A reconfiguration stays within its bound of messages (5.1.2, Eq. 7)",
          "always", within_the_bound, always(), "",
          "by the messages that brokers send; constants of the bound are 1"),
    Claim("patterns", _CHANCE, "Best under every pattern (8)", "every one",
          best_under_every_pattern,
          always(), _HOPS),
    Claim("zipf", _CHANCE, "TCO's delay is low under Zipf only (8)", "Zipf only", tco_under_zipf,
          always(), "TCO's links are as many as its topics need: where all is wanted everywhere, "
          "many, and its ways short."),
    Claim("free-loss", _FREE, "Looking less often costs little: messages for each publication",
          "slightly", free_hours("poisson", overhead, lambda v: v[-1] / v[0] - 1),
          within(-SAME, SAME, f"{percent(SAME)} either way; {_NONE}", PERCENT), "",
          "users without places"),
    Claim("free-loss-location", _FREE, "... of users with places", "slightly",
          free_hours("location", overhead, lambda v: v[-1] / v[0] - 1),
          within(-SAME, SAME, f"{percent(SAME)} either way; {_NONE}", PERCENT), ""),
    Claim("free-cheaper", _FREE, "... and saves messages for reconfiguration", "fewer",
          free_hours("poisson", reconfiguring, falls), always(),
          "What is to be gained is counted until the next look: sooner than every ten hours no "
          "move pays, and none is made.", "users without places"),
    Claim("free-cheaper-location", _FREE, "... of users with places", "fewer",
          free_hours("location", reconfiguring, falls), always(),
          "The more is to be gained until the next look, the more moves pay."),
    Claim("chash", _PLANS, "Better than consistent hashing at every size", "always", always_gains,
          always(), ""),
    Claim("skewed", _PLANS, "... and more so where subscriptions are skewed", "larger",
          more_when_skewed, always(), ""),
    Claim("seconds", _PLANS, "Planning 1,000 brokers and 100 topics", "96 s", seconds(1_000, 100),
          at_most(96, "s"), "", "processor time", is_comparable=False),
    Claim("seconds-topics", _PLANS, "... 100 brokers and 5,000 topics", "1.9 s", seconds(100,
          5_000),
          at_most(1.9, "s"), "", "processor time", is_comparable=False),
    Claim("million", _OURS, "Planning 1,000 brokers and 1,000 topics", "under 2 s",
          seconds(1_000, 1_000), Band(0, 2, "less", "any less", 2, unit="s"), "A busy machine.",
          is_own=True),
    Claim("hashed-overhead", _OURS,
          "Messages for each publication, against users placed by consistent hashing", "fewer",
          below_hashed_users(overhead), _FEWER, "", is_own=True),
    Claim("hashed-delay", _OURS, "... delay", "less", below_hashed_users(delay), _FEWER, _FRIENDS,
          is_own=True),
    Claim("interests-overhead", _OURS,
          "Users of --interests: messages for each publication, against Bayeux and TCO", "fewer",
          below_among("interests", overhead, ["bayeux", "tco"]), _FEWER, "", is_own=True),
    Claim("interests-delay", _OURS, "... delay, against both", "less",
          below_among("interests", delay, ["bayeux", "tco"]), _FEWER,
          "Ways lead over the ring; TCO's only over links of brokers that want the topic.",
          is_own=True),
    Claim("interests-subscribing", _OURS, "... subscription overhead, against Bayeux", "less",
          below_among("interests", subscribing, ["bayeux"]), _FEWER, "", is_own=True),
    Claim("aircraft-overhead", _OURS,
          "Aircraft: messages for each publication, against Bayeux (loc) and GeoPS", "fewer",
          below_among("aircraft", overhead, ["bayeux-location", "geops"]), _FEWER, _GRID,
          is_own=True),
    Claim("aircraft-delay", _OURS, "... delay, against both", "less",
          below_among("aircraft", delay, ["bayeux-location", "geops"]), _FEWER, _GRID,
          is_own=True),
    Claim("aircraft-subscribing", _OURS, "... subscription overhead, against both", "less",
          below_among("aircraft", subscribing, ["bayeux-location", "geops"]), _FEWER, _GRID,
          is_own=True),
    Claim("aircraft-handovers", _OURS, "... handovers, against both", "fewer",
          below_among("aircraft", handovers, ["bayeux-location", "geops"]), _FEWER, _GRID,
          is_own=True),
    Claim("hybrid-overhead", _OURS,
          "Gateways of clusters on the ring (7): messages for each publication, against DYNATOPS",
          "fewer", gateways_save(overhead), _FEWER, "", is_own=True),
    Claim("hybrid-delay", _OURS, "... delay", "less", gateways_save(delay), _FEWER, "",
          is_own=True),
    Claim("regret", _OURS, "Eight brokers: greedy above the best mapping, median", "at most 5 %",
          regret_of("all"), _NEAR, _STOPS, is_own=True),
    Claim("regret-next", _OURS, "... that goes on with the next worst broker", "at most 5 %",
          regret_of("all", "next"), _NEAR, "", is_own=True),
    Claim("regret-swaps", _OURS, "... swaps of any two brokers", "at most 5 %",
          regret_of("all", "any"), _NEAR, "", is_own=True),
    Claim("regret-pairs", _OURS, "... swaps in pairs, without a manager", "at most 5 %",
          regret_of("all", "pairs"), _NEAR, "", is_own=True),
    Claim("regret-search", _OURS, "Fifty brokers: greedy above what annealing finds, median",
          "at most 5 %", regret_of("search"), _NEAR, _STOPS, is_own=True),
    Claim("regret-search-next", _OURS, "... that goes on with the next worst broker",
          "at most 5 %", regret_of("search", "next"), _NEAR, "", is_own=True),
    Claim("regret-search-swaps", _OURS, "... swaps of any two brokers", "at most 5 %",
          regret_of("search", "any"), _NEAR, "", is_own=True),
    Claim("regret-search-pairs", _OURS, "... swaps in pairs, without a manager", "at most 5 %",
          regret_of("search", "pairs"), _NEAR, "A broker knows few others.", is_own=True),
)  # fmt: skip
