"""A broadcast's way through the tree: what brokers learn of each other, and the links that pay.

Source: Cost and Interest, sections 4.1 (Eq. 4 to 8) and 4.2.
"""

from __future__ import annotations

from shoal.experiments.self_organising.modelling.compiled.arrays import (
    BROADCASTS,
    CI,
    FILTER,
    HEARD,
    IDS,
    MIT,
    MST,
    UNKNOWN,
    Counts,
    Knowledge,
    Prices,
    ProposalArrays,
    Rules,
    RunArrays,
    TreeArrays,
)
from shoal.experiments.self_organising.modelling.compiled.notifications import publish
from shoal.experiments.self_organising.modelling.model import FILTER_BYTES
from shoal.matching.compiled.kernels.compiler import kernel
from shoal.overlays.self_organising.deciding.interest import ID_BYTES


@kernel
def propose(at: float, origin: int, prices: Prices, run: RunArrays) -> int:
    """Send a broadcast as far as it may go; returns the number of links that are proposed."""
    types, pairs, totals = run.types, run.pairs, run.totals
    knowledge, proposals = run.knowledge, run.proposals
    interest = pairs.sums[origin] - pairs.told[origin]
    for type in range(len(types.units)):
        published = publish(at, type, types)
        if pairs.is_wanted[type, origin]:
            interest += (published - pairs.counted[type]) * pairs.is_wanted[type]
    pairs.told[origin] += interest
    heard, cost = _spread(origin, interest, prices, run.rules, run.tree, knowledge)
    count = 0
    for place in range(1, heard + 1):
        if knowledge.pays[place]:
            _close_cycle(place, count, prices, knowledge, proposals)
            size = proposals.size[count]
            if run.rules.heuristic == CI:
                _judge(count, prices, knowledge, proposals)
            if proposals.is_judged[count, 0]:
                proposals.vector[count, :size] = proposals.judged[count, 0, :size]
                knowledge.proposed[proposals.brokers[count, 0], origin] = at
                count += 1
    totals.counts[HEARD] += heard
    totals.counts[FILTER] += heard * FILTER_BYTES
    totals.counts[IDS] += heard * min(ID_BYTES * interest[origin], FILTER_BYTES)
    totals.sums[BROADCASTS] += cost
    return count


@kernel
def _spread(
    origin: int,
    interest: Counts,
    prices: Prices,
    rules: Rules,
    tree: TreeArrays,
    knowledge: Knowledge,
) -> tuple[int, float]:
    """`Neighbourhood.turn` of the origin, then `on_broadcast` and `planner.evaluate` at each broker
    that the broadcast reaches; returns their number and the cost of its messages.
    """
    shared, is_fresh, sums, known = (
        knowledge.shared,
        knowledge.is_fresh,
        knowledge.sums,
        knowledge.known,
    )
    for broker in range(len(known)):
        if shared[origin, broker] != UNKNOWN and not is_fresh[origin, broker]:
            sums[origin] -= shared[origin, broker]
            known[origin] -= 1
            shared[origin, broker] = UNKNOWN
        is_fresh[origin, broker] = False
    reached, before = knowledge.reached, knowledge.before
    reached[0], before[0], knowledge.pays[0] = origin, -1, False
    count, start, cost = 1, 0, 0.0
    for away in range(rules.hops):
        end = count
        for place in range(start, end):
            sender = reached[place]
            came_from = reached[before[place]] if place else -1
            for entry in range(tree.first[sender], tree.first[sender + 1]):
                broker = tree.neighbours[entry]
                if broker == came_from:
                    continue
                cost += prices.links[sender, broker] + prices.processing[broker]
                if shared[broker, origin] != UNKNOWN:
                    sums[broker] -= shared[broker, origin]
                    known[broker] -= 1
                shared[broker, origin] = interest[broker]
                is_fresh[broker, origin] = True
                sums[broker] += interest[broker]
                known[broker] += 1
                reached[count], before[count] = broker, place
                knowledge.over[count] = shared[broker, sender]
                knowledge.pays[count] = away > 0 and _does_pay(count, prices, rules, knowledge)
                count += 1
        start = end
    return count - 1, cost


@kernel
def _does_pay(place: int, prices: Prices, rules: Rules, knowledge: Knowledge) -> bool:
    """`planner.evaluate`: whether a link to the origin costs less than the path to it."""
    reached, before, over = knowledge.reached, knowledge.before, knowledge.over
    broker, origin = reached[place], reached[0]
    new = prices.links[broker, origin]
    if rules.heuristic == MST:
        dearest = 0.0
        while place:
            dearest = max(dearest, prices.links[reached[before[place]], reached[place]])
            place = before[place]
        return bool(new < dearest)
    shared = knowledge.shared[broker]
    if rules.heuristic == MIT:
        least = over[place]
        while place:
            if over[place] == UNKNOWN:
                return False
            least = min(least, over[place])
            place = before[place]
        return bool(least < shared[origin])
    if shared[origin] <= 0:
        return False
    mean = knowledge.sums[broker] / knowledge.known[broker]
    last = reached[before[place]]
    indirect = prices.links[last, broker]
    place = before[place]
    while place:
        place = before[place]
        one = reached[place]
        extra = _extra(shared[last], shared[one], mean)
        if extra == UNKNOWN:
            return False
        indirect = extra * (indirect + prices.processing[last]) + prices.links[one, last]
        last = one
    return bool(new < indirect)


@kernel
def _extra(last: int, one: int, mean: float) -> float:
    """The share of a broker's interest that the broker before it does not have (Eq. 6), from what
    a third shares with the two; `UNKNOWN` if it knows too little.
    """
    if one == UNKNOWN:
        return UNKNOWN
    if one == 0:
        return 1.0
    if last == UNKNOWN:
        return UNKNOWN
    return (one - min(mean, min(last, one))) / one if last else 1.0


@kernel
def _close_cycle(
    place: int, number: int, prices: Prices, knowledge: Knowledge, proposals: ProposalArrays
) -> None:
    """The cycle that a link of a reached broker to the origin closes."""
    brokers, shared = proposals.brokers[number], proposals.shared[number]
    brokers[0] = knowledge.reached[place]
    size = 1
    while place:
        shared[size - 1] = knowledge.over[place]
        place = knowledge.before[place]
        brokers[size] = knowledge.reached[place]
        size += 1
    proposals.size[number] = size
    for step in range(size - 1):
        proposals.costs[number, step] = prices.links[brokers[step + 1], brokers[step]]
    proposals.costs[number, size - 1] = prices.links[brokers[0], brokers[size - 1]]
    shared[size - 1] = max(knowledge.shared[brokers[0], brokers[size - 1]], 0)


@kernel
def _judge(number: int, prices: Prices, knowledge: Knowledge, proposals: ProposalArrays) -> None:
    """`planner.cost_vector` of each broker of a cycle, and whether it can judge."""
    size, brokers = proposals.size[number], proposals.brokers[number]
    costs, found = proposals.costs[number], proposals.judged[number]
    is_known = proposals.is_judged[number]
    found[:size, :size] = 0.0
    is_known[:size] = True
    for here in range(size):
        row = knowledge.shared[brokers[here]]
        # A broker that no broadcast has reached.
        if knowledge.known[brokers[here]] == 0:
            is_known[here] = False
            continue
        mean = knowledge.sums[brokers[here]] / knowledge.known[brokers[here]]
        # Onwards from the next broker, then backwards from the one before; the link that leads to a
        # broker onwards has the number of the one before it, and backwards that broker's own.
        for step in (1, -1):
            last = (here + step) % size
            indirect = costs[here if step == 1 else last]
            total = row[brokers[last]] * indirect
            if row[brokers[last]] == UNKNOWN:
                is_known[here] = False
                break
            for count in range(1, size):
                # So many brokers are reached this way, and the others the other way.
                without = here + count if step == 1 else here - count - 1
                found[here, without % size] += total
                if count == size - 1:
                    break
                one = (last + step) % size
                extra = _extra(row[brokers[last]], row[brokers[one]], mean)
                if extra == UNKNOWN:
                    is_known[here] = False
                    break
                cost = costs[last if step == 1 else one]
                indirect = extra * (indirect + prices.processing[brokers[last]]) + cost
                total += row[brokers[one]] * indirect
                last = one
