"""Random products under bursts, churn, loss and deaths, judged from outside."""

from __future__ import annotations

import pytest

from shoal.overlays.octopia.parameters import Dynamic
from tests.examples import examples
from tests.overlays.octopia.random_products import RandomProduct


@pytest.mark.parametrize("dynamic", Dynamic)
@pytest.mark.parametrize("seed", range(examples(4)))
def test_bursts_lose_double_and_reorder_nothing(seed: int, dynamic: Dynamic) -> None:
    network = RandomProduct(seed, dynamic)
    assert network.run() == []


@pytest.mark.parametrize("seed", range(examples(4)))
def test_lossy_links(seed: int) -> None:
    assert RandomProduct(seed, Dynamic.ORDERED, lossy=True).run() == []


# 42, 56: who started again waited for ever for one that was dead.  70: what was spread and nobody
# waited for was lost beyond two dead brokers.  159: what a cluster wants became too much to say.
# 1138: who was asked for a link in vain was missed anew each time, and waited for for ever.
CHOSEN = (42, 56, 70, 159, 1138)


@pytest.mark.parametrize("seed", [*range(examples(6)), *CHOSEN])
def test_deaths_cost_clients_elsewhere_nothing(seed: int) -> None:
    """Beside what was under way, which the simulator loses; tables are as if nothing had been."""
    assert RandomProduct(seed, list(Dynamic)[seed % 4], deaths=2).run() == []
