"""Brokers killed at random: settled publications were delivered in order, and nothing hangs."""

from __future__ import annotations

import pytest

from tests.examples import at_length
from tests.seeds.restarts.random_kills import play
from tests.systems import TREES

SEEDS = (*range(2), *at_length(range(2, 60)))


@pytest.mark.parametrize("is_stored", [False, True], ids=["settled", "stored"])
@pytest.mark.parametrize("system", TREES)
@pytest.mark.parametrize("seed", SEEDS)
def test_settled_publications_survive_random_kills(seed: int, system: str, is_stored: bool) -> None:
    play(seed, system, is_stored=is_stored)


@pytest.mark.soak
@pytest.mark.parametrize("is_stored", [False, True], ids=["settled", "stored"])
@pytest.mark.parametrize("seed", range(1_000, 4_000))
def test_settled_publications_survive_many_random_kills(seed: int, is_stored: bool) -> None:
    play(seed, is_stored=is_stored)
