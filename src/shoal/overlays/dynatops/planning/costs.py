"""Costs of a mapping, in total and by broker.

Source: DYNATOPS, section 5, Eq. 3 to 5, 7 and 10 to 12.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shoal.overlays.dynatops.planning import kernels
from shoal.overlays.dynatops.planning.problem import (
    Amounts,
    Flags,
    Mapping,
    Numbers,
    PlacementProblem,
    inverse,
)

# The least relative difference that counts as less.
LEAST = 1e-9


class MappingCounts(NamedTuple):
    """A mapping with its counts.

    brokers    (positions) the broker there
    is_member  (topics, positions) whether the broker there subscribes
    members    (topics, most of any) the positions of these, ascending
    counts     (topics) their number
    below      (topics, positions) number of subscribing brokers there or behind
    apart      (rows, positions) distance of each from its root
    relaying   (positions) cost of relaying for others there, Eq. 10
    waiting    (positions) cost of the delay of the broker there, Eq. 11, not weighted
    """

    brokers: Numbers
    is_member: Flags
    members: Numbers
    counts: Numbers
    below: Numbers
    apart: Amounts
    relaying: Amounts
    waiting: Amounts

    @property
    def relays(self) -> float:
        """O of Eq. 3."""
        return float(self.relaying.sum())

    @property
    def delay(self) -> float:
        """D of Eq. 4."""
        return float(self.waiting.sum())

    def cost(self, delay_weight: float) -> float:
        """C of Eq. 5."""
        return self.relays + delay_weight * self.delay

    def copied(self) -> MappingCounts:
        """A copy in arrays of its own, as `after_swap` uses up its input."""
        return MappingCounts(
            self.brokers.copy(),
            self.is_member.copy(),
            self.members.copy(),
            self.counts,
            self.below.copy(),
            self.apart,
            self.relaying.copy(),
            self.waiting.copy(),
        )


def standing(problem: PlacementProblem, mapping: Mapping) -> MappingCounts:
    trees, brokers = problem.trees, np.array(inverse(mapping), np.int32)
    is_member = np.ascontiguousarray(problem.wanted[brokers].T)
    members, counts = kernels.members_of(is_member)
    below = kernels.count_below(trees.of, trees.parents, trees.order, is_member)
    apart = distances(problem, brokers)
    return MappingCounts(
        brokers=brokers,
        is_member=is_member,
        members=members,
        counts=counts,
        below=below,
        apart=apart,
        relaying=kernels.relay_costs(trees.of, trees.roots, below, is_member, problem.publications),
        waiting=kernels.delay_costs(trees.of, apart, is_member, problem.publications),
    )


def notification_cost(problem: PlacementProblem, mapping: Mapping) -> float:
    """C of Eq. 5."""
    return standing(problem, mapping).cost(problem.delay_weight)


def broker_costs(problem: PlacementProblem, mapping: Mapping) -> Amounts:
    """(brokers): c of Eq. 12; all of them together are the notification cost."""
    at: Amounts = _by_position(problem, standing(problem, mapping))[np.array(mapping)]
    return at


def swap_costs(problem: PlacementProblem, found: MappingCounts, swapped: int) -> Amounts:
    """(positions): change of the notification cost by a swap with the broker at `swapped`."""
    trees, round_trips = problem.trees, problem.round_trips
    changes = kernels.changes_by_swaps(
        trees.of,
        trees.roots,
        trees.parents,
        trees.order,
        trees.depths,
        found.below,
        found.is_member,
        found.members,
        found.counts,
        problem.publications,
        problem.delay_weight if round_trips is None else 0.0,
        swapped,
    )
    if round_trips is None or problem.delay_weight == 0:
        return changes
    delays = kernels.delays_after_swaps(
        trees.of,
        trees.roots,
        trees.parents,
        found.apart,
        kernels.flows(trees.of, trees.parents, found.below, problem.publications),
        found.is_member,
        problem.publications,
        round_trips,
        found.brokers,
        swapped,
    )
    return changes + problem.delay_weight * delays


def after_swap(
    problem: PlacementProblem, found: MappingCounts, left: int, right: int
) -> MappingCounts:
    """The brokers at two positions change places; the input is used up."""
    trees, brokers = problem.trees, found.brokers
    kernels.swap(
        trees.of,
        trees.roots,
        trees.parents,
        found.below,
        found.is_member,
        found.members,
        found.counts,
        found.relaying,
        problem.publications,
        left,
        right,
    )
    brokers[left], brokers[right] = brokers[right], brokers[left]
    if problem.round_trips is not None:
        apart = distances(problem, brokers)
        waiting = kernels.delay_costs(trees.of, apart, found.is_member, problem.publications)
        return found._replace(apart=apart, waiting=waiting)
    # No other broker is farther away than before.
    for position in (left, right):
        found.waiting[position] = kernels.delay_cost_at(
            trees.of, trees.depths, found.is_member, problem.publications, position
        )
    return found


def moved(before: Mapping, after: Mapping) -> list[int]:
    """The brokers that stand elsewhere; Gamma of Eq. 7 is how many."""
    return [
        broker for broker, pair in enumerate(zip(before, after, strict=True)) if pair[0] != pair[1]
    ]


def _by_position(problem: PlacementProblem, found: MappingCounts) -> Amounts:
    return found.relaying + problem.delay_weight * found.waiting


def distances(problem: PlacementProblem, brokers: Numbers) -> Amounts:
    """(rows, positions): distance of each from its root, by the brokers there."""
    trees, round_trips = problem.trees, problem.round_trips
    if round_trips is None:
        return trees.depths
    return kernels.distances(trees.parents, trees.order, round_trips, brokers)
