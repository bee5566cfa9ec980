"""The highest rate, or the most subscriptions, that a cluster sustains (IV-B, IV-C).

If forwarding ignores loads (peer-to-peer, full replication, random, subscription amount), the limit
is arithmetic: the rate at which the busiest matcher's share of the messages takes all of its time.
A trial says the same only when it is very long, since chance sends one matcher more than its share
for a while; two trials, below and above, check the arithmetic.

If forwarding uses loads, trials find the limit, as in the paper: a cluster is saturated when
response times grow linearly. Messages come at a rate for a while, and a line is fitted to the
slowest responses of each part of that time. The slowest count, since one matcher that falls behind
saturates a system that has no other choice, while the mean over all hardly moves. Near its limit a
cluster keeps up until chance makes queues long; then messages go to large sets, and queues grow for
good. So a trial has so many messages for each matcher, however slow it is, and queues must not grow
over its second half. Trials of half that length narrow the limit, which is then lowered until a
whole trial holds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from shoal.broker.effects import MatchingWork
from shoal.experiments.bluedove.testbed.testbed import BlueDoveSetting, LoadedCluster, Responses
from shoal.matching.segments import HIGHEST
from shoal.overlays.bluedove.cluster.forwarding import Policy

# The first part of a trial, while queues fill, is not looked at.
WINDOWS, SKIPPED = 12, 3
# The slowest of each window: as many as one matcher of fifty gets.
SLOWEST = 0.02
# Response time grows linearly when it gains this much per time, along a line that fits.
GROWTH, FIT = 0.04, 0.8
# Or, however it goes up and down, when responses in the end take this share of all that time.
LONG = 0.15
# Or when a message of the first half still waits when the last one comes.
HALF = 0.5
# A limit is found to this precision.
PRECISION = 0.02
# A trial is at least so long, and has at least so many reports of loads.
LEAST_TRIAL_S, LEAST_REPORTS = 40.0, 10
# A trial counts its queues so often. They grow if the last quarter has so many times the messages
# of the second, and more than so much time's.
SLICES, MORE_WAIT, SOME_WAIT_S = 16, 1.5, 0.25
# A trial is ended when messages of so much time wait.
HOPELESS_S = 5.0
# A guess is made from so many messages, and for each matcher so many; arithmetic from more.
GUESSED_FROM, GUESSED_EACH = 4_000, 1_000
COUNTED_EACH, MOST_COUNTED = 10_000, 1_000_000
# Arithmetic is checked this far from the limit; chance changes a matcher's share by less.
CHECKED = 0.1
# Factor to the next value while the limit is not yet between two.
STEP = 1.3
# Settings that determine a measured limit.
RULE = (LEAST_TRIAL_S, LEAST_REPORTS, PRECISION, SLICES, MORE_WAIT, COUNTED_EACH)


def is_growing(responses: Responses) -> bool:
    """Return whether response times grow linearly.

    >>> times_us = np.arange(0.0, 60e6, 10_000.0)
    >>> is_growing(Responses(times_us, 5e4 + 0.1 * times_us)), is_growing(Responses(times_us,
    ...     np.full(len(times_us), 5e4)))
    (True, False)
    """
    published_us, took_us = responses
    if not len(published_us):
        return False
    if np.isinf(took_us).any():
        return True
    # After the last message, the queue is served faster; so only messages count that came before
    # any that was still waiting then.
    end_us, passed_us = published_us[-1], published_us[-1] - published_us[0]
    waiting = published_us + took_us > end_us
    known_us = published_us[waiting].min() if waiting.any() else end_us
    if known_us - published_us[0] < HALF * passed_us:
        return True
    counted = published_us <= known_us
    published_us, took_us = published_us[counted], took_us[counted]
    edges = np.linspace(published_us[0], published_us[-1] + 1, WINDOWS + 1)
    middles, slowest = [], []
    for low, high in zip(edges[SKIPPED:-1], edges[SKIPPED + 1 :], strict=True):
        window = np.sort(took_us[(published_us >= low) & (published_us < high)])
        if len(window):
            middles.append((low + high) / 2)
            slowest.append(window[-max(1, round(SLOWEST * len(window))) :].mean())
    if len(slowest) < 3 or np.ptp(slowest) == 0:
        return False
    if slowest[-1] > LONG * passed_us:
        return True
    slope = np.polyfit(middles, slowest, 1)[0]
    return bool(slope > GROWTH and np.corrcoef(middles, slowest)[0, 1] > FIT)


def is_piling_up(waiting: Sequence[int], rate_per_s: float) -> bool:
    """Return whether more wait at the end of a trial than before, by counts at even distances.

    >>> is_piling_up([9, 90, 90, 95, 130, 99, 99, 120] * 2, rate_per_s=500)
    False
    >>> is_piling_up([100] * 12 + [180] * 4, rate_per_s=500)
    True
    """
    quarter = len(waiting) // 4
    before, after = sum(waiting[quarter : 2 * quarter]), sum(waiting[-quarter:])
    return after > MORE_WAIT * before and after > SOME_WAIT_S * rate_per_s * quarter


def trial_s(setting: BlueDoveSetting, rate_per_s: float, messages: float) -> float:
    """Return how long a trial is, with so many messages for each matcher."""
    least_s = max(LEAST_TRIAL_S, LEAST_REPORTS * setting.report_s)
    return max(least_s, messages * setting.matchers / rate_per_s)


def sustains(testbed: LoadedCluster, rate_per_s: float, messages: float) -> bool:
    """Return whether the cluster keeps up with so many messages for each matcher; empty
    afterwards.
    """
    testbed.responses()
    duration_s = trial_s(testbed.setting, rate_per_s, messages)
    waiting = []
    for _ in range(SLICES):
        testbed.publish(rate_per_s, duration_s / SLICES)
        waiting.append(testbed.backlog)
        if waiting[-1] > HOPELESS_S * rate_per_s:
            break
    testbed.drain()
    if len(waiting) < SLICES or is_piling_up(waiting, rate_per_s):
        return False
    return not is_growing(testbed.responses())


def highest(holds: Callable[[float], bool], first: float) -> float:
    """The highest value that holds, to `PRECISION`: by steps from the first, then closed in on.

    >>> 96 < highest(lambda value: value <= 100, 7.0) <= 100
    True
    """
    low = high = 0.0
    value = first
    while not (low and high):
        if holds(value):
            low, value = value, value * STEP
        else:
            high, value = value, value / STEP
    while high / low > 1 + PRECISION:
        middle = (low * high) ** 0.5
        if holds(middle):
            low = middle
        else:
            high = middle
    return low


def lowered(holds: Callable[[float], bool], value: float) -> float:
    """The highest value that holds, from one that is hardly too high.

    >>> 96 < lowered(lambda value: value <= 100, 104.0) <= 100
    True
    """
    while not holds(value):
        value /= 1 + PRECISION
    return value


def looks_at_loads(testbed: LoadedCluster) -> bool:
    """Return whether matchers' reports decide about the destinations of messages."""
    parameters = testbed.parameters
    is_blind = parameters.policy in (Policy.RANDOM, Policy.SUBSCRIPTIONS)
    return not (is_blind or len(parameters.dimensions) == 1)


def limit_by_arithmetic(testbed: LoadedCluster) -> float:
    """The rate at which the busiest matcher is full, where forwarding does not look at loads."""
    return expected_rate(testbed, min(COUNTED_EACH * testbed.setting.matchers, MOST_COUNTED))


def expected_rate(testbed: LoadedCluster, least: int = GUESSED_FROM) -> float:
    """Return the busiest matcher's limit when messages go by their sets, from `least` messages.

    Of several candidates the least is taken, or, where the policy is blind, each as often.
    """
    parameters, costs = testbed.parameters, testbed.costs
    names = [name for name, each in testbed.strategies.items() if each.matcher is not None]
    number_of = {name: number for number, name in enumerate(names)}
    table = testbed.strategies[parameters.dispatchers[0]].node.table
    count = max(least, GUESSED_EACH * len(parameters.matchers))
    messages = testbed.traffic.messages(count)
    # By dimension: the interval of each message; and of each interval the candidates' numbers, and
    # what a message costs each of them.
    intervals, owners, costs_us = [], [], []
    for number, dimension in enumerate(parameters.dimensions):
        cuts, holders = table.intervals(number)
        column = testbed.traffic.attributes.index(dimension.attribute)
        places = np.minimum(messages[:, column], HIGHEST)
        intervals.append(np.searchsorted(cuts, places, side="right"))
        owners.append([[number_of[name] for name in each] for each in holders])
        sizes = {name: len(testbed.matcher(name).sets[number]) for each in holders for name in each}
        found = {name: costs.work_us(MatchingWork(1, size)) for name, size in sizes.items()}
        costs_us.append([[found[name] for name in each] for each in holders])
    busy_us = np.zeros(len(names))
    if parameters.policy is Policy.RANDOM:
        lengths = [np.array([len(each) for each in served]) for served in owners]
        candidates = sum(one[places] for one, places in zip(lengths, intervals, strict=True))
        for served, cost_us, places in zip(owners, costs_us, intervals, strict=True):
            shares = np.bincount(places, 1 / candidates, len(served))
            for share, numbers, costs_each in zip(shares, served, cost_us, strict=True):
                busy_us[numbers] += share * np.array(costs_each)
    else:
        # The least of each interval, and then of each message's dimensions; the first of equals.
        lowest = [np.array([min(each, default=np.inf) for each in cost_us]) for cost_us in costs_us]
        least_us = [one[places] for one, places in zip(lowest, intervals, strict=True)]
        chosen = np.array(least_us).argmin(axis=0)
        for number, (served, cost_us) in enumerate(zip(owners, costs_us, strict=True)):
            counts = np.bincount(intervals[number][chosen == number], minlength=len(served))
            for times, numbers, costs_each in zip(counts, served, cost_us, strict=True):
                if numbers:
                    best = int(np.argmin(costs_each))
                    busy_us[numbers[best]] += times * costs_each[best]
    return float(count * testbed.setting.cores * 1e6 / max(1.0, busy_us.max()))


def saturation_rate(testbed: LoadedCluster, messages: int) -> float:
    """The highest rate that the cluster sustains, messages per second.

    `messages` are those of a trial for each matcher.  Arithmetic that a trial contradicts, since
    something else than matching is the bottleneck, is a guess like any other.
    """
    if looks_at_loads(testbed):
        return _by_trials(testbed, expected_rate(testbed), messages)
    limit = limit_by_arithmetic(testbed)
    below, above = (
        sustains(testbed, limit * share, messages / 2) for share in (1 - CHECKED, 1 + CHECKED)
    )
    return limit if below and not above else _by_trials(testbed, limit, messages)


def _by_trials(testbed: LoadedCluster, first: float, messages: int) -> float:
    found = highest(lambda rate: sustains(testbed, rate, messages / 2), first)
    return lowered(lambda rate: sustains(testbed, rate, messages), found)
