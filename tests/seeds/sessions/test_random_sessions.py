"""Clients that move and hang up while brokers are killed at random lose nothing settled."""

from __future__ import annotations

import pytest

from shoal.mqtt.federation import time_slices
from shoal.mqtt.federation.session_transfer import moves
from tests.examples import at_length
from tests.seeds.sessions.random_sessions import RESTLESS, RandomSessions, play


@pytest.mark.parametrize("seed", range(3))
def test_random_sessions_lose_nothing_settled(seed: int) -> None:
    play(seed)


@pytest.mark.parametrize("seed", [566, 7146, *at_length([412, 901])])
def test_clients_that_move_often_lose_nothing_settled(seed: int) -> None:
    """Regression cases. 566: a session is installed at a target that no other broker knows of.

    7146: a returning session with messages held for it must not count them as missing.
    """
    play(seed, RESTLESS)


@pytest.mark.parametrize("seed", [82, 5170, *at_length([0, 1, 5093])])
def test_sessions_of_more_brokers_lose_nothing_settled(seed: int) -> None:
    """Regression cases. 82: an arrived session is requested elsewhere and stays; late messages must
    not come twice.

    In the last two a broker accepts a group's message for a session of which it has reported,
    before its kill, that nothing more comes.
    """
    play(seed, more=3)


@pytest.mark.parametrize("seed", range(2))
def test_temporarily_covered_subscriptions_lose_nothing_settled(seed: int) -> None:
    play(seed, dabblers=3)


@pytest.mark.parametrize("seed", [0, *at_length(range(1, 4))])
def test_small_time_slices_lose_nothing_settled(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session, and the messages held back for it, are transferred one message at a time."""
    monkeypatch.setattr(time_slices, "MOST_AT_ONCE", 1)
    monkeypatch.setattr(moves, "ITEMS_AT_ONCE", 1)
    play(seed, RESTLESS)


@pytest.mark.parametrize("seed", [105, 429, 566])
def test_every_broker_knows_the_place_of_a_session(seed: int) -> None:
    """An older announcement of the session's broker must be believed after another's vain request.

    105: two brokers request it in the same microsecond, and one gets no answer.
    """
    life = RandomSessions(seed, RESTLESS)
    life.play()
    life.come_to_rest()
    assert life.astray() == []


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1_000, 1_500))
def test_many_clients_that_move_often_lose_nothing_settled(seed: int) -> None:
    play(seed, RESTLESS)


@pytest.mark.soak
@pytest.mark.parametrize("seed", [*range(2, 10), *range(1_000, 1_300)])
def test_many_temporarily_covered_subscriptions_lose_nothing_settled(seed: int) -> None:
    play(seed, dabblers=3)


@pytest.mark.soak
@pytest.mark.parametrize("seed", [2, 3, 4, *range(1_000, 1_500)])
def test_many_sessions_of_more_brokers_lose_nothing_settled(seed: int) -> None:
    play(seed, more=3)


@pytest.mark.soak
@pytest.mark.parametrize("seed", [*range(3, 20), *range(1_000, 3_000)])
def test_many_random_sessions_lose_nothing_settled(seed: int) -> None:
    play(seed)
