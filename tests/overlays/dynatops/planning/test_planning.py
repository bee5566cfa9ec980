"""Plans: the paper's example in numbers, and compiled costs against the paper's definitions."""

from __future__ import annotations

from itertools import pairwise, permutations
from random import Random

import numpy as np
import pytest

from shoal.overlays.dynatops.planning.bound import reconfiguration_cost, smoothed_rate
from shoal.overlays.dynatops.planning.costs import (
    after_swap,
    broker_costs,
    moved,
    notification_cost,
    standing,
    swap_costs,
)
from shoal.overlays.dynatops.planning.greedy import (
    improvements,
    is_worth_a_look,
    propose,
)
from shoal.overlays.dynatops.planning.problem import Mapping, PlacementProblem, inverse, trees_of
from shoal.overlays.dynatops.structures.chord import Chord
from shoal.overlays.dynatops.structures.prefixes import QuadGrid, tapestry
from shoal.overlays.dynatops.structures.structure import Structure, route
from tests.examples import at_length, one_in

NAMES = "ABCDEFGH"
# The positions of figure 2a: 0 to 7.
MAPPING = ["ABECGDHF".index(name) for name in NAMES]


def figure_2(publications: float = 1.0, delay_weight: float = 1.0) -> PlacementProblem:
    wanted = [[name in "ABEG", name in "CDFH"] for name in NAMES]
    return PlacementProblem(
        trees=trees_of(Chord(8), [1, 4]),
        wanted=np.array(wanted),
        publications=np.full(2, publications),
        delay_weight=delay_weight,
    )


def stands(mapping: Mapping) -> str:
    return "".join(NAMES[broker] for broker in inverse(mapping))


def test_figure_2_costs() -> None:
    problem = figure_2()
    found = standing(problem, MAPPING)
    assert (found.relays, found.delay, notification_cost(problem, MAPPING)) == (5, 13, 18)
    costs = dict(zip(NAMES, broker_costs(problem, MAPPING).tolist(), strict=True))
    assert costs == {"A": 4, "B": 0, "C": 4, "D": 2, "E": 2, "F": 3, "G": 2, "H": 1}


def test_figure_2_swaps() -> None:
    steps = list(improvements(figure_2(), MAPPING))
    assert [(NAMES[one] + NAMES[other], cost) for (one, other), _, cost in steps] == [
        ("AC", 9),
        ("FG", 8),
        ("DG", 7),
    ]
    assert stands(steps[-1].mapping) == "CBEAFGHD"
    first_topic = figure_2()._replace(publications=np.array([1.0, 0.0]))
    assert standing(first_topic, steps[-1].mapping).relays == 0
    assert standing(first_topic, steps[-1].mapping).delay == 3


@pytest.mark.parametrize(("brokers", "price"), [(0, 0), (2, 38), (4, 68), (5, 83), (8, 128)])
def test_figure_2_prices(brokers: int, price: float) -> None:
    assert reconfiguration_cost(8, 2, brokers) == price


@pytest.mark.parametrize(
    ("publications", "steps"),
    [(4, 0), (5, 1), (22, 1), (23, 3), *at_length([(1, 0), (100, 3)])],
)
def test_figure_2_stops_when_no_swap_pays(publications: int, steps: int) -> None:
    assert len(propose(figure_2(publications), MAPPING).steps) == steps


def test_figure_2_without_delays() -> None:
    problem = figure_2(delay_weight=0)
    assert notification_cost(problem, MAPPING) == 5
    assert [step.cost for step in improvements(problem, MAPPING)] == [0]


def test_planning_waits_for_costs_above_a_tenth_of_the_highest_price() -> None:
    """A tenth of the highest price: 12.8 for 8 brokers and 2 topics; and the paper's sizes."""
    assert not is_worth_a_look(figure_2(), 12.8, 0.1)
    assert is_worth_a_look(figure_2(), 12.9, 0.1)
    assert round(0.1 * reconfiguration_cost(100, 1_000, 100)) == 66_890
    assert round(0.1 * reconfiguration_cost(1_200, 1_200, 1_200)) == 1_485_625
    assert smoothed_rate(10, 20) == 13


# --- against the paper's definitions ----------------------------------------------------------


def draw(
    structure: Structure, random: Random, *, is_measured: bool
) -> tuple[PlacementProblem, Structure, list[int]]:
    brokers, topics = structure.size, random.randint(1, 12)
    roots = [random.randrange(brokers) for _ in range(topics)]
    share = random.random()
    wanted = [[random.random() < share for _ in range(topics)] for _ in range(brokers)]
    round_trips = [[random.randint(1, 9) / 4 for _ in range(brokers)] for _ in range(brokers)]
    problem = PlacementProblem(
        trees=trees_of(structure, roots),
        wanted=np.array(wanted),
        publications=np.array([float(random.choice((0, 1, 2, 7))) for _ in range(topics)]),
        round_trips=np.array(round_trips) if is_measured else None,
        delay_weight=random.choice((0.0, 0.5, 1.0, 3.0)),
    )
    return problem, structure, roots


def defined_costs(
    problem: PlacementProblem, structure: Structure, roots: list[int], mapping: Mapping
) -> list[float]:
    """Eq. 10 to 12, broker by broker, from the routes of publications."""
    at = inverse(mapping)
    costs = [0.0] * len(mapping)
    for topic, root in enumerate(roots):
        members = [mapping[b] for b in range(len(mapping)) if problem.wanted[b, topic]]
        ways = [route(structure, root, member) for member in members]
        for position in {each for way in ways for each in way} - {root, *members}:
            costs[at[position]] += problem.publications[topic]
        for member, way in zip(members, ways, strict=True):
            hops = list(pairwise(way))
            apart = float(len(hops))
            if problem.round_trips is not None:
                apart = sum(problem.round_trips[at[one], at[other]] for one, other in hops)
            costs[at[member]] += problem.delay_weight * problem.publications[topic] * apart
    return costs


STRUCTURES = [
    *(Chord(size) for size in (1, 2, 5, 8, 21, 40)),
    tapestry(21, seed=3),
    tapestry(40, seed=4, distance=lambda one, other: abs(one - other)),
    QuadGrid(4),
]


@pytest.mark.parametrize("is_measured", [False, True])
@pytest.mark.parametrize("structure", one_in(3, STRUCTURES))
def test_costs_and_swaps_equal_the_definitions(structure: Structure, is_measured: bool) -> None:
    for seed in range(10):
        random = Random(seed)
        problem, structure, roots = draw(structure, random, is_measured=is_measured)
        mapping = list(range(structure.size))
        random.shuffle(mapping)
        costs = defined_costs(problem, structure, roots, mapping)
        assert broker_costs(problem, mapping).tolist() == pytest.approx(costs)
        assert notification_cost(problem, mapping) == pytest.approx(sum(costs))
        found = standing(problem, mapping)
        swapped, other = random.randrange(structure.size), random.randrange(structure.size)
        changes = swap_costs(problem, found, swapped)
        for position in range(structure.size):
            after = _swapped(mapping, swapped, position)
            cost = sum(defined_costs(problem, structure, roots, after))
            assert changes[position] == pytest.approx(cost - sum(costs), abs=1e-9), position
        followed = after_swap(problem, found, swapped, other)
        expected = standing(problem, _swapped(mapping, swapped, other))
        for one, counted in zip(followed, expected, strict=True):
            assert np.allclose(one, counted)


def _swapped(mapping: list[int], left: int, right: int) -> list[int]:
    turned = {left: right, right: left}
    return [turned.get(position, position) for position in mapping]


@pytest.mark.parametrize("is_measured", [False, True])
def test_each_step_is_better_and_the_last_is_a_local_optimum(is_measured: bool) -> None:
    for seed in range(20):
        random = Random(seed)
        problem, structure, roots = draw(Chord(16), random, is_measured=is_measured)
        mapping: Mapping = list(range(16))
        cost = notification_cost(problem, mapping)
        for step in improvements(problem, mapping):
            assert step.cost < cost
            assert len(moved(mapping, step.mapping)) == 2
            assert step.cost == pytest.approx(
                sum(defined_costs(problem, structure, roots, step.mapping))
            )
            mapping, cost = step.mapping, step.cost
        costs = broker_costs(problem, mapping)
        worst = mapping[int(costs.argmax())]
        assert swap_costs(problem, standing(problem, mapping), worst).min() >= -1e-6


def test_no_swap_that_costs_more_than_it_gains_is_proposed() -> None:
    for seed in range(20):
        random = Random(seed)
        problem, _structure, _ = draw(Chord(16), random, is_measured=False)
        problem = problem._replace(publications=50 * problem.publications)
        mapping = list(range(16))
        found = propose(problem, mapping)
        after = notification_cost(problem, found.mapping)
        assert found.benefit == pytest.approx(notification_cost(problem, mapping) - after)
        price = reconfiguration_cost(16, problem.topics, len(moved(mapping, found.mapping)))
        assert found.cost == price
        assert found.gain > 0 or not found.steps


def test_with_delays_only_costs_are_those_of_an_assignment_problem() -> None:
    """With delays only, each broker's cost depends on its own position."""
    for seed in range(5):
        random = Random(seed)
        problem, _structure, _roots = draw(Chord(6), random, is_measured=False)
        depths = problem.trees.depths[problem.trees.of]
        waits = np.einsum("bt,t,tp->bp", problem.wanted, problem.publications, depths)
        best = min(
            sum(waits[broker, position] for broker, position in enumerate(mapping))
            for mapping in permutations(range(6))
        )
        problem = problem._replace(delay_weight=1e9)
        cheapest = min(notification_cost(problem, mapping) for mapping in permutations(range(6)))
        assert cheapest / 1e9 == pytest.approx(best, abs=1e-3)
