"""Planning without a manager: brokers that cost more than all they know propose swaps in pairs.

It goes in rounds. A broker is a bottleneck if it costs more than every broker that it knows and
that has not given up: those linked with its position, in either direction, and a random sample of
others in each round. A bottleneck asks these for the change by a swap, proposes the best useful
one, and gives up until its own costs change if there is none. A broker with several requests takes
the best offer. Swaps of one round are made at once, each computed from the state before them.

Cost in messages: a question and an answer for each asked broker, and for each topic on which both
differ the paths from their positions to its root, where relays are counted.

Source: ours; DYNATOPS names distributing the manager as future work (section 7).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Mapping as Offers
from typing import NamedTuple

import numpy as np

from shoal.overlays.dynatops.planning.costs import (
    LEAST,
    after_swap,
    standing,
    swap_costs,
)
from shoal.overlays.dynatops.planning.problem import (
    Amounts,
    Flags,
    Mapping,
    PlacementProblem,
    trees_of,
)
from shoal.overlays.dynatops.structures.structure import Structure

# Simultaneous swaps may spoil each other's gains, so that the rounds need not end by themselves.
MAX_ROUNDS = 1_000


class PairwiseRound(NamedTuple):
    """Result of a round.

    swaps     the brokers that changed places
    mapping   the positions then
    cost      the notification cost then
    messages  of the requests
    """

    swaps: tuple[tuple[int, int], ...]
    mapping: Mapping
    cost: float
    messages: float


def rounds(
    structure: Structure,
    problem: PlacementProblem,
    mapping: Mapping,
    heard_of: int = 0,
    seed: int = 0,
) -> Iterator[PairwiseRound]:
    """Rounds until no broker proposes; `heard_of`: the sample that each knows in a round."""
    pairs = _Pairs(structure, problem, mapping)
    random = np.random.default_rng(seed)
    for _ in range(MAX_ROUNDS):
        known = pairs.links.copy()
        for row in known if heard_of else ():
            row[random.choice(structure.size, min(heard_of, structure.size), replace=False)] = True
        np.fill_diagonal(known, False)
        found = pairs.play(known)
        if found is None:
            return
        yield found


class _Pairs:
    """Positions, brokers that have given up, and the cost of each."""

    def __init__(self, structure: Structure, problem: PlacementProblem, mapping: Mapping) -> None:
        self.links = _links(structure)
        self._problem = problem
        self._hops = trees_of(structure, range(structure.size)).depths
        self._found = standing(problem, mapping)
        self._at = np.array(mapping)
        self._has_given_up = np.zeros(structure.size, np.bool_)
        self._costs = self._by_broker()

    def play(self, known: Flags) -> PairwiseRound | None:
        """One round; None when no broker asks."""
        asking = self._bottlenecks(known)
        if not asking:
            return None
        # By asked broker: the change, and the asking broker.
        offers: dict[int, tuple[float, int]] = {}
        messages = 0.0
        for position in asking:
            asked = np.flatnonzero(known[position]).tolist()
            messages += 2 * len(asked) + self._counting(position, asked)
            changes = swap_costs(self._problem, self._found, position)[asked]
            best = int(changes.argmin())
            if changes[best] >= -LEAST * float(self._costs.sum()):
                self._has_given_up[self._found.brokers[position]] = True
                continue
            offer = float(changes[best]), position
            offers[asked[best]] = min(offer, offers.get(asked[best], offer))
        swaps = self._swap(offers)
        costs = self._by_broker()
        self._has_given_up &= np.isclose(costs, self._costs)
        self._costs = costs
        return PairwiseRound(swaps, tuple(self._at.tolist()), float(costs.sum()), messages)

    def _swap(self, offers: Offers[int, tuple[float, int]]) -> tuple[tuple[int, int], ...]:
        """The best first; a bottleneck that was asked itself makes one of both swaps."""
        swaps: list[tuple[int, int]] = []
        engaged: set[int] = set()
        for other, (_, position) in sorted(offers.items(), key=lambda each: each[1]):
            if engaged.isdisjoint((position, other)):
                engaged |= {position, other}
                brokers = self._found.brokers
                swaps.append((int(brokers[position]), int(brokers[other])))
        for one, partner in swaps:
            left, right = int(self._at[one]), int(self._at[partner])
            self._found = after_swap(self._problem, self._found, left, right)
            self._at[one], self._at[partner] = right, left
        return tuple(swaps)

    def _by_broker(self) -> Amounts:
        """(brokers): Eq. 12."""
        found = self._found
        by_position = found.relaying + self._problem.delay_weight * found.waiting
        by_broker: Amounts = by_position[self._at]
        return by_broker

    def _bottlenecks(self, known: Flags) -> list[int]:
        """The positions whose brokers cost more than all they know; of equal ones the first's."""
        brokers = self._found.brokers
        is_active = ~self._has_given_up[brokers]
        rank = np.empty(len(brokers), np.int64)
        order = np.lexsort((-brokers, np.round(self._costs[brokers], 6)))
        rank[order] = np.arange(len(brokers))
        highest = np.where(known & is_active, rank, -1).max(axis=1)
        found: list[int] = np.flatnonzero(is_active & (rank > highest)).tolist()
        return found

    def _counting(self, position: int, asked: Sequence[int]) -> float:
        """The paths to the roots of all topics on which asking and asked brokers differ."""
        roots = self._problem.trees.roots[self._problem.trees.of]
        is_member = self._found.is_member
        differ = is_member[:, asked] != is_member[:, [position]]
        ways = self._hops[:, roots][asked].T + self._hops[position, roots][:, None]
        return float((differ * ways).sum())


def _links(structure: Structure) -> Flags:
    """(positions, positions): whether a link exists in either direction."""
    found = np.zeros((structure.size, structure.size), np.bool_)
    for position in range(structure.size):
        found[position, list(structure.neighbours(position))] = True
    return found | found.T
