"""Cost of one topic's tree, from the positions of its homes: all that a home can compute.

>>> from shoal.overlays.dynatops.structures.chord import Chord
>>> tree_cost(Chord(8), 1, {0, 2, 5, 6}, delay_weight=1.0)
8.0
>>> change_of(Chord(8), 1, {0, 2, 5, 6}, 0, 7, delay_weight=1.0)
-2.0

Source: DYNATOPS, section 5, Eq. 3 to 5.
"""

from __future__ import annotations

from collections.abc import Set

from shoal.overlays.dynatops.structures.structure import Structure, route


def tree_cost(structure: Structure, root: int, homes: Set[int], delay_weight: float) -> float:
    """Of one publication: the relays that do not want it, and the hops to the homes."""
    on_the_way: set[int] = set()
    hops = 0
    for home in homes:
        way = route(structure, root, home)
        hops += len(way) - 1
        on_the_way.update(way)
    return len(on_the_way - homes - {root}) + delay_weight * hops


def change_of(
    structure: Structure, root: int, homes: Set[int], one: int, other: int, delay_weight: float
) -> float:
    """Change of the cost if the home at `one` goes to `other`, which is none."""
    after = (homes - {one}) | {other}
    cost = tree_cost(structure, root, homes, delay_weight)
    return tree_cost(structure, root, after, delay_weight) - cost
