"""Users at brokers: their topics, and the change of notification costs by their moves.

Source: DYNATOPS, sections 4 and 5.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from shoal.overlays.dynatops.planning import kernels
from shoal.overlays.dynatops.planning.costs import standing
from shoal.overlays.dynatops.planning.problem import Amounts, PlacementProblem


class User(NamedTuple):
    """A user's topics and broker, and whether it is pinned."""

    topics: frozenset[int]
    broker: int
    is_pinned: bool = False


class PlannedCrowd:
    """The users' brokers, and the resulting notification cost.

    The cost is Eq. 5 with the messages to subscribing brokers, as moves change their number: the
    hops of trees, and the delays of subscribing brokers.
    """

    def __init__(
        self,
        problem: PlacementProblem,
        mapping: Sequence[int],
        users: Sequence[User],
        apart: Amounts,
    ) -> None:
        """`apart`: (rows, positions), how far each is from its root."""
        self.users = users
        self.broker_of = [user.broker for user in users]
        self.served: list[set[int]] = [set() for _ in range(problem.brokers)]
        self.loads = [0] * problem.brokers
        self.counts = np.zeros((problem.brokers, problem.topics), np.int32)
        for user in users:
            self.loads[user.broker] += len(user.topics)
            for topic in user.topics:
                self.counts[user.broker, topic] += 1
                self.served[user.broker].add(topic)
        self.mapping = mapping
        self._problem = problem._replace(wanted=self.counts > 0)
        found = standing(self._problem, mapping)
        self._below, self._is_member = found.below, found.is_member
        self._weights = problem.publications
        self._apart = problem.delay_weight * apart

    @property
    def problem(self) -> PlacementProblem:
        """The placement problem of the brokers' present topics."""
        return self._problem._replace(wanted=self.counts > 0)

    def at(self, broker: int) -> list[int]:
        """The users that are there."""
        return [number for number, each in enumerate(self.broker_of) if each == broker]

    def move(self, number: int, target: int) -> float:
        """Move a user there; returns the increase of the notification cost."""
        source, topics = self.broker_of[number], self.users[number].topics
        self.broker_of[number] = target
        self.loads[source] -= len(topics)
        self.loads[target] += len(topics)
        change = 0.0
        for topic in topics:
            self.counts[source, topic] -= 1
            self.counts[target, topic] += 1
            if not self.counts[source, topic]:
                self.served[source].discard(topic)
                change += self._turn(source, topic)
            if self.counts[target, topic] == 1:
                self.served[target].add(topic)
                change += self._turn(target, topic)
        return change

    def _turn(self, broker: int, topic: int) -> float:
        trees, position = self._problem.trees, self.mapping[broker]
        hops = kernels.turn(
            trees.of, trees.roots, trees.parents, self._below, self._is_member, topic, position
        )
        step = 1 if self._is_member[topic, position] else -1
        apart = float(self._apart[trees.of[topic], position])
        return float(self._weights[topic]) * (hops + step * apart)
