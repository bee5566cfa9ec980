"""Brokers of random networks take their leaves back: nobody notices.

SHOAL_SEEDS="7" or "0-99" replays chosen ones.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from shoal.overlays.registry import MODULES
from tests.seeds.chosen import chosen
from tests.seeds.networks.random_network import UNTIL_US
from tests.seeds.networks.random_stays import StayingNetwork


def _stay(system: str, seeds: Iterable[int]) -> None:
    for seed in chosen(seeds):
        problems = StayingNetwork(seed, system=system).run(UNTIL_US)
        assert not problems, f"SHOAL_SEEDS={seed}: " + "\n".join(problems)


def test_an_heir_takes_no_half_of_a_segment_of_a_matcher_that_stays() -> None:
    """It would not lie beside its own: two matchers served one segment, and neither could leave."""
    _stay("bluedove", [0])


def test_a_cluster_whose_only_broker_stays_is_told_anew() -> None:
    """Others had left it as an entry, and took what it had been told for known."""
    _stay("octopia", [11])


def test_a_member_that_started_at_the_epoch_is_taken_in_again() -> None:
    """A view without it was made as it took its leave back."""
    _stay("dynatops", [31])


@pytest.mark.soak
@pytest.mark.parametrize("system", MODULES)
def test_many_take_their_leaves_back(system: str) -> None:
    _stay(system, range(30))
