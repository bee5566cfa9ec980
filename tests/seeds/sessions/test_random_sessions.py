"""Clients that move, ask elsewhere and hang up, while brokers are killed at random."""

from __future__ import annotations

import pytest

from shoal.mqtt.federation import time_slices
from shoal.mqtt.federation.session_transfer import moves
from tests.seeds.sessions.random_sessions import RESTLESS, Life, play


@pytest.mark.parametrize("seed", range(8))
def test_random_sessions(seed: int) -> None:
    play(seed)


@pytest.mark.parametrize("seed", [412, 566, 901, 7146])
def test_clients_that_hardly_stay(seed: int) -> None:
    """In 566 a session was taken where it went, and nobody knew where that was.

    In 7146 it was thought to lack what had been held for it where it came back.
    """
    play(seed, RESTLESS)


@pytest.mark.parametrize("seed", [0, 1, 82, 5093, 5170])
def test_more_brokers(seed: int) -> None:
    """In 82 a session came, was asked for elsewhere, and stayed: what came late came twice.

    In the last two a broker took a group's message for a session of which it had said, before it
    was killed, that nothing more comes.
    """
    play(seed, more=3)


@pytest.mark.parametrize("seed", range(4))
def test_what_others_want_is_covered_now_and_then(seed: int) -> None:
    play(seed, dabblers=3)


@pytest.mark.parametrize("seed", range(4))
def test_turns_in_which_little_is_done(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a session had, and what was held back for it, goes and comes a message at a time."""
    monkeypatch.setattr(time_slices, "MOST_AT_ONCE", 1)
    monkeypatch.setattr(moves, "ITEMS_AT_ONCE", 1)
    play(seed, RESTLESS)


@pytest.mark.parametrize("seed", [105, 429, 566])
def test_every_broker_knows_where_a_session_stays(seed: int) -> None:
    """Somebody had asked for it meanwhile, and its broker was not believed with an older word.

    In 105 two brokers had asked for it in the same microsecond, and one of them had no answer.
    """
    life = Life(seed, RESTLESS)
    life.play()
    life.come_to_rest()
    assert life.astray() == []


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1_000, 1_500))
def test_clients_that_hardly_stay_at_length(seed: int) -> None:
    play(seed, RESTLESS)


@pytest.mark.soak
@pytest.mark.parametrize("seed", [*range(4, 10), *range(1_000, 1_300)])
def test_what_others_want_is_covered_now_and_then_at_length(seed: int) -> None:
    play(seed, dabblers=3)


@pytest.mark.soak
@pytest.mark.parametrize("seed", [2, 3, 4, *range(1_000, 1_500)])
def test_more_brokers_at_length(seed: int) -> None:
    play(seed, more=3)


@pytest.mark.soak
@pytest.mark.parametrize("seed", [*range(8, 20), *range(1_000, 3_000)])
def test_random_sessions_at_length(seed: int) -> None:
    play(seed)
