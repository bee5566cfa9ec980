"""The copies of a publication, and the clusters that each of them still owes (VII).

A copy over an iLink enters the cluster at its end. A cluster whose iLink is congested is owed by
another copy instead, whose receiver decides anew: its bit is carried (inter-cluster dynamic
routing, IDR). Every decision has each owed cluster entered by one copy or carried by one, so no
publication is duplicated or loops.

>>> copies(["a"], {0: "x", 1: "y"}, {"x": 20.0}.get, 10)
{'a': 0, 'y': 1}
>>> copies(["a"], {0: "x", 1: "y"}, {"x": 20.0, "y": 30.0}.get, 10)
{'a': 3}
>>> copies([], {0: "x", 1: "y"}, {"x": 20.0, "y": 30.0}.get, 10)
{'x': 2}
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from shoal.model import BrokerId


def bits_of(clusters: Iterable[int]) -> int:
    """A cluster index vector: bit i, from the right, is cluster i."""
    found = 0
    for cluster in clusters:
        found |= 1 << cluster
    return found


def clusters_of(bits: int) -> list[int]:
    """The clusters of a cluster index vector, lowest first."""
    return [cluster for cluster in range(bits.bit_length()) if bits >> cluster & 1]


def copies(
    inner: Sequence[BrokerId],
    entries: Mapping[int, BrokerId],
    cost_of: Callable[[BrokerId], float | None],
    threshold: float,
    missing: int = 0,
) -> dict[BrokerId, int]:
    """The copies: by neighbour, the bits of the clusters that each carries.

    inner      neighbours in this cluster that lead to subscribers
    entries    the owed clusters, and the neighbour in each
    cost_of    congestion of the output to a neighbour; None: not at all
    threshold  above this it is congested; of several the one that costs least is taken
    missing    bits of further owed clusters without a link now
    """

    def cost(neighbour: BrokerId) -> float:
        return cost_of(neighbour) or 0.0

    found = dict.fromkeys(inner, 0)
    if not entries and not missing:
        return found
    congested: list[tuple[int, BrokerId]] = []
    free: list[tuple[int, BrokerId]] = []
    for cluster, neighbour in entries.items():
        (congested if cost(neighbour) > threshold else free).append((cluster, neighbour))
    found |= dict.fromkeys((neighbour for _, neighbour in free), 0)
    carried = missing | bits_of(cluster for cluster, _ in congested)
    if not carried:
        return found
    if free:  # (i)
        carrier = min((neighbour for _, neighbour in free), key=cost)
    elif any(cost(neighbour) <= threshold for neighbour in inner):  # (ii)
        carrier = min(inner, key=cost)
    elif congested:  # (iv)
        cluster, carrier = min(congested, key=lambda entry: cost(entry[1]))
        carried &= ~(1 << cluster)
    elif inner:
        carrier = min(inner, key=cost)
    else:
        return found  # missing clusters cannot be carried from here
    found[carrier] = carried
    return found


def shortest(inner: Sequence[BrokerId], entries: Mapping[int, BrokerId]) -> dict[BrokerId, int]:
    """The copies of static routing (SNR): one for each owed cluster, over its own iLink."""
    return dict.fromkeys((*inner, *entries.values()), 0)
