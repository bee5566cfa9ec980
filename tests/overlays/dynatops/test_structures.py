"""Structures: every key has one root, every way ends, and all ways from a root are one tree."""

from __future__ import annotations

import itertools
import math

import pytest

from shoal.overlays.dynatops.structures.chord import Chord
from shoal.overlays.dynatops.structures.prefixes import QuadGrid, tapestry
from shoal.overlays.dynatops.structures.structure import Structure, route

STRUCTURES = [
    *(Chord(size) for size in (1, 2, 3, 8, 13, 64, 100)),
    *(tapestry(size, seed=size) for size in (1, 2, 3, 8, 13, 64, 100)),
    tapestry(30, seed=1, distance=lambda one, other: (one * other) % 7),
    *(QuadGrid(side) for side in (1, 2, 4, 8)),
]


@pytest.mark.parametrize("structure", STRUCTURES)
def test_ways_from_a_root_are_one_tree_of_neighbours(structure: Structure) -> None:
    for root in range(structure.size):
        parents = structure.routing_tree(root)
        assert parents[root] == root
        for target in range(structure.size):
            way = route(structure, root, target)
            assert len(way) == len(set(way))
            assert all(parents[later] == earlier for earlier, later in itertools.pairwise(way))
            assert all(
                later in structure.neighbours(earlier) for earlier, later in itertools.pairwise(way)
            )


@pytest.mark.parametrize("structure", STRUCTURES)
def test_every_key_has_a_root_and_all_are_some_keys(structure: Structure) -> None:
    roots = [structure.root(f"topic/{number}") for number in range(40 * structure.size)]
    assert set(roots) <= set(range(structure.size))
    assert len(set(roots)) > 0.9 * structure.size


@pytest.mark.parametrize("size", [8, 64, 1_000])
def test_a_ring_needs_at_most_as_many_hops_as_its_size_has_bits(size: int) -> None:
    ring = Chord(size)
    assert all(
        len(route(ring, 0, target)) - 1 <= math.ceil(math.log2(size)) for target in range(size)
    )
    assert all(len(ring.neighbours(each)) <= math.ceil(math.log2(size)) for each in range(size))


def test_the_ways_of_the_papers_example() -> None:
    """Figure 2a: of eight positions, those that want t1 are reached so from its root, 1."""
    ring = Chord(8)
    assert [route(ring, 1, target) for target in (2, 4, 0)] == [[1, 2], [1, 3, 4], [1, 5, 7, 0]]


def test_a_grid_goes_to_the_quadrant_first() -> None:
    grid = QuadGrid(8)
    way = route(grid, grid.at(0, 0), grid.at(6, 5))
    assert way == [grid.at(0, 0), grid.at(4, 4), grid.at(6, 4), grid.at(6, 5)]


def test_sizes_that_cannot_be() -> None:
    with pytest.raises(ValueError, match="at least one"):
        Chord(0)
    with pytest.raises(ValueError, match="power of two"):
        QuadGrid(6)
