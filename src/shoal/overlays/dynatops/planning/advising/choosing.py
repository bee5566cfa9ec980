"""Targets of users' moves: by similarity and load, alone or in groups with a common topic.

Algorithm 1 handles one user at a time, and a broker wants a topic as long as one of its users does.
So two brokers with users of the same two kinds stay as they are, since each has all topics of both.
Users of one broker with a topic in common therefore choose as one, too, as if they were not there,
and move if that is cheaper.

Source: DYNATOPS, section 4, Algorithm 1; joint choices, and capacities, are ours.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from typing import NamedTuple

import numpy as np

from shoal.overlays.dynatops.planning.costs import LEAST
from shoal.overlays.dynatops.planning.crowd import PlannedCrowd
from shoal.overlays.dynatops.planning.placement import Served, best_broker
from shoal.overlays.dynatops.planning.problem import Amounts

# Users choose so often at most: similarity and load may chase each other.
ROUNDS = 5


class PlanLimits(NamedTuple):
    """Constraints on moves.

    most         number of users; None: any number
    least_gain   the least saving of each beyond its price, in messages
    load_weight  w_l: weight of load beside similarity
    regions      (brokers) users stay with brokers of the same number
    rooms        (brokers) number of users' subscriptions that each can hold
    """

    most: int | None = None
    least_gain: float = 0.0
    load_weight: float = 1.0
    regions: Sequence[int] | None = None
    rooms: Sequence[float] | None = None

    def rooms_of(self, size: int) -> list[float]:
        """The rooms of `size` brokers, unbounded by default."""
        return [math.inf] * size if self.rooms is None else list(self.rooms)


def settle(crowd: PlannedCrowd, limits: PlanLimits) -> None:
    """Let users choose, alone and together, until all stay."""
    choice = _Choice(crowd, limits)
    for _ in range(ROUNDS):
        alone = choice.alone()
        together = choice.together()
        if not (alone or together):
            return


class _Choice:
    """The brokers that users can see."""

    def __init__(self, crowd: PlannedCrowd, limits: PlanLimits) -> None:
        size = len(crowd.loads)
        self._crowd = crowd
        self._limits = limits
        self._rooms = limits.rooms_of(size)
        self._clusters = _clusters(limits, size)
        finite = [room for room in self._rooms if math.isfinite(room)]
        mean = sum(finite) / len(finite) if finite else 1.0
        # A broker with room for twice as many has half the load by as many.
        self._scales = [mean / room if 0 < room < math.inf else 1.0 for room in self._rooms]

    def alone(self) -> bool:
        """Move each user in turn; returns whether any moved."""
        crowd, has_changed = self._crowd, False
        for number, user in enumerate(crowd.users):
            if user.is_pinned:
                continue
            visible = self._visible(number)
            present = crowd.broker_of[number]
            if not visible:
                continue
            best = best_broker(user.topics, visible, self._limits.load_weight, present)
            if best != present:
                crowd.move(number, best)
                has_changed = True
        return has_changed

    def _visible(self, number: int) -> Mapping[int, Served]:
        """Topics and loads of the other brokers with room; and of the user's own, if it fits."""
        crowd = self._crowd
        present, topics = crowd.broker_of[number], crowd.users[number].topics
        found: dict[int, Served] = {}
        for broker in self._clusters[present]:
            load = crowd.loads[broker] - (len(topics) if broker == present else 0)
            if load + len(topics) > self._rooms[broker]:
                continue
            served: Set[int] = crowd.served[broker]
            if broker == present:
                served = {topic for topic in topics if crowd.counts[broker, topic] > 1}
            found[broker] = Served(served, round(load * self._scales[broker]))
        return found

    def together(self) -> bool:
        """Move, for each broker and topic, the users that have both in common.

        Returns whether any moved.
        """
        crowd, has_changed = self._crowd, False
        for broker in range(len(crowd.loads)):
            by_topic: dict[int, list[int]] = {}
            for number in crowd.at(broker):
                for topic in crowd.users[number].topics:
                    by_topic.setdefault(topic, []).append(number)
            for topic in sorted(by_topic, key=lambda topic: (len(by_topic[topic]), topic)):
                group = [each for each in by_topic[topic] if crowd.broker_of[each] == broker]
                if len(group) > 1 and not any(crowd.users[each].is_pinned for each in group):
                    has_changed |= self._group_goes(broker, group)
        return has_changed

    def _group_goes(self, present: int, group: Sequence[int]) -> bool:
        crowd = self._crowd
        size = sum(len(crowd.users[number].topics) for number in group)
        weights: dict[int, float] = {}
        counts: dict[int, int] = {}
        for number in group:
            topics = crowd.users[number].topics
            for topic in topics:
                weights[topic] = weights.get(topic, 0.0) + 1 / (len(topics) * len(group))
                counts[topic] = counts.get(topic, 0) + 1
        target = self._best_for(present, size, weights, counts)
        if target == present:
            return False
        change = sum(crowd.move(number, target) for number in group)
        if change < -LEAST:
            return True
        for number in group:
            crowd.move(number, present)
        return False

    def _best_for(
        self, present: int, size: int, weights: Mapping[int, float], counts: Mapping[int, int]
    ) -> int:
        """The broker with the highest mean utility for a group; its own if none is better."""
        crowd = self._crowd
        visible = np.array(self._clusters[present])
        topics = np.fromiter(weights, np.int64, len(weights))
        others = crowd.counts[np.ix_(visible, topics)]
        others[visible == present] -= np.fromiter(counts.values(), np.int32, len(counts))
        similarity: Amounts = (others > 0) @ np.fromiter(weights.values(), float, len(weights))
        loads = np.array([crowd.loads[broker] for broker in visible.tolist()], float)
        loads[visible == present] -= size
        has_room = loads + size <= np.array([self._rooms[broker] for broker in visible.tolist()])
        scaled = loads * np.array([self._scales[broker] for broker in visible.tolist()])
        utility = similarity - self._limits.load_weight * scaled / (scaled.sum() or 1.0)
        utility[~has_room] = -np.inf
        best = int(utility.argmax())
        here = float(utility[visible == present][0])
        return int(visible[best]) if utility[best] > here + LEAST else present


def _clusters(limits: PlanLimits, size: int) -> list[list[int]]:
    """Of each broker those that it sees."""
    if limits.regions is None:
        return [list(range(size))] * size
    by_region: dict[int, list[int]] = {}
    for broker, region in enumerate(limits.regions):
        by_region.setdefault(region, []).append(broker)
    return [by_region[region] for region in limits.regions]
