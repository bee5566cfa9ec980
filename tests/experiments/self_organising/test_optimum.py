"""Costs of trees, and the best tree, against literal definitions."""

from __future__ import annotations

import itertools
import random

import pytest

from shoal.experiments.self_organising.modelling.optimum import (
    MAX_BROKERS_FOR_ALL,
    OptimumProblem,
    best_known,
    local_optimum,
    optimum,
    regret,
)

Link = tuple[int, int]


def delivery_tree(tree: list[Link], members: set[int]) -> tuple[set[int], set[Link]]:
    """3.1: remove leaves that are no members, until all leaves are."""
    links, brokers = set(tree), {broker for link in tree for broker in link} | members
    while True:
        ends = [end for link in links for end in link]
        idle = {broker for broker in brokers - members if ends.count(broker) <= 1}
        if not idle:
            return brokers, links
        brokers -= idle
        links = {link for link in links if not idle & set(link)}


def naive_cost(
    problem: OptimumProblem, tree: list[Link], demands: list[tuple[set[int], float]]
) -> float:
    """Eq. 1 and 2."""
    total = 0.0
    for members, count in demands:
        brokers, links = delivery_tree(tree, members)
        total += count * sum(problem.processing[broker] for broker in brokers)
        total += count * sum(problem.links[link] for link in links)
    return total


def random_tree(generator: random.Random, size: int) -> list[Link]:
    return [(generator.randrange(broker), broker) for broker in range(1, size)]


def random_problem(
    generator: random.Random, size: int
) -> tuple[OptimumProblem, list[tuple[set[int], float]]]:
    processing = [generator.uniform(0, 10) for _ in range(size)]
    links = [[0.0] * size for _ in range(size)]
    for left, right in itertools.combinations(range(size), 2):
        links[left][right] = links[right][left] = generator.uniform(0, 10)
    demands: list[tuple[set[int], float]] = [
        (
            set(generator.sample(range(size), generator.randint(1, min(size, 5)))),
            generator.randint(1, 9),
        )
        for _ in range(6)
    ]
    return OptimumProblem(processing, links, demands), demands


def is_tree(links: list[Link], size: int) -> bool:
    group = list(range(size))
    for left, right in links:
        if group[left] == group[right]:
            return False
        group = [group[left] if each == group[right] else each for each in group]
    return len(set(group)) == 1


def test_the_delivery_tree_of_figure_1() -> None:
    """B2 publishes for B5 alone: only B3 and B4, between them, are passed."""
    tree = [(1, 2), (2, 3), (3, 4), (4, 5), (3, 6), (6, 7), (6, 8)]
    assert delivery_tree(tree, {2, 5})[0] == {2, 3, 4, 5}
    links = [[1.0] * 9 for _ in range(9)]
    problem = OptimumProblem([100.0] * 9, links, [({2, 5}, 1)])
    # Broker 0 only makes the numbers fit.
    assert problem.cost([(0, 1), *tree]) == 4 * 100 + 3


@pytest.mark.parametrize("size", [2, 3, 7, 20])
def test_a_tree_costs_the_sum_of_its_delivery_trees(size: int) -> None:
    generator = random.Random(size)
    for _ in range(10):
        problem, demands = random_problem(generator, size)
        tree = random_tree(generator, size)
        assert problem.cost(tree) == pytest.approx(naive_cost(problem, tree, demands))


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 6])
def test_the_optimum_is_the_best_of_all_spanning_trees(size: int) -> None:
    problem, _ = random_problem(random.Random(size), size)
    pairs = list(itertools.combinations(range(size), 2))
    trees = [
        list(links)
        for links in itertools.combinations(pairs, size - 1)
        if is_tree(list(links), size)
    ]
    assert len(trees) == size ** max(size - 2, 0)
    best = optimum(problem)
    assert best.links in trees
    assert best.cost == pytest.approx(min(problem.cost(tree) for tree in trees))


def test_links_that_are_no_tree_are_refused() -> None:
    problem, _ = random_problem(random.Random(1), 4)
    with pytest.raises(ValueError, match="no tree"):
        problem.cost([(0, 1), (1, 2), (2, 0)])
    with pytest.raises(ValueError, match="too many trees"):
        optimum(random_problem(random.Random(1), 9)[0])


@pytest.mark.parametrize("seed", range(4))
def test_no_exchange_makes_a_local_optimum_cheaper(seed: int) -> None:
    generator = random.Random(seed)
    problem, _ = random_problem(generator, 9)
    start = random_tree(generator, 9)
    found = local_optimum(problem, start)
    assert is_tree(found.links, 9)
    assert found.cost == pytest.approx(problem.cost(found.links))
    assert found.cost <= problem.cost(start)
    for number, new in itertools.product(range(8), itertools.combinations(range(9), 2)):
        other = [*found.links[:number], *found.links[number + 1 :], new]
        if is_tree(other, 9):
            assert problem.cost(other) >= found.cost - 1e-6


def test_exchanges_mostly_find_the_optimum_of_few_brokers() -> None:
    regrets = []
    for seed in range(8):
        generator = random.Random(seed)
        problem, _ = random_problem(generator, 7)
        found = local_optimum(problem, random_tree(generator, 7))
        regrets.append(regret(found.cost, optimum(problem).cost))
    assert min(regrets) >= -1e-12
    assert sorted(regrets)[4] == pytest.approx(0)


@pytest.mark.parametrize("size", [7, 12])
def test_the_best_known_is_no_worse_than_from_any_start(size: int) -> None:
    generator = random.Random(size)
    problem, _ = random_problem(generator, size)
    starts = [random_tree(generator, size) for _ in range(2)]
    found = best_known(problem, starts)
    assert is_tree(found.links, size)
    assert found.cost <= min(local_optimum(problem, start).cost for start in starts) + 1e-9
    if size <= MAX_BROKERS_FOR_ALL:
        assert found == optimum(problem)


def test_the_minimum_spanning_tree_is_optimal_if_all_want_all() -> None:
    """If no broker has costs, it is the minimum spanning tree: the best for everyone."""
    generator = random.Random(3)
    problem, _ = random_problem(generator, 12)
    everybody = OptimumProblem([0.0] * 12, problem.links, [(range(12), 1.0)])
    found = best_known(everybody, [])
    assert found.cost == pytest.approx(local_optimum(everybody, random_tree(generator, 12)).cost)
