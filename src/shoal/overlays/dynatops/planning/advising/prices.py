"""Price of a reconfiguration in messages: by the paper's bound, or as brokers here send them.

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
12.0

Source: DYNATOPS, section 5.1.2 and Eq. 7; the others are ours.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shoal.overlays.dynatops.planning.bound import reconfiguration_cost
from shoal.overlays.dynatops.planning.problem import (
    Amounts,
    Flags,
    Mapping,
    PlacementProblem,
    inverse,
    trees_of,
)
from shoal.overlays.dynatops.structures.structure import Structure

# An introduction from each end of a link that comes up, and a question before one ends.
_INTRODUCTIONS = 2
_ENDS = 1
# Brokers that are linked to all: the manager of views, and its successor.
_MANAGERS = 2


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
    """About what brokers send (`change_messages`), move by move; `hops` (from, to) if known.

    Every broker gets the view. One that moves gets the rows of topics from the broker that was
    there, and links that its new position has and its old one has not.
    """
    size = structure.size
    if hops is None:
        hops = trees_of(structure, range(size)).depths
    linked = _linked(structure)
    # Products of floats are much faster, and exact.
    both = linked.astype(float)
    # (positions, positions): links of one that the other lacks.
    more = both.sum(axis=1)[None, :] - both @ both.T
    moving = (hops + (_INTRODUCTIONS + _ENDS) * more)[list(start), :]
    return Prices(float(size - 1), _but_none_at(moving, start), start)


def change_messages(
    structure: Structure, before: Mapping, after: Mapping, hops: Amounts | None = None
) -> int:
    """The messages that brokers send to change from one mapping to another (`View.base`); `hops`
    (from, to) if known.

    Brokers are numbered by name. A view goes to each, the rows of topics go from each former broker
    of a position to the new one, over the new paths; links that come up are introduced from both
    ends, and for one that is not needed any more the end is asked for.
    """
    if list(before) == list(after):
        return 0
    if hops is None:
        hops = trees_of(structure, range(structure.size)).depths
    former = inverse(before)
    handed = sum(
        int(hops[after[former[position]], position])
        for broker, position in enumerate(after)
        if former[position] != broker
    )
    old, new = _links(structure, before), _links(structure, after)
    links = _INTRODUCTIONS * len(new - old) + _ENDS * len(old - new)
    return structure.size - 1 + handed + links


def _linked(structure: Structure) -> Flags:
    """(positions, positions): which have a link with each other."""
    linked = np.zeros((structure.size, structure.size), np.bool_)
    for position in range(structure.size):
        linked[position, list(structure.neighbours(position))] = True
    return linked | linked.T


def _links(structure: Structure, mapping: Mapping) -> set[tuple[int, int]]:
    """Pairs of brokers that have a link."""
    brokers = inverse(mapping)
    pairs = {
        (min(one, other), max(one, other))
        for position, one in enumerate(brokers)
        for other in (brokers[at] for at in structure.neighbours(position))
    }
    managers = range(min(_MANAGERS, structure.size))
    everyone = range(structure.size)
    pairs.update((min(one, other), max(one, other)) for one in managers for other in everyone)
    return {pair for pair in pairs if pair[0] != pair[1]}


def _but_none_at(moving: Amounts, start: Mapping) -> Amounts:
    moving[np.arange(len(moving)), list(start)] = 0.0
    return moving
