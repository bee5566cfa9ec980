"""The highest rate, or the most subscriptions, that a cluster sustains (IV-B, IV-C).

As in the paper a cluster is saturated when response times grow linearly: messages come at a rate
for a while, and a line is laid through the slowest responses of each part of that time.  The
slowest, since one matcher that falls behind saturates a system that has no other choice, while the
mean over all hardly moves.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

import numpy as np

from shoal.broker.effects import Work
from shoal.experiments.bluedove.testbed import LoadedCluster, Responses
from shoal.model import BrokerId
from shoal.overlays.bluedove.forwarding import Policy

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
PRECISION = 0.04
# A trial is at least so long: matchers report their loads each second, and a cluster that is near
# its limit keeps up for a while before it tips over.
LEAST_TRIAL_S = 40.0
# A trial is ended when messages of so much time wait.
SLICES, HOPELESS_S = 5, 5.0
# A guess is made from so many messages, and for each matcher so many.
GUESSED_FROM, GUESSED_EACH = 4_000, 1_000
# How far the next value is when the limit is not yet between two.
STEP = 1.3


def is_growing(responses: Responses) -> bool:
    """Whether response times grow linearly.

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
    # Once no more messages come, what waits is done faster; so only those count that came before
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


def sustains(testbed: LoadedCluster, rate_per_s: float, messages: int) -> bool:
    """Whether the cluster keeps up with a rate for so many messages; empty again afterwards."""
    testbed.responses()
    duration_s = max(LEAST_TRIAL_S, messages / rate_per_s)
    for _ in range(SLICES):
        testbed.publish(rate_per_s, duration_s / SLICES)
        if testbed.backlog > HOPELESS_S * rate_per_s:
            testbed.drain()
            return False
    testbed.drain()
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


def expected_rate(testbed: LoadedCluster) -> float:
    """A guess to start from: what the busiest matcher can do when messages go by their sets.

    Of several candidates the least is taken, or, where the policy is blind, each as often.
    """
    parameters, costs = testbed.parameters, testbed.costs
    cost_us: dict[tuple[BrokerId, int], int] = {}
    for name, strategy in testbed.strategies.items():
        if strategy.matcher is not None:
            for dimension, rows in enumerate(strategy.matcher.sets):
                cost_us[name, dimension] = costs.work_us(Work(1, len(rows)))
    table = testbed.strategies[parameters.dispatchers[0]].node.table
    busy_us: dict[BrokerId, float] = defaultdict(float)
    count = max(GUESSED_FROM, GUESSED_EACH * len(parameters.matchers))
    for _ in range(count):
        message = testbed.traffic.message()
        candidates = [
            (name, number)
            for number, dimension in enumerate(parameters.dimensions)
            for name in table.owners(number, dimension.place(message))
        ]
        if parameters.policy is not Policy.RANDOM:
            candidates = [min(candidates, key=cost_us.__getitem__)]
        for candidate in candidates:
            busy_us[candidate[0]] += cost_us[candidate] / len(candidates)
    return count * testbed.setting.cores * 1e6 / max(1.0, *busy_us.values())


def saturation_rate(testbed: LoadedCluster, messages: int) -> float:
    """The highest rate that the cluster sustains, messages per second."""
    return highest(lambda rate: sustains(testbed, rate, messages), expected_rate(testbed))
