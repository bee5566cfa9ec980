"""The paper's bound on the cost of swaps, what brokers here send, and estimates of rates.

Source: DYNATOPS, section 5, Eq. 7 and 8; `messages_of` is ours.
"""

from __future__ import annotations

import math


def reconfiguration_cost(brokers: int, topics: int, moved: int) -> float:
    """Cst of Eq. 7 in messages, by its steps (5.1.2): all are informed, moving brokers rejoin."""
    if not moved:
        return 0.0
    logarithm = math.log2(brokers)
    return brokers + (logarithm**2 + topics * logarithm) * moved


def messages_of(brokers: int, moved: int) -> float:
    """About how many messages a change of positions takes here: a view to every broker, and for
    each that moves its rows and the links of its new position (see `View.base`).

    >>> round(messages_of(24, 2)), round(reconfiguration_cost(24, 60, 2))
    (51, 616)
    """
    return brokers - 1 + 3 * math.log2(brokers) * moved if moved else 0.0


def smoothed_rate(before: float, now: float, weight: float = 0.3) -> float:
    """The rate expected for the next period, Eq. 8.

    >>> smoothed_rate(10, 20)
    13.0
    """
    return (1 - weight) * before + weight * now
