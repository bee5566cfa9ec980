"""Physical networks that look like the Internet: transit domains, and stub domains around them.

BRITE's top-down model: domains lie in a plane and are joined as Waxman's model says, each new one
to a few before it, the nearer the likelier; so are the routers within a domain; a link between
domains joins a router of each. Some domains are transit, the rest are stubs: each is joined to one
transit domain, so that it carries no traffic of others. A link's length is the distance in the
plane.

>>> network = transit_stub(seed=1, size=TransitStubSize(transit_domains=2, stub_domains=8,
...     routers=20))
>>> len(network.domains), len(network.positions)
(10, 200)
>>> routers = place(network, brokers=3, seed=1)
>>> costs = normalised(distances(network, routers), most=10)
>>> float(costs.min()), float(costs.max()), bool((costs == costs.T).all())
(0.0, 10.0, True)

Source: Medina, Lakhina, Matta and Byers, "BRITE: An Approach to Universal Topology Generation"
(MASCOTS 2001); Waxman, "Routing of Multipoint Connections" (IEEE JSAC 6(9), 1988); Zegura, Calvert
and Bhattacharjee, "How to Model an Internetwork" (INFOCOM 1996): transit and stub domains.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

# BRITE's defaults: Waxman's beta (his alpha has no say where each new node gets as many links), the
# planes' sides, and the links of a new node.
_BETA = 0.2
_PLANE, _DOMAIN_PLANE = 1_000.0, 100.0
_LINKS = 2


class TransitStubSize(msgspec.Struct, frozen=True, kw_only=True):
    """Size of a network: the paper has 100 domains and over 10,000 nodes (5)."""

    transit_domains: int = 10
    stub_domains: int = 90
    routers: int = 105


class TransitStubNetwork(msgspec.Struct, frozen=True):
    """Routers, numbered from 0.

    domains     the routers of each domain, the transit domains first
    positions   each router's position in the plane
    links       for each router the others that it is linked to, and how far they are
    """

    domains: list[range]
    positions: Floats
    links: list[list[tuple[int, float]]]


def transit_stub(seed: int, size: TransitStubSize = TransitStubSize()) -> TransitStubNetwork:  # noqa: B008  # it is frozen
    """A connected network, always the same for a seed; ValueError when it has no transit domain."""
    domains, transit = size.transit_domains + size.stub_domains, size.transit_domains
    if transit < 1 or size.stub_domains < 0 or size.routers < 1:
        raise ValueError(f"no network has {size}")
    random = np.random.default_rng(seed)
    corners = random.uniform(0, _PLANE, (domains, 2))
    inner = random.uniform(0, _DOMAIN_PLANE, (domains, size.routers, 2))
    positions = (corners[:, None, :] + inner).reshape(-1, 2)
    found = TransitStubNetwork(
        [range(start, start + size.routers) for start in range(0, len(positions), size.routers)],
        positions,
        [[] for _ in positions],
    )
    for routers in found.domains:
        for new in range(1, size.routers):
            for old in _nearer(random, positions[routers], new, new, _DOMAIN_PLANE):
                _join(found, routers[new], routers[old])
    for new in range(1, domains):
        count = _LINKS if new < transit else 1
        for old in _nearer(random, corners, new, min(new, transit), _PLANE)[:count]:
            ends = random.integers(size.routers, size=2)
            _join(found, found.domains[new][ends[0]], found.domains[old][ends[1]])
    return found


def _nearer(
    random: np.random.Generator, places: Floats, new: int, among: int, side: float
) -> list[int]:
    """Draw those of the first `among` places that a new one is joined to: the nearer the
    likelier.
    """
    apart = np.hypot(*(places[:among] - places[new]).T)
    weights = np.exp(-apart / (_BETA * side * np.sqrt(2)))
    chosen = random.choice(among, min(_LINKS, among), replace=False, p=weights / weights.sum())
    return [int(each) for each in chosen]


def _join(network: TransitStubNetwork, left: int, right: int) -> None:
    apart = float(np.hypot(*(network.positions[left] - network.positions[right])))
    network.links[left].append((right, apart))
    network.links[right].append((left, apart))


def place(network: TransitStubNetwork, brokers: int, seed: int) -> list[int]:
    """Different routers at random for so many brokers."""
    random = np.random.default_rng(seed)
    return [int(each) for each in random.choice(len(network.positions), brokers, replace=False)]


def distances(network: TransitStubNetwork, routers: Sequence[int]) -> Floats:
    """The length of the shortest way between each two of these routers."""
    found = np.zeros((len(routers), len(routers)))
    for row, source in enumerate(routers):
        apart = _from(network.links, source)
        found[row] = [apart[router] for router in routers]
    # Sums of the same lengths, from either end.
    return np.minimum(found, found.T)


def _from(links: Sequence[Sequence[tuple[int, float]]], source: int) -> list[float]:
    apart = [np.inf] * len(links)
    apart[source] = 0.0
    waiting = [(0.0, source)]
    while waiting:
        here, router = heapq.heappop(waiting)
        if here > apart[router]:
            continue
        for neighbour, length in links[router]:
            there = here + length
            if there < apart[neighbour]:
                apart[neighbour] = there
                heapq.heappush(waiting, (there, neighbour))
    return apart


def normalised(apart: Floats, most: float) -> Floats:
    """Distances between different brokers, as costs from 0 to `most`; the diagonal is 0."""
    between = ~np.eye(len(apart), dtype=bool)
    if not between.any():
        return np.zeros_like(apart)
    least, farthest = apart[between].min(), apart[between].max()
    spread = farthest - least
    costs: Floats = (apart - least) * (most / spread) if spread else np.zeros_like(apart)
    costs[~between] = 0.0
    return costs
