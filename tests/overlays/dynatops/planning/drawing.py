"""Random planning problems."""

from __future__ import annotations

from random import Random

import numpy as np

from shoal.overlays.dynatops.planning.crowd import User
from shoal.overlays.dynatops.planning.problem import PlacementProblem, trees_of
from shoal.overlays.dynatops.structures.structure import Structure


def draw_problem(
    structure: Structure, random: Random, *, is_measured: bool = False
) -> PlacementProblem:
    """Brokers that want some of up to twelve topics, of which some have more publications."""
    size, topics = structure.size, random.randint(2, 12)
    share = random.uniform(0.1, 0.6)
    round_trips = [[random.randint(1, 9) / 4 for _ in range(size)] for _ in range(size)]
    return PlacementProblem(
        trees=trees_of(structure, [random.randrange(size) for _ in range(topics)]),
        wanted=np.array([[random.random() < share for _ in range(topics)] for _ in range(size)]),
        publications=np.array([float(random.choice((0, 10, 20, 70))) for _ in range(topics)]),
        round_trips=np.array(round_trips) if is_measured else None,
        delay_weight=random.choice((0.0, 0.5, 1.0)),
    )


def draw_users(problem: PlacementProblem, random: Random, count: int) -> list[User]:
    """Users of as many kinds as topics; a tenth are pinned."""
    users = []
    for _ in range(count):
        kind = random.randrange(problem.topics)
        others = random.sample(range(problem.topics), random.randint(0, 2))
        broker = random.randrange(problem.brokers)
        users.append(User(frozenset([kind, *others]), broker, random.random() < 0.1))
    return users


def draw_mapping(size: int, random: Random) -> list[int]:
    return random.sample(range(size), size)
