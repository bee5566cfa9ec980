"""Layouts of graphs: distinct places, and the shape of lines and cycles."""

import itertools
import math
import random

import pytest

from shoal.report.drawing.layout import APART, fit, spread, tree_layout


@pytest.mark.parametrize("seed", range(3))
def test_points_are_separated_near_their_places(seed: int) -> None:
    rng = random.Random(seed)
    points = {f"b{n}": (rng.uniform(0, 900), rng.uniform(0, 500)) for n in range(60)}
    points |= {"one": (450.0, 250.0), "same": (450.0, 250.0), "too": (450.0, 250.0)}
    apart = spread(points)
    assert min(math.dist(a, b) for a, b in itertools.combinations(apart.values(), 2)) > 0.85 * APART
    assert max(math.dist(points[name], apart[name]) for name in points) < 40


def test_brokers_of_a_tree_have_distinct_places() -> None:
    rng = random.Random(7)
    names = [f"b{n:03}" for n in range(200)]
    links = [(names[rng.randrange(n)], names[n]) for n in range(1, 200)]
    points = tree_layout(names, links)
    assert len({(round(x, 6), round(y, 6)) for x, y in points.values()}) == 200


def test_a_line_is_drawn_from_its_middle() -> None:
    points = tree_layout(list("abcde"), list(itertools.pairwise("abcde")))
    assert [round(math.hypot(*points[name])) for name in "abcde"] == [2, 1, 0, 1, 2]


def test_cycles_and_separate_parts_are_drawn_too() -> None:
    points = tree_layout(list("abcxy"), [("a", "b"), ("b", "c"), ("c", "a"), ("x", "y")])
    assert points.keys() == set("abcxy")
    assert len(set(points.values())) == 5


def test_points_in_one_place_fit_in_the_middle() -> None:
    assert fit({"a": (3.0, 3.0)}, 100, 60, 10) == {"a": (50.0, 30.0)}
