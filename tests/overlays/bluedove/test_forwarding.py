"""Forwarding policies: the figures that each compares, and random choice among equals."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from shoal.overlays.bluedove.cluster.forwarding import Candidate, Load, Policy, choose, has_changed


def load(queue: int = 0, arrival: float = 0.0, matching: float = 1.0, size: int = 1) -> Load:
    return Load(queue=queue, arrival_per_s=arrival, matching_per_s=matching, subscriptions=size)


def chosen(policy: Policy, loads: dict[str, Load | None], now_us: int = 0) -> Counter[str]:
    candidates = [Candidate(0, name, row, 0) for name, row in loads.items()]
    random = Random(1)
    return Counter(choose(policy, candidates, now_us, random).matcher for _ in range(60))


def test_each_policy_compares_its_own_figure() -> None:
    loads: dict[str, Load | None] = {
        "small": load(queue=50, arrival=10, matching=100, size=1),
        "short": load(queue=5, arrival=200, matching=100, size=9),
        "draining": load(queue=20, arrival=0, matching=100, size=9),
    }
    assert chosen(Policy.SUBSCRIPTIONS, loads, 500_000) == {"small": 60}
    assert chosen(Policy.RESPONSE_TIME, loads, 500_000) == {"short": 60}
    assert chosen(Policy.ADAPTIVE, loads, 500_000) == {"draining": 60}
    assert chosen(Policy.RANDOM, loads).keys() == loads.keys()


@pytest.mark.parametrize("policy", list(Policy))
def test_equal_matchers_are_chosen_at_random(policy: Policy) -> None:
    counts = chosen(policy, {"A": load(), "B": load()})
    assert min(counts["A"], counts["B"]) > 10


@pytest.mark.parametrize("policy", [each for each in Policy if each is not Policy.RANDOM])
def test_a_matcher_of_unknown_load_is_tried(policy: Policy) -> None:
    assert chosen(policy, {"A": load(), "B": None}) == {"B": 60}


def test_a_queue_estimate_does_not_become_negative() -> None:
    fast, idle = load(queue=3, arrival=0, matching=10), load(queue=0, arrival=0, matching=11)
    assert chosen(Policy.ADAPTIVE, {"fast": fast, "idle": idle}, 60_000_000) == {"idle": 60}


def test_loads_change_by_more_than_their_share() -> None:
    before = load(queue=10, arrival=100, matching=50, size=1000)
    assert not has_changed(before, before, 0.1)
    assert not has_changed(before, load(queue=11, arrival=91, matching=54, size=1099), 0.1)
    assert has_changed(before, load(queue=12, arrival=100, matching=50, size=1000), 0.1)
    assert has_changed(load(), load(queue=1), 0.1)


@pytest.mark.parametrize("wrong", [{"matching": 0.0}, {"queue": -1}, {"matching": float("nan")}])
def test_an_invalid_load_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="is no load"):
        load(**wrong)  # type: ignore[arg-type]
