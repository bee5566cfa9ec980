"""On which structure brokers of each system stand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from shoal.overlays.dynatops.structures.chord import Chord
from shoal.overlays.dynatops.structures.prefixes import quad_cells, tapestry
from shoal.overlays.dynatops.structures.structure import Structure

# Tapestry's identifiers are random, and the same at all brokers.
SEED = 1

# By system, the structure of so many brokers.
STRUCTURES: Mapping[str, Callable[[int], Structure]] = {
    "dynatops": Chord,
    "bayeux": partial(tapestry, seed=SEED),
    "geops": quad_cells,
}
