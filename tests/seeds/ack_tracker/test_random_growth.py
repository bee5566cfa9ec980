"""Products grow and shrink under all other events: settled publications have arrived.

SHOAL_SEEDS="7" or "0-999" replays chosen seeds.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tests.examples import at_length
from tests.seeds.ack_tracker.random_growth import RandomGrowth
from tests.seeds.chosen import CHOSEN, chosen

# Regression cases. 0: a broker with a place of its own joins at one that is no entry of it. 8: a
# leaving sequencer with numbered publications and a sweep; publications before the bits are known.
# 7: spreading to a region without a broker of the host's cluster. 10: links that come up close a
# cycle of announcements; a dial of a departed broker. 93: a start without the former neighbour.
# 253: a returned publication whose way has changed. 1155: a cluster's last broker leaves.
QUICK, LATER = (0,), (8, 253, 1155)
SOAK = range(400)


def _play(seeds: Iterable[int]) -> tuple[int, int, int]:
    """Play a seed; the numbers of joins, leaves and deaths."""
    joined = left = deaths = 0
    for seed in seeds:
        network = RandomGrowth(seed)
        problems = network.run()
        told = "\n".join([*network.happened, *problems[:20]])
        assert not problems, f"SHOAL_SEEDS={seed}:\n{told}"
        assert network.settled > 0
        joined, left = joined + network.joined, left + network.left
        deaths += len(network.deaths)
    return joined, left, deaths


@pytest.mark.parametrize("seed", [*chosen(QUICK), *at_length(() if CHOSEN else LATER)])
def test_settled_publications_have_arrived_under_joins_and_leaves(seed: int) -> None:
    assert sum(_play([seed])) > 0


@pytest.mark.soak
def test_settled_publications_have_arrived_under_joins_and_leaves_in_many_networks() -> None:
    assert min(_play(chosen(SOAK))) > 0 or CHOSEN
