"""Heavy keys are found in bounded memory, and durations fall into their buckets."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.runtime.traffic.heavy_hitters import SPAN_US, Lately, SpaceSaving
from shoal.runtime.traffic.latency import BUCKETS, ELSEWHERE, HERE, WINDOW_US, Latencies


@given(st.lists(st.tuples(st.sampled_from("abcdefghij"), st.integers(1, 9)), max_size=60))
def test_weights_are_upper_bounds_and_heavy_keys_are_present(
    stream: list[tuple[str, int]],
) -> None:
    sketch, true = SpaceSaving(capacity=4), dict.fromkeys("abcdefghij", 0)
    for key, weight in stream:
        sketch.add(key, weight)
        true[key] += weight
    total = sum(true.values())
    assert len(sketch.weights) <= 4
    assert sum(sketch.weights.values()) == total
    assert all(weight >= true[key] for key, weight in sketch.weights.items())
    assert all(key in sketch.weights for key, weight in true.items() if weight > total / 4)


def test_a_heavy_key_is_found_among_10_000_others() -> None:
    sketch, draw = SpaceSaving(), random.Random(1)
    for number in range(10_000):
        sketch.add("noisy" if draw.random() < 0.05 else f"c{number}", 1)
    assert sketch.heaviest(1)[0][0] == "noisy"


def test_old_weights_do_not_count() -> None:
    lately = Lately(now_us=0)
    lately.add("old", 1_000, now_us=1)
    lately.add("new", 240, now_us=SPAN_US + 1)
    found = dict(lately.heaviest(5, now_us=2 * SPAN_US))
    assert found == {"old": pytest.approx(1_000 / 240), "new": pytest.approx(1.0)}
    assert [key for key, _ in lately.heaviest(5, now_us=2 * SPAN_US + 2)] == ["new"]
    assert lately.heaviest(5, now_us=9 * SPAN_US) == []


def test_durations_are_separated_by_clock_and_percentiles_are_recent() -> None:
    latencies = Latencies()
    latencies.note(700, HERE, 99, now_us=0)
    latencies.note(3_000_000, HERE, 1, now_us=0)
    latencies.note(-5_000, ELSEWHERE, 2, now_us=0)
    found = latencies.status(now_us=1)
    assert found["ahead"] == 2
    assert found[HERE]["buckets"][-1] == found[HERE]["count"] == 100
    assert found[HERE]["p50_s"] < 0.001
    assert found[HERE]["p99_s"] <= 0.001
    assert found[ELSEWHERE]["p99_s"] <= BUCKETS[0]
    later = latencies.status(now_us=3 * WINDOW_US)
    assert later[HERE]["p50_s"] is None
    assert later[HERE]["count"] == 100
