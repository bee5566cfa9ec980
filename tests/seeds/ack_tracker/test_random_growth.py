"""Products grow and shrink while all else happens to them: what is settled has arrived.

SHOAL_SEEDS="7" or "0-999" replays chosen ones.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tests.examples import at_length
from tests.seeds.ack_tracker.random_growth import RandomGrowth
from tests.seeds.chosen import CHOSEN, chosen

# 0: who came with a place of its own waited for ever for who it had joined at.  8: what was
# numbered for a gate that went waited for the sweep, and the sweep for what was to come behind it;
# what was published before hosts knew who wanted it was settled.  7: what was spread missed a
# region that the host's cluster had no broker in.  10: links up made a circle, and a broker looked
# for the way for ever; who had left was dialled for ever.  93: who had started waited for nobody,
# as its neighbour had left.  253: what came back did not go to those it was for, as their way had
# changed.  1155: what waited for a way to a cluster waited for ever when its last broker had left.
QUICK, LATER = (0, 8), (253, 1155)
SOAK = range(400)


def _play(seeds: Iterable[int]) -> tuple[int, int, int]:
    """How many brokers joined, left and died."""
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
def test_what_is_settled_has_arrived_as_brokers_come_and_go(seed: int) -> None:
    assert sum(_play([seed])) > 0


@pytest.mark.soak
def test_what_is_settled_has_arrived_as_brokers_come_and_go_in_many() -> None:
    assert min(_play(chosen(SOAK))) > 0 or CHOSEN
