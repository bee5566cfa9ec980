"""Generators of changes: the same by seed, independent by name, and with the stated rates."""

from __future__ import annotations

from itertools import pairwise
from statistics import fmean

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.experiments.scenarios.changes import MOVE_US, Bursts, Churn, ClientMove, Mobility
from shoal.experiments.scenarios.generated_changes import (
    BrokerTimes,
    Spell,
    broker_at,
    burst_starts,
    burst_times,
    client_moves,
    moved_time,
    subscription_spells,
)

SECOND_US = 1_000_000
HOUR_US = 3_600 * SECOND_US
BROKERS = ("B1", "B2", "B3", "B4")
NEAREST = {
    "B1": ["B2", "B3", "B4"],
    "B2": ["B1", "B3", "B4"],
    "B3": ["B4", "B2", "B1"],
    "B4": ["B3", "B2", "B1"],
}


# --- churn ------------------------------------------------------------------------------------


def spells(churn: Churn, count: int, seed: int = 1, end_us: int = HOUR_US) -> list[list[Spell]]:
    names = [f"s{number}" for number in range(count)]
    found = subscription_spells(churn, names, end_us=end_us, least_us=4 * SECOND_US + 1, seed=seed)
    return list(found.values())


def test_subscriptions_come_and_go_at_the_stated_rates() -> None:
    churn = Churn(subscriptions=0.4, stay_us=60 * SECOND_US, away_us=20 * SECOND_US)
    found = spells(churn, 1_000)
    assert 360 < len(found) < 440
    stays = [until - start for each in found for start, until in each if start and until]
    gaps = [after[0] - before[1] for each in found for before, after in pairwise(each) if before[1]]
    assert fmean(stays) == pytest.approx(60 * SECOND_US, rel=0.03)
    assert fmean(gaps) == pytest.approx(20 * SECOND_US, rel=0.03)
    # As many are there at the start as later.
    for at_us in (0, HOUR_US // 2):
        there = sum(
            any(start <= at_us and (until is None or at_us < until) for start, until in each)
            for each in found
        )
        assert there / len(found) == pytest.approx(0.75, abs=0.08)


@given(st.integers(0, 50), st.integers(1, 300), st.integers(5, 100), st.integers(0, 600))
def test_a_subscription_is_away_for_longer_than_it_takes_to_make_and_withdraw(
    seed: int, stay_s: int, away_s: int, end_s: int
) -> None:
    churn = Churn(subscriptions=1.0, stay_us=stay_s * SECOND_US, away_us=away_s * SECOND_US)
    for each in spells(churn, 3, seed, end_s * SECOND_US):
        for (start, until), (start_again, _) in pairwise(each):
            assert until is not None
            assert start < until
            assert start_again - until > 4 * SECOND_US
        assert all(start <= end_s * SECOND_US for start, _ in each)
        assert all(until is None or until <= end_s * SECOND_US for _, until in each)


def test_another_subscription_changes_no_draw_and_another_seed_changes_all() -> None:
    churn = Churn(subscriptions=0.5)
    names = [f"s{number}" for number in range(40)]

    def draw(names: list[str], seed: int) -> dict[str, list[Spell]]:
        return subscription_spells(churn, names, end_us=HOUR_US, least_us=SECOND_US, seed=seed)

    whole = draw(names, 1)
    assert draw(names[::2], 1).items() <= whole.items()
    assert draw(names, 1) == whole != draw(names, 2)


# --- bursts -----------------------------------------------------------------------------------

BURSTS = Bursts(factor=5.0, every_us=60 * SECOND_US, length_us=2 * SECOND_US)


def test_bursts_have_the_stated_interval_and_factor() -> None:
    """Ten publications a second in the workload."""
    given_us = np.arange(0, 20 * HOUR_US, SECOND_US // 10)
    found = burst_times(BURSTS, given_us, 1)
    starts = np.array(burst_starts(BURSTS, int(found[-1]), 1))
    quiet_us = np.diff(starts) - BURSTS.length_us
    assert float(np.mean(quiet_us)) == pytest.approx(60 * SECOND_US, rel=0.1)
    in_bursts = sum(
        int(np.searchsorted(found, start + BURSTS.length_us) - np.searchsorted(found, start))
        for start in starts[:-1]
    )
    burst_rate = in_bursts / ((len(starts) - 1) * 2)
    rest_s = int(starts[-1]) / SECOND_US - 2 * (len(starts) - 1)
    rest_rate = (int(np.searchsorted(found, starts[-1])) - in_bursts) / rest_s
    assert (burst_rate, rest_rate) == (pytest.approx(50, rel=0.01), pytest.approx(10, rel=0.01))


@given(st.lists(st.integers(0, 400_000), min_size=1, max_size=200), st.integers(0, 20))
def test_bursts_keep_order_and_differences(times: list[int], seed: int) -> None:
    before = np.array(sorted(times))
    bursts = Bursts(factor=1_000.0, every_us=5_000, length_us=10)
    after = burst_times(bursts, before, seed)
    assert [a < b for a, b in pairwise(before)] == [a < b for a, b in pairwise(after)]
    assert (after == burst_times(bursts, before, seed)).all()


@given(
    st.lists(st.integers(0, 60), min_size=1, max_size=30, unique=True),
    st.integers(-5, 70),
    st.integers(0, 5),
)
def test_a_subscription_comes_between_the_same_events(
    times: list[int], from_us: int, seed: int
) -> None:
    before = np.array(sorted(times))
    after = burst_times(Bursts(factor=50.0, every_us=9, length_us=3), before, seed)
    moved = moved_time(from_us, before, after)
    assert moved is not None
    assert (before >= from_us).tolist() == (after >= moved).tolist()


# --- mobility ---------------------------------------------------------------------------------


def moves(mobility: Mobility, times: BrokerTimes, seed: int = 1) -> list[ClientMove]:
    subscribers = [f"c{number}" for number in range(500)]
    homes = {client: BROKERS[number % 4] for number, client in enumerate(subscribers)}
    publishers = ["c0", "p"]
    return client_moves(
        mobility,
        subscribers,
        publishers,
        {**homes, "p": "B1"},
        times,
        NEAREST,
        from_us=HOUR_US,
        until_us=2 * HOUR_US,
        seed=seed,
    )


def test_clients_move_at_the_stated_rate() -> None:
    found = moves(Mobility(subscribers=0.3, stay_us=60 * SECOND_US), BrokerTimes(BROKERS, {}, {}))
    clients = {move.client for move in found}
    assert 120 < len(clients) < 180
    assert "p" not in clients
    assert len(found) == pytest.approx(len(clients) * 60, rel=0.03)
    assert all(HOUR_US <= move.at_us < 2 * HOUR_US for move in found)
    for client in clients:
        own = [move for move in found if move.client == client]
        assert all(after.at_us - before.at_us >= MOVE_US for before, after in pairwise(own))
        assert all(after.broker != before.broker for before, after in pairwise(own))
    assert broker_at(found, "B9", HOUR_US - 1) == "B9"


def test_a_client_with_a_reach_moves_to_a_near_broker() -> None:
    mobility = Mobility(subscribers=1.0, stay_us=30 * SECOND_US, reach=2)
    for client in ("c0", "c7"):
        own = [
            move for move in moves(mobility, BrokerTimes(BROKERS, {}, {})) if move.client == client
        ]
        assert len(own) > 50
        assert all(after.broker in NEAREST[before.broker][:2] for before, after in pairwise(own))


def test_clients_move_to_brokers_that_are_there() -> None:
    join_us, leave_us = HOUR_US + 600 * SECOND_US, HOUR_US + 1_800 * SECOND_US
    times = BrokerTimes(BROKERS[:3], {"B4": join_us}, {"B2": leave_us})
    found = moves(Mobility(subscribers=1.0, publishers=1.0, stay_us=40 * SECOND_US), times)
    there = {broker: [move.at_us for move in found if move.broker == broker] for broker in BROKERS}
    assert min(there["B4"]) >= join_us
    assert max(there["B2"]) < leave_us - MOVE_US
    assert min(map(len, there.values())) > 100
    assert "p" in {move.client for move in found}
