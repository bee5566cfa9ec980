"""The paper's bound on the cost of swaps, and its estimate of topics' publication rates.

Source: DYNATOPS, section 5, Eq. 7 and 8.
"""

from __future__ import annotations

import math


def reconfiguration_cost(brokers: int, topics: int, moved: int) -> float:
    """Cst of Eq. 7 in messages, by its steps (5.1.2): all are informed, moving brokers rejoin."""
    if not moved:
        return 0.0
    logarithm = math.log2(brokers)
    return brokers + (logarithm**2 + topics * logarithm) * moved


def smoothed_rate(before: float, now: float, weight: float = 0.3) -> float:
    """The rate expected for the next period, Eq. 8.

    >>> smoothed_rate(10, 20)
    13.0
    """
    return (1 - weight) * before + weight * now
