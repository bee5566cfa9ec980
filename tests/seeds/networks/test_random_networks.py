"""Random networks under churn and migrations: nothing lost, doubled, invented or out of order.

A few seeds here, 1,000 by `make soak`; SHOAL_SEEDS="7" or "0-999" replays chosen seeds.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from shoal.clients.records import MigrationRecord
from tests.examples import at_length
from tests.seeds.chosen import CHOSEN, chosen
from tests.seeds.networks.random_network import RandomNetwork

# Three brokers to fourteen; two of these seeds cover.
QUICK = (2, 3, 4, 6, 7)
LOSSY = (2, 3)
SOAK = range(1_000)
MOVING = pytest.mark.parametrize("system", ["grape", "pop"])


def _run(
    seeds: Iterable[int], system: str, *, lossy: bool = False, most_busy: int | None = None
) -> tuple[int, int]:
    """Run and judge; the numbers of required deliveries and of migrations."""
    required = migrations = 0
    for seed in chosen(seeds):
        network = RandomNetwork(seed, system=system, lossy=lossy, most_busy=most_busy)
        problems = network.run()
        assert not problems, f"SHOAL_SEEDS={seed}: " + "\n".join(problems)
        required += network.required
        migrations += sum(isinstance(row, MigrationRecord) for row in network.world.trace.records)
    return required, migrations


def test_nothing_is_lost_while_clients_come_and_go() -> None:
    required, migrations = _run(QUICK, "tree")
    assert required > 0 or CHOSEN
    assert migrations == 0


@MOVING
def test_nothing_is_lost_while_publishers_move(system: str) -> None:
    required, migrations = _run(QUICK, system)
    assert required > 0 or CHOSEN
    assert migrations > 0 or CHOSEN


@MOVING
def test_nothing_is_lost_over_links_that_lose_and_reorder(system: str) -> None:
    required, migrations = _run(LOSSY, system, lossy=True)
    assert required > 0 or CHOSEN
    assert migrations > 0 or CHOSEN


@pytest.mark.parametrize(
    ("system", "most_busy"), [("grape", 50), *at_length([("grape", 1), ("pop", 1), ("pop", 50)])]
)
def test_nothing_is_lost_while_brokers_have_no_room(system: str, most_busy: int) -> None:
    """Brokers are busy for about a per cent of their time."""
    required, _ = _run(QUICK, system, most_busy=most_busy)
    assert required > 0 or CHOSEN
    _, migrations = _run(LOSSY, system, lossy=True, most_busy=most_busy)
    assert migrations > 0 or most_busy == 1 or CHOSEN


@pytest.mark.soak
@pytest.mark.parametrize("most_busy", [1, 2, 80])
@MOVING
def test_a_thousand_networks_that_know_capacity_lose_nothing(system: str, most_busy: int) -> None:
    required, _ = _run(SOAK, system, most_busy=most_busy)
    assert required > 1_000_000 or CHOSEN


@pytest.mark.soak
@pytest.mark.parametrize("lossy", [False, True])
@pytest.mark.parametrize("system", ["tree", "grape", "pop"])
def test_a_thousand_networks_lose_nothing(system: str, lossy: bool) -> None:
    required, _ = _run(SOAK, system, lossy=lossy)
    assert required > 1_000_000 or CHOSEN
