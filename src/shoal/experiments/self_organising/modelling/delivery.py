"""The overlay's tree during a run, and the costs of notifications and other messages in it.

A notification passes the smallest subtree with its publisher's broker and its subscribers', and
costs the sum of that subtree's brokers and links; any other message costs the link that it goes
over and the broker that takes it in.

>>> tree = DeliveryTree(3, [(0, 1), (0, 2)])
>>> costs = ModelLinkCosts([2, 2, 2], [[0, 1, 3], [1, 0, 4], [3, 4, 0]])
>>> tree.delivery(frozenset({1, 2}), costs)
(frozenset({0, 1, 2}), 10.0)
>>> tree.exchange((0, 1), (1, 2))
>>> tree.delivery(frozenset({1, 2}), costs)
(frozenset({1, 2}), 8.0)

Source: Cost and Interest, section 3.1 (Eq. 1).
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Sequence
from itertools import accumulate, chain, pairwise

import numpy as np
import numpy.typing as npt

from shoal.experiments.self_organising.modelling.workload import ModelLinkCosts


class DeliveryTree:
    """Brokers as numbers, and the links between them."""

    def __init__(self, brokers: int, links: Iterable[tuple[int, int]]) -> None:
        self.neighbours: list[list[int]] = [[] for _ in range(brokers)]
        for left, right in links:
            insort(self.neighbours[left], right)
            insort(self.neighbours[right], left)
        self._root_it()

    def _root_it(self) -> None:
        """Compute each broker's predecessor on the route from the first."""
        self._above = [-1] * len(self.neighbours)
        waiting = [0]
        for broker in waiting:  # grows while it is read
            for neighbour in self.neighbours[broker]:
                if neighbour != self._above[broker]:
                    self._above[neighbour] = broker
                    waiting.append(neighbour)

    @property
    def rows(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return the place of each broker's first neighbour (brokers + 1), and all brokers'
        neighbours (2 (brokers - 1)).
        """
        begin = list(accumulate(map(len, self.neighbours), initial=0))
        flat = list(chain.from_iterable(self.neighbours))
        return np.array(begin, np.int64), np.array(flat, np.int64)

    @property
    def links(self) -> list[tuple[int, int]]:
        return [(above, broker) for broker, above in enumerate(self._above) if above >= 0]

    def exchange(self, old: tuple[int, int], new: tuple[int, int]) -> None:
        """One link for another; the result must be a tree again."""
        for left, right in (old, old[::-1]):
            self.neighbours[left].remove(right)
        for left, right in (new, new[::-1]):
            insort(self.neighbours[left], right)
        self._root_it()

    def delivery(
        self, members: frozenset[int], costs: ModelLinkCosts
    ) -> tuple[frozenset[int], float]:
        """Return the brokers that one notification for these passes, and its cost (Eq. 1)."""
        above = self._above
        # Of each broker on a way to the first: how many of those below it are, and one of these.
        below: dict[int, int] = {}
        one: dict[int, int] = {}
        for broker in members:
            came = -1
            while broker not in below:
                below[broker] = came >= 0
                one[broker] = came
                came, broker = broker, above[broker]
                if broker < 0:
                    break
            else:
                below[broker] += came >= 0
        # Nodes above the point where all routes have met do not belong to the tree.
        top = 0
        while below[top] == 1 and top not in members:
            del below[top]
            top = one[top]
        cost = 0.0
        for broker in sorted(below):
            cost += costs.brokers[broker]
            if broker != top:
                cost += costs.links[broker][above[broker]]
        return frozenset(below), cost

    def way(self, brokers: Sequence[int], costs: ModelLinkCosts) -> float:
        """Return the cost of a message from the first of these brokers to the last."""
        return sum(
            costs.links[sender][receiver] + costs.brokers[receiver]
            for sender, receiver in pairwise(brokers)
        )
