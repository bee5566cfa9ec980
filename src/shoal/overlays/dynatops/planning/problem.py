"""The placement problem: positions, the brokers' topics, and the topics' publication rates.

Brokers, positions and topics are numbers here. A mapping has the position of each broker.

Source: DYNATOPS, section 5.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from shoal.overlays.dynatops.structures.structure import Structure

Numbers = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]
Amounts = npt.NDArray[np.float64]
# The position of each broker.
Mapping = Sequence[int]


class TopicTrees(NamedTuple):
    """The routing trees of those positions that are roots of topics, a row each.

    of       (topics) the row of each topic
    roots    (rows) the position where each begins
    parents  (rows, positions) from where each position is reached; the root from itself
    order    (rows, positions) the positions, each behind the one it is reached from
    depths   (rows, positions) how many hops each is from the root
    """

    of: Numbers
    roots: Numbers
    parents: Numbers
    order: Numbers
    depths: Amounts

    def of_roots(self, roots: Sequence[int]) -> TopicTrees:
        """The trees of topics with these roots, of those of all positions (`trees_of`)."""
        rows, of = np.unique(np.array(roots, np.int32), return_inverse=True)
        trees = (self.parents[rows], self.order[rows], self.depths[rows])
        return TopicTrees(of.astype(np.int32), rows, *trees)


class PlacementProblem(NamedTuple):
    """Input of a placement.

    trees         of the topics
    wanted        (brokers, topics) whether a broker subscribes to a topic
    publications  (topics) expected number before the next plan, Eq. 3
    round_trips   (brokers, brokers) in units of their mean, so that with a `delay_weight` of 1 a
                  hop weighs as much as a relay; None: a hop between any two is 1
    delay_weight  w_d of Eq. 5
    """

    trees: TopicTrees
    wanted: Flags
    publications: Amounts
    round_trips: Amounts | None = None
    delay_weight: float = 1.0

    @property
    def brokers(self) -> int:
        return len(self.wanted)

    @property
    def topics(self) -> int:
        return len(self.publications)


def trees_of(structure: Structure, roots: Sequence[int]) -> TopicTrees:
    """The trees of topics with these roots."""
    *_, trees = growing_trees(structure, roots)
    assert trees is not None
    return trees


def growing_trees(structure: Structure, roots: Sequence[int]) -> Iterator[TopicTrees | None]:
    """The same, last; before that None for each tree, so that no step takes longer than one."""
    different = sorted(set(roots))
    shape = len(different), structure.size
    parents, depths = np.empty(shape, np.int32), np.zeros(shape)
    order = np.empty(shape, np.int32)
    for row, root in enumerate(different):
        parents[row] = structure.routing_tree(root)
        # Each round reaches the next hop; those that are at the root stay there.
        at = np.arange(structure.size, dtype=np.int32)
        while (away := at != root).any():
            depths[row] += away
            at = parents[row][at]
        order[row] = np.argsort(depths[row], kind="stable")
        yield None
    rows = {root: row for row, root in enumerate(different)}
    yield TopicTrees(
        of=np.array([rows[root] for root in roots], np.int32),
        roots=np.array(different, np.int32),
        parents=parents,
        order=order,
        depths=depths,
    )


def inverse(mapping: Mapping) -> list[int]:
    """The broker at each position."""
    brokers = [0] * len(mapping)
    for broker, position in enumerate(mapping):
        brokers[position] = broker
    return brokers
