"""Choice of the link to exchange: costs and interest, seen from the brokers of a cycle.

A broker compares a direct link to another with the path over the brokers between them, which costs
less if those need the same notifications anyway (`evaluate`). A link that would pay closes a cycle.
Every broker of the cycle adds its cost without each of the cycle's links (`cost_vector`); the sum
decides which link is removed (`decide`). If that is the new one, nothing changes.

Figure 2: B1 is between B2 and B3, which share ten notifications of which it wants none.

>>> view = Mean({"B1": 0, "B3": 10})  # of B2
>>> cycle = Cycle(brokers=("B2", "B1", "B3"), processing=(2, 2, 2), costs=(1, 3, 4))
>>> evaluate(Heuristic.COST_AND_INTEREST, view, cycle)
Evaluation(now=6.0, direct=4)
>>> mine = cost_vector(view, cycle, "B2")
>>> mine
(40.0, 40.0, 60.0)
>>> others = cost_vector(Mean({"B1": 0, "B2": 10}), cycle, "B3")
>>> decide(Heuristic.COST_AND_INTEREST, cycle, [a + b for a, b in zip(mine, others)])
ExchangePlan(remove=1, cost_now=120.0, cost_then=80.0)

Source: Cost and Interest, sections 4.1 (Eq. 3 to 7) and 4.2 (Eq. 8 to 10); 3.1.2 for the two
baselines, of which 5 says only that they use the same messages. Readings: an intermediate broker
with which nothing is shared saves nothing (Eq. 7 would divide by zero); of links whose removal
costs the same, the new one is removed, or else the dearest, or else the first by name.
Decentralised baselines by the cycle property: `mst` removes a cycle's dearest link, `mit` the one
over which least is shared.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec

from shoal.model import BrokerId
from shoal.overlays.self_organising.parameters import Heuristic

# Sums of the same numbers in another order may differ by less than this part of them.
ROUNDING = 1e-9
# Maximum transit time of a proposal.
ON_ITS_WAY_US = 1_000_000
# Between two broadcasts of a broker is the interval times a number between these.
VARIATION = 0.9, 1.1


class Cycle(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A path of the overlay, and a new link that closes it.

    brokers      in their order; the first proposes to link itself to the last
    processing   a notification's cost at each
    costs        its cost over each link, from the first broker on; the new link is the last
    shared       notifications that the ends of each link share, which only `mit` weighs
    """

    brokers: tuple[BrokerId, ...]
    processing: tuple[float, ...]
    costs: tuple[float, ...]
    shared: tuple[int, ...] = ()

    def link(self, number: int) -> tuple[BrokerId, BrokerId]:
        """The ends of a link."""
        return self.brokers[number], self.brokers[(number + 1) % len(self.brokers)]


class NeighbourhoodView(Protocol):
    """The interest that one broker shares with others, as far as it knows."""

    def shared(self, broker: BrokerId) -> int | None:
        """Number of notifications in which both are interested; None for an unknown broker."""

    def shared_by_three(self, broker: BrokerId, other: BrokerId) -> float:
        """Notifications in which all three are interested; both are known."""


class Mean:
    """A view that uses the mean over its neighbourhood for the interest that any three share (Eq.

    6).
    """

    def __init__(self, shared: Mapping[BrokerId, int]) -> None:
        self._shared = shared
        self._mean = sum(shared.values()) / len(shared) if shared else 0.0

    def shared(self, broker: BrokerId) -> int | None:
        return self._shared.get(broker)

    def shared_by_three(self, broker: BrokerId, other: BrokerId) -> float:
        return min(self._mean, self._shared[broker], self._shared[other])


class UnknownBrokerError(Exception):
    """A broker of the cycle that nothing is known of: there is nothing to decide by yet."""

    def __init__(self, broker: BrokerId) -> None:
        super().__init__(broker)
        self.broker = broker


class Evaluation(NamedTuple):
    """The two sides of Eq. 5: the cost of the path as it is, and over a direct link.

    For `mst` these are the dearest link of the path and the new one; for `mit` the interest shared
    over the new link, and the least over one of the path.
    """

    now: float
    direct: float

    @property
    def pays(self) -> bool:
        """Whether a direct link is worth proposing."""
        return self.direct < self.now


class ExchangePlan(NamedTuple):
    """The link to remove, by its number in the cycle, and the cycle's cost before and after.

    For `mst` the cost is the sum of the remaining links, for `mit` the interest shared over the
    removed one.
    """

    remove: int
    cost_now: float
    cost_then: float

    @property
    def saving(self) -> float:
        return self.cost_now - self.cost_then


def evaluate(heuristic: Heuristic, view: NeighbourhoodView, cycle: Cycle) -> Evaluation | None:
    """Costs that the cycle's first broker expects of a link to the last.

    None when nothing is shared.

    UnknownBrokerError when it does not know a broker between them.
    """
    new = cycle.costs[-1]
    match heuristic:
        case Heuristic.COST_AND_INTEREST:
            if not _known(view, cycle.brokers[-1]):
                return None
            _, indirect = _along(view, cycle.brokers[1:], cycle.processing[1:], cycle.costs)
            return Evaluation(indirect[-1], new)
        case Heuristic.COST:
            return Evaluation(max(cycle.costs[:-1]), new)
        case Heuristic.INTEREST:
            return Evaluation(cycle.shared[-1], min(cycle.shared[:-1]))


def indirect_costs(
    view: NeighbourhoodView, way: Iterable[tuple[BrokerId, float, float]]
) -> list[float]:
    """A notification's cost to each broker of a path (Eq. 7's C), which starts at a neighbour.

    `way` is brokers, a notification's cost there, and over the link that leads there.
    """
    brokers, processing, costs = zip(*way, strict=True)
    return _along(view, brokers, processing, costs)[1]


def _along(
    view: NeighbourhoodView,
    brokers: Sequence[BrokerId],
    processing: Sequence[float],
    costs: Sequence[float],
) -> tuple[list[int], list[float]]:
    """Shared interest with each broker of a path, and a notification's cost to it.

    Called for each broadcast that comes, and most of the work for it.
    """
    shared_with, by_three = view.shared, view.shared_by_three
    before = brokers[0]
    shared_before = shared_with(before)
    indirect, processing_before = float(costs[0]), processing[0]
    all_shared, all_indirect = [shared_before or 0], [indirect]
    for place in range(1, len(brokers)):
        broker = brokers[place]
        shared = shared_with(broker)
        if shared is None:
            raise UnknownBrokerError(broker)
        # The share of this broker's interest that the broker before it does not have.
        extra = 1.0
        if shared:
            if shared_before is None:
                raise UnknownBrokerError(before)
            if shared_before:
                extra = (shared - by_three(before, broker)) / shared
        indirect = extra * (indirect + processing_before) + costs[place]
        all_shared.append(shared)
        all_indirect.append(indirect)
        before, shared_before, processing_before = broker, shared, processing[place]
    return all_shared, all_indirect


def _known(view: NeighbourhoodView, broker: BrokerId) -> int:
    shared = view.shared(broker)
    if shared is None:
        raise UnknownBrokerError(broker)
    return shared


def cost_vector(view: NeighbourhoodView, cycle: Cycle, broker: BrokerId) -> tuple[float, ...]:
    """The cycle's cost without each of its links, as `broker` estimates it (Eq. 8).

    UnknownBrokerError when it does not know another broker of the cycle.
    """
    here = cycle.brokers.index(broker)
    # From the next broker around to the one before; the link that leads to a broker onwards has the
    # number of the one before it, and backwards that broker's own.
    brokers = cycle.brokers[here + 1 :] + cycle.brokers[:here]
    processing = cycle.processing[here + 1 :] + cycle.processing[:here]
    costs = cycle.costs[here:] + cycle.costs[:here]
    onwards = _sums(view, brokers, processing, costs)
    backwards = _sums(view, brokers[::-1], processing[::-1], costs[::-1])
    # Without the link that is so many links onwards, as many brokers are reached that way.
    ahead = [one + other for one, other in zip(onwards, reversed(backwards), strict=True)]
    return (*ahead[-here:], *ahead[:-here])


def _sums(
    view: NeighbourhoodView,
    brokers: Sequence[BrokerId],
    processing: Sequence[float],
    costs: Sequence[float],
) -> list[float]:
    """For 0, 1, 2, ... brokers of a path: the sum of each one's shared interest times the cost to
    it.
    """
    _known(view, brokers[0])
    total, sums = 0.0, [0.0]
    for count, cost in zip(*_along(view, brokers, processing, costs), strict=True):
        total += count * cost
        sums.append(total)
    return sums


def decide(
    heuristic: Heuristic,
    cycle: Cycle,
    vector: Sequence[float],
    least_gain_percent: float = 0,
    removable: Collection[int] | None = None,
) -> ExchangePlan:
    """The link to remove (Eq. 10); `vector` is the sum of all brokers' (Eq. 9; only `ci` uses it).

    The new one is removed, and nothing changes, unless the cycle becomes cheaper without another,
    by `least_gain_percent` of its present cost; with `removable` only those may be removed.
    """
    left = _costs_without(heuristic, cycle, vector)
    new, now = len(left) - 1, left[-1]
    choice = [link for link in range(new) if removable is None or link in removable]
    least = min((left[link] for link in choice), default=now)
    if least >= now or _is_same(now, least) or 100 * (now - least) < least_gain_percent * now:
        return ExchangePlan(new, now, now)
    cheapest = [link for link in choice if _is_same(left[link], least)]
    remove = min(cheapest, key=lambda link: (-cycle.costs[link], sorted(cycle.link(link))))
    return ExchangePlan(remove, now, left[remove])


def gives_way(broker: BrokerId, other: BrokerId, proposed_us: float | None, now_us: float) -> bool:
    """Whether `broker` drops the proposal of `other`, having proposed the same link (ours).

    `proposed_us` is when it did. If both ends propose a link at the same time, one must give way,
    or neither exchange would go through.
    """
    is_on_its_way = proposed_us is not None and now_us < proposed_us + ON_ITS_WAY_US
    return is_on_its_way and broker < other


def _costs_without(heuristic: Heuristic, cycle: Cycle, vector: Sequence[float]) -> Sequence[float]:
    match heuristic:
        case Heuristic.COST_AND_INTEREST:
            return vector
        case Heuristic.COST:
            whole = math.fsum(cycle.costs)
            return [whole - cost for cost in cycle.costs]
        case Heuristic.INTEREST:
            return cycle.shared


def _is_same(left: float, right: float) -> bool:
    return math.isclose(left, right, rel_tol=ROUNDING)
