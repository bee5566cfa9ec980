"""Price of a reconfiguration in messages: by the paper's bound, or predicted from its steps.

A price has a fixed part as soon as any broker moves, as all are informed, and a part for each
broker that moves, which depends on its target.

>>> from shoal.overlays.dynatops.planning.problem import PlacementProblem, trees_of
>>> from shoal.overlays.dynatops.structures.chord import Chord
>>> wanted = np.array([[True, False], [False, True], [True, True], [False, False]])
>>> problem = PlacementProblem(trees_of(Chord(4), [0, 2]), wanted, np.ones(2))
>>> bounds = bounded_prices(problem, range(4))
>>> bounds.of([1, 0, 2, 3]), bounds.of(range(4))
(20.0, 0.0)
>>> predicted_prices(Chord(4), problem, range(4)).of([1, 0, 2, 3])
55.0

Source: DYNATOPS, section 5.1.2 and Eq. 7; the prediction is ours.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shoal.overlays.dynatops.planning.bound import reconfiguration_cost
from shoal.overlays.dynatops.planning.problem import (
    Amounts,
    Mapping,
    PlacementProblem,
    inverse,
    trees_of,
)
from shoal.overlays.dynatops.structures.structure import Structure

# The manager sends each broker four messages, and each acknowledges: the second plane begins, its
# trees are to be repaired, it is used, the first one ends.
_TO_ALL = 8
# To a moving broker besides, and back: its new position.
_TO_WHO_MOVES = 2


class Prices(NamedTuple):
    """Price of brokers at other positions than at `start`.

    fixed   once any of them moves
    moving  (brokers, positions) of a broker's move there; 0 at its present position
    start   present position of each
    """

    fixed: float
    moving: Amounts
    start: Mapping

    def of(self, mapping: Mapping) -> float:
        """The price of this mapping."""
        if list(mapping) == list(self.start):
            return 0.0
        return self.fixed + float(self.moving[np.arange(len(mapping)), list(mapping)].sum())


def no_prices(mapping: Mapping) -> Prices:
    """Brokers move for nothing."""
    return Prices(0.0, np.zeros((len(mapping), len(mapping))), mapping)


def bounded_prices(problem: PlacementProblem, start: Mapping) -> Prices:
    """Cst of Eq. 7, as its steps have it: every broker that moves costs the same."""
    size = problem.brokers
    fixed = float(size)
    each = reconfiguration_cost(size, problem.topics, 1) - fixed
    return Prices(fixed, _but_none_at(np.full((size, size), each), start), start)


def predicted_prices(
    structure: Structure, problem: PlacementProblem, start: Mapping, hops: Amounts | None = None
) -> Prices:
    """The messages that the steps of 5.1.2 send; `hops` (from, to) if they are known.

    A broker that moves to a position gets it from those that have it in their tables, and informs
    those in its own; it hands its trees over to its successor at the old position; and for each
    topic that it wants and the broker before it did not, or the reverse, a message goes to the
    topic's root and down the tree.
    """
    size = structure.size
    if hops is None:
        hops = trees_of(structure, range(size)).depths
    linked = np.zeros(size)
    for position in range(size):
        beside = list(structure.neighbours(position))
        linked[position] += len(beside)
        linked[beside] += 1
    roots = problem.trees.roots[problem.trees.of]
    # (positions, topics): to the root, and down again.
    ways = hops[:, roots] + hops[roots, :].T
    wanted = problem.wanted.astype(float)
    before = wanted[inverse(start)]
    # Topics that one of two wants: both sums, less twice what they have in common.
    mended = wanted @ ways.T + (before * ways).sum(axis=1) - 2 * wanted @ (before * ways).T
    # (brokers, positions): from the new position to the old one.
    handed_over = hops[:, list(start)].T
    moving = _TO_WHO_MOVES + linked + handed_over + mended
    return Prices(float(_TO_ALL * size), _but_none_at(moving, start), start)


def _but_none_at(moving: Amounts, start: Mapping) -> Amounts:
    moving[np.arange(len(moving)), list(start)] = 0.0
    return moving
