"""Random networks under churn and migrations: nothing lost, doubled, made up or out of order.

A few seeds here, 1,000 by `make soak`; SHOAL_SEEDS="7" or "0-999" replays chosen ones.
"""

from __future__ import annotations

import os

import pytest

from shoal.broker.records import MigrationRecord
from tests.seeds.random_network import RandomNetwork

QUICK = range(40)
LOSSY = range(12)


def _seeds(default: range) -> list[int]:
    text = os.environ.get("SHOAL_SEEDS")
    if not text:
        return list(default)
    first, _, last = text.partition("-")
    return list(range(int(first), int(last or first) + 1))


@pytest.mark.parametrize("system", ["tree", "publisher_relocation"])
def test_nothing_is_lost_while_clients_come_go_and_move(system: str) -> None:
    required = migrations = 0
    for seed in _seeds(QUICK):
        network = RandomNetwork(seed, system=system)
        problems = network.run()
        assert not problems, f"SHOAL_SEEDS={seed}: " + "\n".join(problems)
        required += network.required
        migrations += sum(isinstance(row, MigrationRecord) for row in network.world.trace.records)
    assert required > 0
    assert (migrations > 0) == (system == "publisher_relocation")


def test_nothing_is_lost_over_links_that_lose_and_reorder() -> None:
    for seed in _seeds(LOSSY):
        network = RandomNetwork(seed, system="publisher_relocation", lossy=True)
        problems = network.run()
        assert not problems, f"SHOAL_SEEDS={seed}: " + "\n".join(problems)
