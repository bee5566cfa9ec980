"""Brokers of random networks cancel their leaves, without effect on others.

SHOAL_SEEDS="7" or "0-99" replays chosen seeds.
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


def test_an_heir_takes_no_part_of_a_staying_matchers_segment() -> None:
    """The heir's part would not be adjacent to its own: two matchers would serve one segment."""
    _stay("bluedove", [0])


def test_a_refused_leave_stops_no_import_from_another_leaving_matcher() -> None:
    """The refusal came after the matcher stayed, and had begun to import a segment."""
    _stay("bluedove", [448])


def test_a_staying_only_broker_of_a_cluster_is_sent_everything_again() -> None:
    """Other brokers dropped it as their entry, and must send everything again."""
    _stay("octopia", [11])


def test_a_staying_member_returns_to_the_view() -> None:
    """A view without it was made while it cancelled its leave."""
    _stay("dynatops", [31])


def test_a_publisher_goes_on_from_a_refuge_that_leaves_while_it_pauses() -> None:
    _stay("bluedove", [509])


def test_a_broker_that_joined_delivers_retransmissions_of_views_that_it_was_in() -> None:
    """Brokers swapped positions just after publications were sent, which no client awaited."""
    _stay("dynatops", [596])


@pytest.mark.soak
@pytest.mark.parametrize("system", MODULES)
def test_many_cancelled_leaves_lose_nothing(system: str) -> None:
    _stay(system, range(30))
