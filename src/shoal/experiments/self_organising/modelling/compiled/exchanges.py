"""Proposals on their way around their cycles, decisions, and exchanges of links.

Source: Cost and Interest, sections 4.1 (Eq. 9 and 10) and 4.2.
"""

from __future__ import annotations

import numpy as np

from shoal.experiments.self_organising.modelling.compiled.arrays import (
    BEGUN,
    DECIDED,
    EXCHANGED,
    EXCHANGES,
    IS_DONE,
    KEPT,
    MIT,
    MST,
    PROPOSALS,
    REFUSED,
    REMOVE,
    REQUESTS,
    SIZE,
    UNKNOWN,
    Counts,
    ExchangeArrays,
    Floats,
    Knowledge,
    Prices,
    ProposalArrays,
    Rules,
    RunArrays,
    Swaps,
    Totals,
    TreeArrays,
)
from shoal.experiments.self_organising.modelling.compiled.notifications import recount
from shoal.experiments.self_organising.modelling.model import OPENING
from shoal.experiments.self_organising.modelling.setting import TICK_US
from shoal.matching.compiled.kernels.compiler import kernel
from shoal.overlays.self_organising.deciding.planner import ON_ITS_WAY_US, ROUNDING


@kernel
def consult(at: float, count: int, done: int, prices: Prices, swaps: Swaps, run: RunArrays) -> int:
    """Carry out a broadcast's proposals, in order of their arrival; `done` exchanges were before,
    the number of all is returned.

    Time is counted in links that a message passes, since the broadcast began.
    """
    proposals, exchange, totals = run.proposals, run.exchange, run.totals
    exchange.state[SIZE], exchange.state[IS_DONE] = 0, 1
    for number in range(count):
        # The broadcast has come that far, and the proposal goes back.
        proposals.time[number], proposals.turn[number] = proposals.size[number], number
        proposals.place[number], proposals.is_going[number] = 1, True
        _pay_request(number, prices, proposals, totals)
    totals.counts[PROPOSALS] += count
    turn = count
    while True:
        number = _next(count, proposals)
        if number == UNKNOWN:
            break
        time, place, size = proposals.time[number], proposals.place[number], proposals.size[number]
        broker, sender = proposals.brokers[number, place], proposals.brokers[number, place - 1]
        if not exchange.state[IS_DONE] and time >= exchange.state[DECIDED]:
            done = _carry_out(at, done, prices, swaps, run)
        if _is_busy(broker, time, exchange):
            if _holds(broker, sender, time, exchange):
                turn += 1
                proposals.time[number] = exchange.until[exchange.place[broker]]
                proposals.turn[number] = turn
            else:
                proposals.is_going[number] = False
                totals.counts[REFUSED] += 1
        elif not _agrees(at, number, run.tree, run.knowledge, proposals):
            proposals.is_going[number] = False
            totals.counts[REFUSED] += 1
        elif place < size - 1:
            turn += 1
            proposals.time[number], proposals.turn[number] = time + 1, turn
            proposals.place[number] = place + 1
            _pay_request(number, prices, proposals, totals)
        else:
            proposals.is_going[number] = False
            remove = _decide(number, run.rules, proposals)
            if remove == place:
                totals.counts[KEPT] += 1
            else:
                _begin(number, remove, time, proposals, exchange)
                totals.counts[EXCHANGED] += 1
    if not exchange.state[IS_DONE]:
        done = _carry_out(at, done, prices, swaps, run)
    for place in range(exchange.state[SIZE]):
        exchange.place[exchange.brokers[place]] = UNKNOWN
    return done


@kernel
def _next(count: int, proposals: ProposalArrays) -> int:
    """The proposal that arrives first; `UNKNOWN` if none is on its way."""
    found = UNKNOWN
    for number in range(count):
        if proposals.is_going[number] and (
            found == UNKNOWN
            or proposals.time[number] < proposals.time[found]
            or (
                proposals.time[number] == proposals.time[found]
                and proposals.turn[number] < proposals.turn[found]
            )
        ):
            found = number
    return found


@kernel
def _pay_request(number: int, prices: Prices, proposals: ProposalArrays, totals: Totals) -> None:
    """The proposal goes to the broker at its place."""
    place = proposals.place[number]
    sender, receiver = (
        proposals.brokers[number, place - 1],
        proposals.brokers[number, place],
    )
    totals.sums[REQUESTS] += prices.links[sender, receiver] + prices.processing[receiver]


@kernel
def _agrees(
    at: float, number: int, tree: TreeArrays, knowledge: Knowledge, proposals: ProposalArrays
) -> bool:
    """Whether the broker at the proposal's place can decide; its judgement is added then."""
    place, size = proposals.place[number], proposals.size[number]
    brokers = proposals.brokers[number]
    broker = brokers[place]
    if not _are_linked(broker, brokers[place - 1], tree):
        return False
    if place == size - 1:
        other = brokers[0]
        is_on_its_way = at * TICK_US < knowledge.proposed[broker, other] * TICK_US + ON_ITS_WAY_US
        if (is_on_its_way and broker < other) or _are_linked(broker, other, tree):
            return False
    elif not _are_linked(broker, brokers[place + 1], tree):
        return False
    if not proposals.is_judged[number, place]:
        return False
    for link in range(size):
        proposals.vector[number, link] += proposals.judged[number, place, link]
    return True


@kernel
def _are_linked(broker: int, other: int, tree: TreeArrays) -> bool:
    for entry in range(tree.first[broker], tree.first[broker + 1]):
        if tree.neighbours[entry] == other:
            return True
    return False


@kernel
def _decide(number: int, rules: Rules, proposals: ProposalArrays) -> int:
    """`planner.decide`: the place of the link that goes (Eq. 10), which may be the new one."""
    size, costs, brokers = (
        proposals.size[number],
        proposals.costs[number],
        proposals.brokers[number],
    )
    left = proposals.vector[number]
    if rules.heuristic == MST:
        whole = _exact_sum(costs[:size])
        left = whole - costs
    elif rules.heuristic == MIT:
        left = proposals.shared[number]
    new, now = size - 1, left[size - 1]
    least = left[:new].min()
    if least >= now or _is_same(now, least) or 100 * (now - least) < rules.least_gain * now:
        return int(new)
    remove = UNKNOWN
    for link in range(new):
        if _is_same(left[link], least) and (
            remove == UNKNOWN
            or costs[link] > costs[remove]
            or (costs[link] == costs[remove] and _is_before(brokers, link, remove))
        ):
            remove = link
    return remove


@kernel
def _is_before(brokers: Counts, link: int, other: int) -> bool:
    """Whether the ends of a link come before those of another; neither is a cycle's last link."""
    low, other_low = brokers[link : link + 2].min(), brokers[other : other + 2].min()
    high, other_high = brokers[link : link + 2].max(), brokers[other : other + 2].max()
    return bool(low < other_low or (low == other_low and high < other_high))


@kernel
def _is_same(left: float, right: float) -> bool:
    return left == right or abs(left - right) <= ROUNDING * max(abs(left), abs(right))


@kernel
def _exact_sum(numbers: Floats) -> float:
    """The sum without what rounding loses at each step (Neumaier)."""
    total, lost = 0.0, 0.0
    for number in numbers:
        further = total + number
        if abs(total) >= abs(number):
            lost += (total - further) + number
        else:
            lost += (number - further) + total
        total = further
    return total + lost


@kernel
def _begin(
    number: int, remove: int, time: int, proposals: ProposalArrays, exchange: ExchangeArrays
) -> None:
    """An exchange of a proposed link begins, after the one before it (`_Ring`)."""
    state = exchange.state
    for place in range(state[SIZE]):
        exchange.place[exchange.brokers[place]] = UNKNOWN
    size = proposals.size[number]
    opened = time + OPENING
    decided = opened + 3 * (size - 1)
    state[SIZE], state[REMOVE], state[BEGUN] = size, remove, time
    state[DECIDED], state[IS_DONE] = decided, 0
    for place in range(size):
        broker = proposals.brokers[number, place]
        exchange.brokers[place], exchange.place[broker] = broker, place
        exchange.since[place] = opened + size - 1 - place
        exchange.until[place] = decided + (size - place if place > remove else place)


@kernel
def _is_busy(broker: int, time: int, exchange: ExchangeArrays) -> bool:
    place = exchange.place[broker]
    if place == UNKNOWN:
        return False
    is_last = place == exchange.state[SIZE] - 1
    since = exchange.state[BEGUN] if is_last else exchange.since[place]
    return bool(since <= time < exchange.until[place])


@kernel
def _holds(broker: int, sender: int, time: int, exchange: ExchangeArrays) -> bool:
    """Whether a busy broker takes in nothing that this one sends."""
    place, size = exchange.place[broker], exchange.state[SIZE]
    is_beside = (
        sender == exchange.brokers[(place - 1) % size]
        or sender == exchange.brokers[(place + 1) % size]
    )
    return bool(time >= exchange.since[place] and not is_beside)


@kernel
def _carry_out(at: float, done: int, prices: Prices, swaps: Swaps, run: RunArrays) -> int:
    """The links are exchanged; returns how many exchanges were done."""
    exchange = run.exchange
    size, remove = exchange.state[SIZE], exchange.state[REMOVE]
    brokers = exchange.brokers[:size]
    exchange.state[IS_DONE] = 1
    swaps.at[done], swaps.size[done], swaps.remove[done] = at, size, remove
    swaps.cycle[done, :size] = brokers
    down = brokers[::-1]
    last = np.concatenate((brokers[:1], down[: size - remove - 1]))
    # Down, up and down the path, then both ways up to the link that goes.
    run.totals.sums[EXCHANGES] += (
        _way(down, prices)
        + _way(brokers, prices)
        + _way(down, prices)
        + _way(brokers[: remove + 1], prices)
        + _way(last, prices)
    )
    one, other = brokers[remove], brokers[remove + 1]
    over_old = run.types.passed[:, one] & run.types.passed[:, other]
    _change_link(one, other, brokers[0], brokers[size - 1], run.tree)
    for type in range(len(over_old)):
        # To others it makes no difference.
        if over_old[type]:
            recount(at, type, prices, run.rules, run.tree, run.types, run.pairs, run.totals)
    return done + 1


@kernel
def _way(brokers: Counts, prices: Prices) -> float:
    """The cost of a message from the first of these brokers to the last."""
    total = 0.0
    for step in range(len(brokers) - 1):
        sender, receiver = brokers[step], brokers[step + 1]
        total += prices.links[sender, receiver] + prices.processing[receiver]
    return total


@kernel
def _change_link(one: int, other: int, left: int, right: int, tree: TreeArrays) -> None:
    """The link of `left` and `right` takes the place of that of `one` and `other`."""
    old_first, old = tree.first.copy(), tree.neighbours.copy()
    count = 0
    for broker in range(len(tree.above)):
        tree.first[broker] = count
        gone = other if broker == one else one if broker == other else UNKNOWN
        new = right if broker == left else left if broker == right else UNKNOWN
        for entry in range(old_first[broker], old_first[broker + 1]):
            neighbour = old[entry]
            if new != UNKNOWN and new < neighbour:
                tree.neighbours[count] = new
                count += 1
                new = UNKNOWN
            if neighbour != gone:
                tree.neighbours[count] = neighbour
                count += 1
        if new != UNKNOWN:
            tree.neighbours[count] = new
            count += 1
    waiting = np.zeros(len(tree.above), np.int64)
    tree.above[0] = UNKNOWN
    end = 1
    for place in range(len(waiting)):
        broker = waiting[place]
        for entry in range(tree.first[broker], tree.first[broker + 1]):
            neighbour = tree.neighbours[entry]
            if neighbour != tree.above[broker]:
                tree.above[neighbour] = broker
                waiting[end] = neighbour
                end += 1
