"""The structure of each system; of `hybrid`, that of its gateways.

Bayeux and GeoPS have one by the brokers' coordinates, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from shoal.overlays.dynatops.structures.chord import Chord
from shoal.overlays.dynatops.structures.gateways import Gateways
from shoal.overlays.dynatops.structures.geography import Coordinates, EarthGrid, near_tapestry
from shoal.overlays.dynatops.structures.prefixes import quad_cells, tapestry
from shoal.overlays.dynatops.structures.structure import Structure

# Tapestry's identifiers are random, and the same at all brokers.
SEED = 1

# By system, the structure for a number of brokers.
STRUCTURES: Mapping[str, Callable[[int], Structure]] = {
    "dynatops": Chord,
    "bayeux": partial(tapestry, seed=SEED),
    "geops": quad_cells,
    "hybrid": Chord,
}

# By system, the structure for brokers at these coordinates.
STRUCTURES_ON_EARTH: Mapping[str, Callable[[Sequence[Coordinates]], Structure]] = {
    "bayeux": partial(near_tapestry, seed=SEED),
    "geops": EarthGrid,
}


def structure_of(system: str, size: int, per_gateway: int = 1) -> Structure:
    """The structure for `size` brokers of a system, with `per_gateway` for each gateway."""
    make = STRUCTURES[system]
    return make(size) if per_gateway == 1 else Gateways(size, per_gateway, make)
