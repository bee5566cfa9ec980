"""Clients that move, ask elsewhere and hang up, while brokers are killed at random."""

from __future__ import annotations

import pytest

from tests.seeds.random_sessions import play


@pytest.mark.parametrize("seed", range(40))
def test_random_sessions(seed: int) -> None:
    play(seed)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1_000, 3_000))
def test_random_sessions_at_length(seed: int) -> None:
    play(seed)
