"""Overlays with cycles under random faults, live but for sockets and the clock: nothing is lost.

SHOAL_SEEDS="7" or "0-999" replays chosen ones.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tests.seeds.random_custody import RandomCustody
from tests.seeds.test_random_networks import _seeds

# 300: a broker that entered a cluster started anew, and was told to forget what it was asked.
# 7, 18: what came back to carriers or was held at a gate was overtaken by what its host sent again.
# 31: an answer of somebody who was told no more came late; 40: sweeps waited for each other.
QUICK = {
    "dynatops": (5, 6, 10, 14, 19),
    "octopia": (2, 7, 14, 18, 31, 40, 300, 304),
    "tid": (2, 5, 14, 200, 304),
}
SOAK = range(1_000)
SYSTEMS = pytest.mark.parametrize("system", sorted(QUICK))


def _play(system: str, seeds: Iterable[int]) -> None:
    for seed in _seeds(seeds):
        network = RandomCustody(seed, system)
        problems = network.run()
        told = "\n".join([*network.happened, *problems[:20]])
        assert not problems, f"SHOAL_SEEDS={seed} {system}:\n{told}"
        assert network.settled > 0


@SYSTEMS
def test_what_is_settled_has_arrived(system: str) -> None:
    _play(system, QUICK[system])


@pytest.mark.soak
@SYSTEMS
def test_what_is_settled_has_arrived_in_many(system: str) -> None:
    _play(system, SOAK)
