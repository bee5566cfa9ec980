"""Physical networks that resemble the Internet."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from shoal.experiments.networks.transit_stub import (
    TransitStubNetwork,
    TransitStubSize,
    distances,
    normalised,
    place,
    transit_stub,
)

SMALL = TransitStubSize(transit_domains=3, stub_domains=9, routers=8)


def domain_of(network: TransitStubNetwork, router: int) -> int:
    return next(n for n, routers in enumerate(network.domains) if router in routers)


def test_a_seed_decides_everything() -> None:
    one, two, other = (transit_stub(seed, SMALL) for seed in (1, 1, 2))
    assert one.links == two.links != other.links
    assert place(one, 5, 3) == place(one, 5, 3) != place(one, 5, 4)
    assert len(set(place(one, 96, 1))) == 96


def test_stubs_join_transit_domains_only_and_forward_nothing() -> None:
    network = transit_stub(4, SMALL)
    between = [
        {domain_of(network, router), domain_of(network, other)}
        for router, links in enumerate(network.links)
        for other, _ in links
    ]
    for stub in range(3, 12):
        (link, *again) = [ends for ends in between if stub in ends and len(ends) == 2]
        assert again == [link]  # it is there from both ends
        assert min(link) < 3
    assert any(ends <= {0, 1, 2} and len(ends) == 2 for ends in between)


def test_distances_are_shortest_paths() -> None:
    network = transit_stub(2, TransitStubSize(transit_domains=2, stub_domains=2, routers=4))
    apart = np.full((16, 16), np.inf)
    for router, links in enumerate(network.links):
        apart[router, router] = 0
        for other, length in links:
            apart[router, other] = min(apart[router, other], length)
    for by, left, right in itertools.product(range(16), repeat=3):  # Floyd and Warshall
        apart[left, right] = min(apart[left, right], apart[left, by] + apart[by, right])
    assert np.isfinite(apart).all()
    assert distances(network, list(range(16))) == pytest.approx(apart)


def test_costs_run_from_zero_to_the_maximum() -> None:
    network = transit_stub(2, SMALL)
    apart = distances(network, place(network, 12, 1))
    costs = normalised(apart, 10)
    between = ~np.eye(12, dtype=bool)
    assert (costs[between].min(), costs.max()) == (0, 10)
    assert (costs == costs.T).all()
    upper = np.triu_indices(12, 1)
    assert (costs[upper].argsort() == apart[upper].argsort()).all()
    assert not normalised(apart, 0).any()
    assert not normalised(apart[:1, :1], 10).any()
    assert not normalised(np.full((3, 3), 5.0), 10).any()


def test_impossible_networks_are_refused() -> None:
    with pytest.raises(ValueError, match="transit_domains=0"):
        transit_stub(1, TransitStubSize(transit_domains=0))
