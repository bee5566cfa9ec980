"""Plans for users: savings equal messages saved, and rules are kept."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import numpy as np
import pytest

from shoal.overlays.dynatops.planning.advising.choosing import PlanLimits
from shoal.overlays.dynatops.planning.advising.moving import (
    HANDOVER,
    AdvisedMove,
    join_ways,
    plan_moves,
)
from shoal.overlays.dynatops.planning.crowd import PlannedCrowd, User
from shoal.overlays.dynatops.planning.problem import Mapping, PlacementProblem, trees_of
from shoal.overlays.dynatops.structures.chord import Chord
from shoal.overlays.dynatops.structures.structure import route
from tests.overlays.dynatops.planning.drawing import draw_mapping, draw_problem, draw_users

RING = Chord(12)


def crowd_of(problem: PlacementProblem, mapping: Mapping, users: list[User]) -> PlannedCrowd:
    return PlannedCrowd(problem, mapping, users, problem.trees.depths)


def planned(
    problem: PlacementProblem, crowd: PlannedCrowd, limits: PlanLimits
) -> list[AdvisedMove]:
    hops = trees_of(RING, range(12)).depths
    return plan_moves(crowd, limits, join_ways(hops, problem.trees))


def cost(
    problem: PlacementProblem, mapping: Mapping, users: list[User], broker_of: list[int]
) -> float:
    """Hops of all publications, and weighted delays to subscribing brokers, over their routes."""
    total = 0.0
    for topic, row in enumerate(problem.trees.of):
        brokers = {b for b, user in zip(broker_of, users, strict=True) if topic in user.topics}
        root = int(problem.trees.roots[row])
        ways = [route(RING, root, mapping[broker]) for broker in brokers]
        hops = {hop for way in ways for hop in pairwise(way)}
        delay = sum(len(way) - 1 for way in ways)
        weight = float(problem.publications[topic])
        total += weight * (len(hops) + problem.delay_weight * delay)
    return total


@pytest.mark.parametrize("seed", range(10))
def test_gains_and_prices_equal_counted_messages(seed: int) -> None:
    random = Random(seed)
    problem, mapping = draw_problem(RING, random), draw_mapping(12, random)
    users = draw_users(problem, random, 80)
    crowd = crowd_of(problem, mapping, users)
    before = [user.broker for user in users]
    limits = PlanLimits(least_gain=10.0, load_weight=0.5)
    moves = planned(problem, crowd, limits)
    after = list(before)
    for move in moves:
        assert before[move.user] == move.source != move.target
        assert not users[move.user].is_pinned
        after[move.user] = move.target
    assert crowd.broker_of == after
    now = cost(problem, mapping, users, after)
    for move in moves:
        without = list(after)
        without[move.user] = move.source
        gain = cost(problem, mapping, users, without) - now
        assert move.gain == pytest.approx(gain)
        assert move.price >= HANDOVER
        assert move.gain - move.price > 10.0
    if moves:
        assert cost(problem, mapping, users, before) > now


def test_a_budget_keeps_the_most_useful_moves() -> None:
    random = Random(3)
    problem, mapping = draw_problem(RING, random), draw_mapping(12, random)
    users = draw_users(problem, random, 80)
    free = planned(problem, crowd_of(problem, mapping, users), PlanLimits())
    few = planned(problem, crowd_of(problem, mapping, users), PlanLimits(most=3))
    assert len(free) > 3 >= len(few) > 0
    assert not planned(problem, crowd_of(problem, mapping, users), PlanLimits(most=0))


def test_users_stay_in_their_region_and_within_capacities() -> None:
    moved = 0
    for seed in range(8):
        random = Random(seed)
        problem, mapping = draw_problem(RING, random), draw_mapping(12, random)
        users = draw_users(problem, random, 80)
        crowd = crowd_of(problem, mapping, users)
        regions = [number // 4 for number in range(12)]
        before = list(crowd.loads)
        rooms = [load + random.randint(0, 3) for load in before]
        moves = planned(problem, crowd, PlanLimits(regions=regions, rooms=rooms))
        moved += len(moves)
        assert all(regions[move.source] == regions[move.target] for move in moves)
        assert all(load <= room for load, room in zip(crowd.loads, rooms, strict=True))
    assert moved > 20


def test_an_overloaded_broker_is_relieved_at_any_savings() -> None:
    users = [User(frozenset([0]), 0) for _ in range(4)]
    problem = draw_problem(RING, Random(1))
    problem = problem._replace(publications=np.zeros(problem.topics))
    crowd = crowd_of(problem, range(12), users)
    rooms = [2.0, *[1.0] * 11]
    moves = planned(problem, crowd, PlanLimits(rooms=rooms))
    assert len(moves) == 2
    assert all(move.is_forced for move in moves)
    assert crowd.loads[0] == 2


def test_similar_users_come_together() -> None:
    """Of two brokers with the same two kinds of users each gets one kind."""
    kinds = [frozenset([0, 1]), frozenset([2, 3])]
    users = [User(kinds[number % 2], number // 2 % 2) for number in range(20)]
    problem = PlacementProblem(
        trees_of(RING, [5, 6, 7, 8]), np.zeros((12, 4), np.bool_), np.full(4, 1_000.0)
    )
    crowd = crowd_of(problem, range(12), users)
    planned(problem, crowd, PlanLimits(load_weight=0.1, regions=[0, 0, *range(1, 11)]))
    assert [set(np.flatnonzero(row)) for row in crowd.problem.wanted[:2]] in (
        [{0, 1}, {2, 3}],
        [{2, 3}, {0, 1}],
    )
