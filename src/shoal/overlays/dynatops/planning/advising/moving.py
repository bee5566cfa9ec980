"""Moves of users to other brokers, as far as they pay.

Users choose (`choosing.py`). Then moves that save less than they cost are taken back, the least
useful first. If more are left than allowed, they are made anew from the beginning: users one by
one, or together those of a broker that have a topic in common, the highest saving for each user
first. A move off an overloaded broker is worth its price whatever it saves.

Source: ours, on DYNATOPS, section 4.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from shoal.overlays.dynatops.planning.advising.choosing import PlanLimits, settle
from shoal.overlays.dynatops.planning.costs import LEAST
from shoal.overlays.dynatops.planning.crowd import PlannedCrowd
from shoal.overlays.dynatops.planning.problem import Amounts, TopicTrees

# To the user, from it to the other broker, from there for its session, and this.
HANDOVER = 4.0


class AdvisedMove(NamedTuple):
    """A user that goes from one broker to another.

    gain      additional cost of notifications if it stayed: users that only together make a broker
              cease to want a topic save that each
    price     messages, for handing it over and for trees; these are for all that only together make
              a broker cease to want a topic, too
    shared    number of its topics that the new broker wants for others
    is_forced whether its broker has more than it can hold
    """

    user: int
    source: int
    target: int
    gain: float
    price: float
    shared: int
    is_forced: bool


def plan_moves(crowd: PlannedCrowd, limits: PlanLimits, ways: Amounts) -> list[AdvisedMove]:
    """The users that should move, by number; they have moved in `crowd` then.

    `ways`: (topics, positions), number of messages by which a position joins a topic's tree.
    """
    return _Moves(crowd, limits, ways).plan()


def join_ways(hops: Amounts, trees: TopicTrees) -> Amounts:
    """(topics, positions): to the root, and down the tree; `hops` are from each to each."""
    roots = trees.roots[trees.of]
    return hops[:, roots].T + hops[roots, :]


class _Moves:
    """The users' former brokers, and the value of their moves."""

    def __init__(self, crowd: PlannedCrowd, limits: PlanLimits, ways: Amounts) -> None:
        self._crowd = crowd
        self._limits = limits
        self._ways = ways
        self._start = list(crowd.broker_of)
        self._rooms = limits.rooms_of(len(crowd.loads))
        self._overfull = {
            broker for broker, load in enumerate(crowd.loads) if load > self._rooms[broker]
        }

    def plan(self) -> list[AdvisedMove]:
        settle(self._crowd, self._limits)
        broker_of = self._crowd.broker_of
        moved = [user for user, broker in enumerate(broker_of) if broker != self._start[user]]
        left = self._without_poor(moved)
        if self._limits.most is not None and len(left) > self._limits.most:
            left = self._without_poor(self._best_of(left, self._limits.most))
        return [self._described(user) for user in sorted(left)]

    def _without_poor(self, moved: Sequence[int]) -> list[int]:
        """Take moves back until each that is left pays."""
        left = list(moved)
        while True:
            net = {user: self._net(user) for user in left}
            kept = []
            for user in sorted(left, key=lambda user: (net[user], user)):
                # Moves of others meanwhile count.
                if self._net(user) <= max(self._limits.least_gain, LEAST):
                    self._crowd.move(user, self._start[user])
                else:
                    kept.append(user)
            if len(kept) == len(left):
                return left
            left = kept

    def _net(self, user: int) -> float:
        """Saving of a move beyond its price; unbounded if it cannot be taken back."""
        crowd = self._crowd
        size = len(crowd.users[user].topics)
        if crowd.loads[self._start[user]] + size > self._rooms[self._start[user]]:
            return math.inf
        return self._gain(user) - self._price(user)

    def _gain(self, user: int) -> float:
        """Additional cost if this user were at its former broker."""
        target = self._crowd.broker_of[user]
        change = self._crowd.move(user, self._start[user])
        self._crowd.move(user, target)
        return change

    def _price(self, user: int) -> float:
        """The handover, and messages to trees: for the topics that a broker has for it alone."""
        crowd = self._crowd
        source, target = self._start[user], crowd.broker_of[user]
        told = 0.0
        for topic in crowd.users[user].topics:
            if crowd.counts[target, topic] == 1:
                told += float(self._ways[topic, crowd.mapping[target]])
            if not crowd.counts[source, topic]:
                told += float(self._ways[topic, crowd.mapping[source]])
        return HANDOVER + told

    def _described(self, user: int) -> AdvisedMove:
        crowd, source = self._crowd, self._start[user]
        target, topics = crowd.broker_of[user], crowd.users[user].topics
        shared = sum(int(crowd.counts[target, topic]) > 1 for topic in topics)
        is_forced = source in self._overfull
        return AdvisedMove(
            user, source, target, self._gain(user), self._price(user), shared, is_forced
        )

    # --- a budget -----------------------------------------------------------------------------

    def _best_of(self, moved: Sequence[int], most: int) -> list[int]:
        """Take all moves back, and make at most `most` again."""
        targets = {user: self._crowd.broker_of[user] for user in moved}
        for user in moved:
            self._crowd.move(user, self._start[user])
        groups: dict[tuple[int, int], list[int]] = {}
        for user in moved:
            for topic in self._crowd.users[user].topics:
                groups.setdefault((self._start[user], topic), []).append(user)
        bundles = [[user] for user in moved] + [each for each in groups.values() if len(each) > 1]
        # Earlier bundles change a bundle's value: it is computed again when it is taken.
        queue = [(-self._worth(each, targets), number) for number, each in enumerate(bundles)]
        heapq.heapify(queue)
        gone: dict[int, None] = {}
        while queue and len(gone) < most:
            _, number = heapq.heappop(queue)
            bundle = [user for user in bundles[number] if user not in gone]
            worth = self._worth(bundle, targets)
            if worth <= 0 or len(gone) + len(bundle) > most:
                continue
            if queue and -worth > queue[0][0]:
                heapq.heappush(queue, (-worth, number))
                continue
            for user in bundle:
                self._crowd.move(user, targets[user])
                gone[user] = None
        return list(gone)

    def _worth(self, bundle: Sequence[int], targets: Mapping[int, int]) -> float:
        """Saving of the bundle beyond its price, for each user; unbounded if one must move."""
        crowd = self._crowd
        if not bundle:
            return -math.inf
        must = any(
            crowd.loads[self._start[user]] > self._rooms[self._start[user]] for user in bundle
        )
        change = sum(crowd.move(user, targets[user]) for user in bundle)
        price = sum(self._price(user) for user in bundle)
        has_room = all(crowd.loads[targets[user]] <= self._rooms[targets[user]] for user in bundle)
        for user in bundle:
            crowd.move(user, self._start[user])
        if not has_room:
            return -math.inf
        # A user that must move goes first, and alone.
        return math.inf if must and len(bundle) == 1 else (-change - price) / len(bundle)
