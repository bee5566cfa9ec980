"""A publisher's profile at one broker, and the direction closest to most subscribers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.overlays.publisher_relocation.pop.planner import Profile

COUNTS = st.dictionaries(st.sampled_from(["B1", "B2", "B3", "B4"]), st.integers(0, 50))


def profile_of(local: int, behind: dict[str, int]) -> Profile:
    profile = Profile(25)
    profile.add(local, behind)
    return profile


def test_the_newest_value_has_its_weight_and_the_first_is_the_average() -> None:
    profile = profile_of(4, {"B2": 8})
    assert (profile.local, profile.behind) == (4, {"B2": 8})
    profile.add(0, {"B2": 16, "B3": 4})
    assert (profile.local, profile.behind) == (3, {"B2": 10, "B3": 1})
    profile.add(3, {"B2": 10})  # no subscriber behind B3 was reached
    assert (profile.local, profile.behind) == (3, {"B2": 10, "B3": 0.75})


@pytest.mark.parametrize(
    ("local", "behind", "closest"),
    [
        (1, {"B2": 6, "B4": 3, "B5": 15}, "B5"),
        (5, {"B2": 6, "B4": 3, "B5": 14}, None),  # as many as all others: not more
        (6, {"B2": 6, "B4": 3, "B5": 14}, None),
        (0, {"B2": 1}, "B2"),
        (0, {"B2": 0}, None),
        (3, {}, None),
    ],
)
def test_the_closest_has_more_than_all_others_and_the_broker(
    local: int, behind: dict[str, int], closest: str | None
) -> None:
    assert profile_of(local, behind).closest() == closest


def test_upstream_subscribers_count_against_and_are_not_asked() -> None:
    profile = profile_of(2, {"B6": 15, "B1": 99})
    assert profile.closest(10, ["B1"]) == "B6"
    assert profile.closest(13, ["B1"]) is None
    assert profile.count(["B1", "B6"]) == 2


def test_a_gain_below_the_minimum_does_not_count() -> None:
    profile = profile_of(49, {"B2": 51})
    assert profile.closest(least_gain_percent=1) == "B2"
    assert profile.closest(least_gain_percent=2) is None


@given(st.integers(0, 50), COUNTS, st.integers(0, 50), st.integers(0, 100))
def test_the_rule_equals_its_definition(
    local: int, behind: dict[str, int], upstream: int, least_gain: int
) -> None:
    everybody = local + upstream + sum(behind.values())
    closest = [
        name
        for name, count in behind.items()
        if (count - (everybody - count)) * 100 > least_gain * everybody
    ]
    chosen = profile_of(local, behind).closest(upstream, (), least_gain)
    assert [chosen] == (closest or [None])
