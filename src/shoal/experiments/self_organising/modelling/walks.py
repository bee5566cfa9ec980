"""A broadcast's way through the model's tree: brokers that it reaches, and links that pay there.

Two walks do the same. `PlainWalk` has a `Neighbourhood` for each broker, as brokers have, and asks
`planner.evaluate`. `CompiledWalk` keeps what brokers know of each other in arrays, and goes through
a compiled loop; it does not count interest of three, which needs a broker's cache. A test finds the
same runs by both.

Source: Cost and Interest, sections 4.1 (Eq. 4 to 7) and 4.2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import pairwise
from typing import NamedTuple, Protocol, cast

import numpy as np
import numpy.typing as npt

from shoal.experiments.self_organising.modelling.delivery import DeliveryTree
from shoal.experiments.self_organising.modelling.sharing import SharedInterest, SharingInterval
from shoal.experiments.self_organising.modelling.workload import ModelLinkCosts
from shoal.matching.compiled.kernels.compiler import kernel
from shoal.model import BrokerId
from shoal.overlays.self_organising.deciding.interest import Cache
from shoal.overlays.self_organising.deciding.neighbourhood import Neighbourhood
from shoal.overlays.self_organising.deciding.planner import (
    Cycle,
    UnknownBrokerError,
    cost_vector,
    evaluate,
)
from shoal.overlays.self_organising.parameters import Heuristic, ThreeWay

Counts = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

# An array's entry for a broker that another does not know.
UNKNOWN = -1


class Spread(NamedTuple):
    """Results of a broadcast.

    heard    brokers that received it
    cost     of its messages
    cycles   closed by the links that pay, as their first brokers see them, in order of distance
    """

    heard: int
    cost: float
    cycles: list[Cycle]


class Walk(Protocol):
    """The brokers' knowledge of each other, and broadcasts that refresh it."""

    def spread(
        self, interval: SharingInterval, tree: DeliveryTree, costs: ModelLinkCosts, hops: int
    ) -> Spread:
        """End an interval of a broker, and send its broadcast as far as it may go."""

    def vectors(self, cycle: Cycle) -> Callable[[int], Sequence[float] | None]:
        """Return the judgement (Eq. 8) of the broker at each place of a cycle, by its place; None
        if that one does not know another of them.
        """


class PlainWalk:
    """Neighbourhoods as brokers have them, one by one."""

    def __init__(
        self, interests: Sequence[SharedInterest], heuristic: Heuristic, three_way: ThreeWay
    ) -> None:
        self._heuristic = heuristic
        self._around = [Neighbourhood(cast(Cache, each), three_way) for each in interests]

    def vectors(self, cycle: Cycle) -> Callable[[int], Sequence[float] | None]:
        return partial(self._vector, cycle)

    def _vector(self, cycle: Cycle, place: int) -> Sequence[float] | None:
        broker = cycle.brokers[place]
        with suppress(UnknownBrokerError):
            return cost_vector(self._around[cast(int, broker)], cycle, broker)
        return None

    def spread(
        self, interval: SharingInterval, tree: DeliveryTree, costs: ModelLinkCosts, hops: int
    ) -> Spread:
        origin = interval.origin
        self._around[origin].turn()
        cycles: list[Cycle] = []
        # Reached brokers, their predecessors, and the route back to the origin.
        start = _Way((origin,), (costs.brokers[origin],), (), ())
        reached: list[tuple[int, int, _Way]] = [(origin, -1, start)]
        heard, cost = 0, 0.0
        for away in range(hops):
            further: list[tuple[int, int, _Way]] = []
            for sender, before, way in reached:
                for broker in tree.neighbours[sender]:
                    if broker == before:
                        continue
                    link = costs.links[sender][broker]
                    heard += 1
                    cost += link + costs.brokers[broker]
                    around = self._around[broker]
                    around.on_broadcast(origin, interval)  # type: ignore[arg-type]
                    found = _Way(
                        (broker, *way.brokers),
                        (costs.brokers[broker], *way.processing),
                        (link, *way.links),
                        (around.shared(cast(BrokerId, sender)), *way.shared),
                    )
                    further.append((broker, sender, found))
                    if away and (cycle := self._paying(found, around, costs)):
                        cycles.append(cycle)
            reached = further
        return Spread(heard, cost, cycles)

    def _paying(self, way: _Way, around: Neighbourhood, costs: ModelLinkCosts) -> Cycle | None:
        """The cycle that a link to the origin closes, if the link pays for this broker."""
        shared: tuple[int, ...] = ()
        if self._heuristic is Heuristic.INTEREST:
            if None in way.shared:
                return None
            last = around.shared(cast(BrokerId, way.brokers[-1])) or 0
            shared = (*cast(tuple[int, ...], way.shared), last)
        cycle = Cycle(
            brokers=way.brokers,  # type: ignore[arg-type]  # numbers are as good as names
            processing=way.processing,
            costs=(*way.links, costs.links[way.brokers[0]][way.brokers[-1]]),
            shared=shared,
        )
        try:
            evaluation = evaluate(self._heuristic, around, cycle)
        except UnknownBrokerError:
            return None
        return cycle if evaluation is not None and evaluation.pays else None


class _Way(NamedTuple):
    """From the broker that a broadcast has come to, back to its origin."""

    brokers: tuple[int, ...]
    processing: tuple[float, ...]
    links: tuple[float, ...]
    shared: tuple[int | None, ...]


class CompiledWalk:
    """All brokers' knowledge in arrays, for any number of brokers below 2^31."""

    def __init__(self, brokers: int, heuristic: Heuristic) -> None:
        self._heuristic = heuristic
        # (brokers, brokers): what the row's broker shares with the column's, and whether that one's
        # broadcast came since the row's interval began.
        self._shared: Counts = np.full((brokers, brokers), UNKNOWN, np.int64)
        self._is_fresh: Flags = np.zeros((brokers, brokers), np.bool_)
        # (brokers): sum and number of known brokers' shared interest.
        self._sums: Counts = np.zeros(brokers, np.int64)
        self._known: Counts = np.zeros(brokers, np.int64)
        # (brokers): the reached brokers in order, their predecessors' places in that order, what
        # each shares with its predecessor, and whether a link to the origin pays.
        self._reached: Counts = np.zeros(brokers, np.int64)
        self._before: Counts = np.zeros(brokers, np.int64)
        self._over: Counts = np.zeros(brokers, np.int64)
        self._pays: Flags = np.zeros(brokers, np.bool_)
        self._costs: ModelLinkCosts | None = None

    def vectors(self, cycle: Cycle) -> Callable[[int], Sequence[float] | None]:
        found, is_known = _vectors(
            np.array(cycle.brokers, np.int64),
            np.array(cycle.processing, np.float64),
            np.array(cycle.costs, np.float64),
            self._shared,
            self._sums,
            self._known,
        )
        rows = found.tolist()
        judgements = [row if known else None for row, known in zip(rows, is_known, strict=True)]
        return judgements.__getitem__

    def spread(
        self, interval: SharingInterval, tree: DeliveryTree, costs: ModelLinkCosts, hops: int
    ) -> Spread:
        if costs is not self._costs:
            self._costs = costs
            self._processing: Floats = np.array(costs.brokers, np.float64)
            self._links: Floats = np.array(costs.links, np.float64)
        first, neighbours = tree.rows
        heard, cost = _spread(
            interval.origin,
            interval.shared,
            hops,
            _CODES[self._heuristic],
            first,
            neighbours,
            self._processing,
            self._links,
            self._shared,
            self._is_fresh,
            self._sums,
            self._known,
            self._reached,
            self._before,
            self._over,
            self._pays,
        )
        paying = np.flatnonzero(self._pays[: heard + 1]).tolist()
        return Spread(heard, cost, [self._cycle(place, costs) for place in paying])

    def _cycle(self, place: int, costs: ModelLinkCosts) -> Cycle:
        """The cycle that a link of a reached broker to the origin closes."""
        brokers: list[int] = [int(self._reached[place])]
        shared: list[int] = []
        while place:
            shared.append(int(self._over[place]))
            place = int(self._before[place])
            brokers.append(int(self._reached[place]))
        ends = brokers[0], brokers[-1]
        if self._heuristic is Heuristic.INTEREST:
            shared.append(max(int(self._shared[ends]), 0))
        over = [costs.links[sender][broker] for broker, sender in pairwise(brokers)]
        return Cycle(
            brokers=tuple(brokers),  # type: ignore[arg-type]  # numbers are as good as names
            processing=tuple(costs.brokers[broker] for broker in brokers),
            costs=(*over, costs.links[ends[0]][ends[1]]),
            shared=tuple(shared) if self._heuristic is Heuristic.INTEREST else (),
        )


_CI, _MST, _MIT = range(3)
_CODES = {
    Heuristic.COST_AND_INTEREST: _CI,
    Heuristic.COST: _MST,
    Heuristic.INTEREST: _MIT,
}


@kernel
def _spread(
    origin: int,
    interest: Counts,
    hops: int,
    heuristic: int,
    first: Counts,
    neighbours: Counts,
    processing: Floats,
    links: Floats,
    shared: Counts,
    is_fresh: Flags,
    sums: Counts,
    known: Counts,
    reached: Counts,
    before: Counts,
    over: Counts,
    pays: Flags,
) -> tuple[int, float]:
    """`Neighbourhood.turn` of the origin, then `on_broadcast` and `planner.evaluate` at each broker
    that the broadcast reaches; returns their number and the cost of its messages.

    The neighbours of broker n are `neighbours[first[n]:first[n + 1]]`.
    """
    for broker in range(len(processing)):
        if shared[origin, broker] != UNKNOWN and not is_fresh[origin, broker]:
            sums[origin] -= shared[origin, broker]
            known[origin] -= 1
            shared[origin, broker] = UNKNOWN
        is_fresh[origin, broker] = False
    reached[0], before[0], pays[0] = origin, -1, False
    count, start, cost = 1, 0, 0.0
    for away in range(hops):
        end = count
        for place in range(start, end):
            sender = reached[place]
            came_from = reached[before[place]] if place else -1
            for entry in range(first[sender], first[sender + 1]):
                broker = neighbours[entry]
                if broker == came_from:
                    continue
                cost += links[sender, broker] + processing[broker]
                if shared[broker, origin] != UNKNOWN:
                    sums[broker] -= shared[broker, origin]
                    known[broker] -= 1
                shared[broker, origin] = interest[broker]
                is_fresh[broker, origin] = True
                sums[broker] += interest[broker]
                known[broker] += 1
                reached[count], before[count] = broker, place
                over[count] = shared[broker, sender]
                pays[count] = away > 0 and _does_pay(
                    count, heuristic, processing, links, shared, sums, known, reached, before, over
                )
                count += 1
        start = end
    return count - 1, cost


@kernel
def _does_pay(
    place: int,
    heuristic: int,
    processing: Floats,
    links: Floats,
    shared: Counts,
    sums: Counts,
    known: Counts,
    reached: Counts,
    before: Counts,
    over: Counts,
) -> bool:
    """`planner.evaluate`: whether a link to the origin costs less than the path to it."""
    broker, origin = reached[place], reached[0]
    new = links[broker, origin]
    if heuristic == _MST:
        dearest = 0.0
        while place:
            dearest = max(dearest, links[reached[before[place]], reached[place]])
            place = before[place]
        return bool(new < dearest)
    if heuristic == _MIT:
        least = over[place]
        while place:
            if over[place] == UNKNOWN:
                return False
            least = min(least, over[place])
            place = before[place]
        return bool(least < shared[broker, origin])
    if shared[broker, origin] <= 0:
        return False
    mean = sums[broker] / known[broker]
    last = reached[before[place]]
    indirect = links[last, broker]
    place = before[place]
    while place:
        place = before[place]
        one = reached[place]
        extra = _extra(shared[broker, last], shared[broker, one], mean)
        if extra == UNKNOWN:
            return False
        indirect = extra * (indirect + processing[last]) + links[one, last]
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
def _vectors(
    brokers: Counts, processing: Floats, costs: Floats, shared: Counts, sums: Counts, known: Counts
) -> tuple[Floats, Flags]:
    """`planner.cost_vector` of each broker of a cycle: a row each, and whether it can judge."""
    size = len(brokers)
    found = np.zeros((size, size))
    is_known = np.ones(size, np.bool_)
    for here in range(size):
        row = shared[brokers[here]]
        # A broker that no broadcast has reached.
        if known[brokers[here]] == 0:
            is_known[here] = False
            continue
        mean = sums[brokers[here]] / known[brokers[here]]
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
                indirect = extra * (indirect + processing[last]) + cost
                total += row[brokers[one]] * indirect
                last = one
    return found, is_known
