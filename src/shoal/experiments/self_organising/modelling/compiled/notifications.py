"""The subtree that a type's notifications pass, their cost, and the interest that brokers share.

Source: Cost and Interest, section 3.1 (Eq. 1).
"""

from __future__ import annotations

import numpy as np

from shoal.experiments.self_organising.modelling.compiled.arrays import (
    NOTIFICATIONS,
    UNKNOWN,
    Counts,
    Flags,
    PairArrays,
    Prices,
    Rules,
    Totals,
    TreeArrays,
    TypeArrays,
)
from shoal.matching.compiled.kernels.compiler import kernel


@kernel
def publish(at: float, type: int, types: TypeArrays) -> int:
    """Publications of a type up to now."""
    begin, end, count = types.begins[type], types.begins[type + 1], types.published[type]
    while begin + count < end and types.times[begin + count] <= at:
        count += 1
    types.published[type] = count
    return int(count)


@kernel
def settle(at: float, type: int, types: TypeArrays, totals: Totals) -> None:
    """Add up the cost of a type's notifications up to now."""
    published = publish(at, type, types)
    totals.sums[NOTIFICATIONS] += (published - types.settled[type]) * types.units[type]
    types.settled[type] = published


@kernel
def recount(
    at: float,
    type: int,
    prices: Prices,
    rules: Rules,
    tree: TreeArrays,
    types: TypeArrays,
    pairs: PairArrays,
    totals: Totals,
) -> None:
    """Members, the tree or costs have changed, for this type."""
    settle(at, type, types, totals)
    types.units[type] = _deliver(tree.above, types.members[type], types.passed[type], prices)
    wanted = types.passed[type] if rules.is_passing else types.members[type]
    row = pairs.is_wanted[type]
    is_same = True
    for broker in range(len(row)):
        is_same = is_same and (row[broker] == 1) == wanted[broker]
    if is_same:
        return
    count = types.published[type] - pairs.counted[type]
    if count:
        for one in range(len(row)):
            if row[one]:
                for other in range(len(row)):
                    pairs.sums[one, other] += count * row[other]
    pairs.counted[type] = types.published[type]
    for broker in range(len(row)):
        row[broker] = 1 if wanted[broker] else 0


@kernel
def _deliver(above: Counts, members: Flags, passed: Flags, prices: Prices) -> float:
    """`DeliveryTree.delivery`: mark the brokers that a notification passes; returns its cost."""
    # Of each broker on a way to the first: how many of those below it are, and one of these.
    below, one = np.full(len(above), UNKNOWN), np.full(len(above), UNKNOWN)
    for member in range(len(above)):
        if not members[member]:
            continue
        broker, came = member, UNKNOWN
        while broker >= 0 and below[broker] == UNKNOWN:
            below[broker] = 1 if came >= 0 else 0
            one[broker] = came
            broker, came = above[broker], broker
        if broker >= 0 and came >= 0:
            below[broker] += 1
    # Brokers above the point where all routes have met do not belong to the tree.
    top = 0
    while below[top] == 1 and not members[top]:
        below[top] = UNKNOWN
        top = one[top]
    cost = 0.0
    for broker in range(len(above)):
        passed[broker] = below[broker] != UNKNOWN
        if passed[broker]:
            cost += prices.processing[broker]
            if broker != top:
                cost += prices.links[broker, above[broker]]
    return cost
