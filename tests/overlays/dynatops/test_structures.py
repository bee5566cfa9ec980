"""Structures: every key has one root, every route ends, and the routes from a root are one tree."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import partial

import pytest

from shoal.overlays.dynatops.structures.chord import Chord
from shoal.overlays.dynatops.structures.gateways import Gateways
from shoal.overlays.dynatops.structures.geography import EarthGrid, near_tapestry
from shoal.overlays.dynatops.structures.prefixes import QuadGrid, quad_cells, tapestry
from shoal.overlays.dynatops.structures.structure import Structure, route
from shoal.overlays.dynatops.view import View, ViewPlaces
from tests.examples import one_in

CITIES = [
    (48.2, 16.4), (52.5, 13.4), (40.6, -73.8), (40.6, -73.8), (-33.9, 151.2), (51.5, -0.1),
    (35.7, 139.7), (48.21, 16.41), (40.6, -73.8), (90.0, 180.0), (-90.0, -180.0), (0.0, 0.0),
]  # fmt: skip
STRUCTURES = [
    *(EarthGrid(CITIES[:size]) for size in (1, 2, 12)),
    EarthGrid([(1.0, 1.0)] * 6),
    near_tapestry(CITIES, seed=1),
    *(Chord(size) for size in (1, 2, 3, 8, 13, 64, 100)),
    *(tapestry(size, seed=size) for size in (1, 2, 3, 8, 13, 64, 100)),
    tapestry(30, seed=1, distance=lambda one, other: (one * other) % 7),
    *(QuadGrid(side) for side in (1, 2, 4, 8)),
]
HYBRIDS = [Gateways(size, together) for size in (1, 2, 7, 12, 31) for together in (1, 2, 3, 5, 40)]
HYBRIDS.append(Gateways(14, 3, quad_cells))


@pytest.mark.parametrize("structure", one_in(2, [*STRUCTURES, *HYBRIDS]))
def test_routes_from_a_root_are_one_tree_of_neighbours(structure: Structure) -> None:
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


@pytest.mark.parametrize("per_gateway", [1, 3])
@pytest.mark.parametrize("make", [Chord, partial(tapestry, seed=1), quad_cells])
def test_a_broker_is_linked_to_its_neighbours_and_their_inverse(
    make: Callable[[int], Structure], per_gateway: int
) -> None:
    names = tuple(f"B{number:02}" for number in range(23))
    places = ViewPlaces(View(1, "B00", names, per_gateway=per_gateway), make)
    for name in names:
        senders = [each for each in names if name in places.neighbours(each)]
        assert places.linked_to(name) == tuple(dict.fromkeys([*places.neighbours(name), *senders]))


@pytest.mark.parametrize("structure", STRUCTURES)
def test_every_key_has_a_root_and_every_broker_is_a_root(structure: Structure) -> None:
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


def test_the_routes_of_the_papers_example() -> None:
    """Figure 2a: the routes from root 1 to the brokers of eight positions that want t1."""
    ring = Chord(8)
    assert [route(ring, 1, target) for target in (2, 4, 0)] == [[1, 2], [1, 3, 4], [1, 5, 7, 0]]


def test_a_grid_goes_to_the_quadrant_first() -> None:
    grid = QuadGrid(8)
    way = route(grid, grid.at(0, 0), grid.at(6, 5))
    assert way == [grid.at(0, 0), grid.at(4, 4), grid.at(6, 4), grid.at(6, 5)]


def test_a_grid_of_the_earth_goes_to_near_brokers() -> None:
    """Europe's are in one quadrant; a message from New York enters it at the nearest of them."""
    grid = EarthGrid(CITIES[:7])
    vienna, berlin, new_york, london = 0, 1, 2, 5
    assert route(grid, new_york, vienna)[1] in (vienna, berlin)
    assert grid.apart(new_york, london) < grid.apart(new_york, vienna)
    assert route(grid, vienna, berlin) == [vienna, berlin]
    for topic, city in (("geo:48,16", vienna), ("air/geo:53.1,12.9/pm10", berlin)):
        assert grid.root(topic) == city
    # No place on earth, and no URI of its own: topics by their hash, as without geography.
    hashed = {grid.root(f"geo:91,{number}") for number in range(100)}
    assert len(hashed | {grid.root(f"xgeo:48,{number}") for number in range(100)}) > 4


def test_near_tables_hold_the_nearest_broker_of_each_prefix() -> None:
    """The same identifiers with tables by name: of all brokers' ways the mean is longer."""
    near, far = near_tapestry(CITIES, seed=1), tapestry(len(CITIES), seed=1)
    grid = EarthGrid(CITIES)

    def length(structure: Structure) -> float:
        return sum(
            grid.apart(one, other)
            for root in range(structure.size)
            for target in range(structure.size)
            for one, other in itertools.pairwise(route(structure, root, target))
        )

    assert length(near) < length(far)


def test_only_gateways_are_roots_and_on_the_ring() -> None:
    for hybrid in HYBRIDS:
        together = hybrid.together
        gateways = range(0, hybrid.size, together)
        roots = {hybrid.root(f"topic/{number}") for number in range(40 * hybrid.size)}
        assert roots <= set(gateways)
        for position in range(hybrid.size):
            others = set(hybrid.neighbours(position))
            cluster = set(range(position, min(position + together, hybrid.size)))
            if position in gateways:
                assert others - set(gateways) == cluster - {position}
            else:
                assert others == {position - position % together}


def test_a_gateway_for_each_broker_is_a_ring_of_all() -> None:
    ring, hybrid = Chord(13), Gateways(13, 1)
    for position in range(13):
        assert hybrid.neighbours(position) == ring.neighbours(position)
        assert hybrid.routing_tree(position) == ring.routing_tree(position)
        assert hybrid.root(str(position)) == ring.root(str(position))


def test_impossible_sizes_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        Chord(0)
    with pytest.raises(ValueError, match="at least its gateway"):
        Gateways(4, 0)
    with pytest.raises(ValueError, match="power of two"):
        QuadGrid(6)
