"""Random products under bursts, churn, loss and deaths, judged from outside."""

from __future__ import annotations

import pytest

from shoal.overlays.octopia.parameters import Dynamic
from tests.examples import at_length, examples
from tests.overlays.octopia.random_products import RandomProduct


@pytest.mark.parametrize("dynamic", Dynamic)
@pytest.mark.parametrize("seed", range(examples(4)))
def test_bursts_lose_double_and_reorder_nothing(seed: int, dynamic: Dynamic) -> None:
    network = RandomProduct(seed, dynamic)
    assert network.run() == []


@pytest.mark.parametrize("seed", range(examples(4)))
def test_lossy_links_lose_double_and_reorder_nothing(seed: int) -> None:
    assert RandomProduct(seed, Dynamic.ORDERED, lossy=True).run() == []


# Regression cases: 42 and 56: a restarted broker must not wait for a dead one. 70: publications
# spread along a tree and lost beyond two dead brokers. 159: filters too large for bits. 1138:
# repeated requests of a link must not prolong a timeout.
CHOSEN = (42, 56, 70, 159, 1138)


@pytest.mark.parametrize(
    "seed", [0, *CHOSEN[:2], *at_length([*range(1, examples(6)), *CHOSEN[2:]])]
)
def test_deaths_cost_clients_elsewhere_nothing(seed: int) -> None:
    """Only messages under way may be lost, as the simulator loses them; the tables recover."""
    assert RandomProduct(seed, list(Dynamic)[seed % 4], deaths=2).run() == []
