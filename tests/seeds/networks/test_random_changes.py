"""Random networks whose brokers join and leave: nothing lost, doubled, made up or out of order.

A few seeds here, 1,000 by `make soak`; SHOAL_SEEDS="7" or "0-999" replays chosen ones.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tests.seeds.chosen import CHOSEN, chosen
from tests.seeds.networks.random_changes import ChangingNetwork
from tests.systems import TREES

QUICK = range(6)
LOSSY = range(3)
SOAK = range(1_000)


def _run(seeds: Iterable[int], system: str, *, lossy: bool = False) -> int:
    """Run and judge; how many brokers left."""
    left = 0
    for seed in chosen(seeds):
        network = ChangingNetwork(seed, system=system, lossy=lossy)
        problems = network.run()
        assert not problems, f"SHOAL_SEEDS={seed}: " + "\n".join(problems)
        left += len(network.world.departures)
    return left


@pytest.mark.parametrize("system", TREES)
def test_nobody_else_notices_brokers_that_join_and_leave(system: str) -> None:
    assert _run(QUICK, system) > 6 or CHOSEN


@pytest.mark.parametrize("system", TREES)
def test_nor_over_links_that_lose_and_reorder(system: str) -> None:
    assert _run(LOSSY, system, lossy=True) > 1 or CHOSEN


@pytest.mark.soak
@pytest.mark.parametrize("lossy", [False, True])
@pytest.mark.parametrize("system", TREES)
def test_a_thousand_changing_networks(system: str, lossy: bool) -> None:
    assert _run(SOAK, system, lossy=lossy) > 1_000 or CHOSEN
