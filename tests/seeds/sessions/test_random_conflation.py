"""Clients with `$every` and `$changed` move while brokers are killed: the rule holds."""

from __future__ import annotations

import pytest

from tests.seeds.sessions.random_conflation import play
from tests.seeds.sessions.random_sessions import RESTLESS


@pytest.mark.parametrize("seed", range(3))
def test_conflation_holds_over_moves_and_kills(seed: int) -> None:
    play(seed, RESTLESS if seed % 2 else (20, 30, 15, 4, 2, 10, 1.5, 5, 10))


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1_000, 1_200))
def test_conflation_holds_over_many_moves_and_kills(seed: int) -> None:
    play(seed, RESTLESS, more=seed % 3)
