"""The search for saturation finds it, and only linear growth counts as saturation."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from shoal.experiments.bluedove.testbed.saturation import (
    highest,
    is_growing,
    is_piling_up,
    limit_by_arithmetic,
    lowered,
    saturation_rate,
    trial_s,
)
from shoal.experiments.bluedove.testbed.testbed import BlueDoveSetting, LoadedCluster, Responses

TIMES_US = np.arange(0.0, 30e6, 5_000.0)
NOISE = np.random.default_rng(5).exponential(50_000.0, len(TIMES_US))


@pytest.mark.parametrize("limit", [0.7, 3.0, 40.0, 1_000.0])
@pytest.mark.parametrize("first", [1.0, 64.0, 5_000.0])
def test_the_highest_value_is_found_from_anywhere(limit: float, first: float) -> None:
    found = highest(lambda value: value <= limit, first)
    assert limit / 1.05 < found <= limit
    assert limit / 1.021 < lowered(lambda value: value <= limit, found * 1.2) <= limit


@pytest.mark.parametrize(
    ("extra_us", "growing"),
    [
        (np.zeros(len(TIMES_US)), False),
        (0.2 * TIMES_US, True),
        (np.where(np.arange(len(TIMES_US)) % 40 == 0, 0.3 * TIMES_US, 0), True),  # one of forty
        (np.where(TIMES_US < 5e6, 200_000.0, 0.0), False),  # at first only
        (200_000 * np.sin(TIMES_US / 2e6), False),
        (np.where(TIMES_US[99] == TIMES_US, np.inf, 0.0), True),
    ],
)
def test_linear_growth_is_saturation(extra_us: np.ndarray, growing: bool) -> None:
    assert is_growing(Responses(TIMES_US, 300_000 + NOISE + extra_us)) is growing


def test_an_empty_queue_does_not_grow() -> None:
    empty = np.array([])
    assert not is_growing(Responses(empty, empty))
    assert not is_growing(Responses(TIMES_US, np.full(len(TIMES_US), 7.0)))


def test_faster_work_after_the_last_message_is_still_growth() -> None:
    """A queue that grows all the time is emptied faster afterwards, by the free cores."""
    took_us = 0.3 * TIMES_US
    end_us = TIMES_US[-1]
    late = took_us + TIMES_US > end_us
    took_us[late] = (end_us - TIMES_US[late]) * 1.05 + 1_000
    assert is_growing(Responses(TIMES_US, took_us))


def test_a_message_of_the_first_half_that_still_waits_is_growth() -> None:
    took_us = np.where(TIMES_US[40] == TIMES_US, 40e6, 100_000.0)
    assert is_growing(Responses(TIMES_US, took_us))


@pytest.mark.parametrize(
    ("waiting", "grows"),
    [
        ([100] * 16, False),
        ([0] * 4 + [100] * 12, False),
        ([100] * 12 + [300] * 4, True),
        (list(range(100, 900, 50)), True),
        ([1] * 12 + [5] * 4, False),  # more, and next to nothing
    ],
)
def test_a_queue_may_vary_without_growth(waiting: list[int], grows: bool) -> None:
    assert is_piling_up(waiting, 400.0) is grows


def test_a_trial_has_as_many_messages_for_each_matcher_however_slow_it_is() -> None:
    setting = BlueDoveSetting(matchers=20)
    assert trial_s(setting, 500.0, 2_000) == 80
    assert trial_s(setting, 50.0, 2_000) == 800
    assert trial_s(setting, 5_000.0, 2_000) == 40
    assert trial_s(msgspec.structs.replace(setting, report_s=10), 5_000.0, 2_000) == 100


FULL = BlueDoveSetting(
    system="full replication", matchers=3, subscriptions=40, search_ns=60_000, dispatchers=2
)


@pytest.mark.parametrize("messages", [150, 300])
def test_the_saturation_of_load_blind_forwarding_is_calculated(messages: int) -> None:
    """12 cores, 40 subscriptions of 6 ms each (100 times slower): 12 / 0.24 s = 50 a second.

    Trials alone give 45 or less, and more the longer they are.
    """
    testbed = LoadedCluster(FULL)
    assert limit_by_arithmetic(testbed) == pytest.approx(50, rel=0.02)
    assert saturation_rate(testbed, messages) == pytest.approx(50, rel=0.02)


def test_a_trial_that_contradicts_the_calculation_counts() -> None:
    # Dispatching takes 0.1 s, and more for answers: two dispatchers are too slow.
    slow = msgspec.structs.replace(FULL, slowdown=100_000, search_ns=60)
    testbed = LoadedCluster(slow)
    assert limit_by_arithmetic(testbed) == pytest.approx(50, rel=0.02)
    assert saturation_rate(testbed, 40) < 20
