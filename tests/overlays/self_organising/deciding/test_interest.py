"""The cache of interest, and summaries of it."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from shoal.overlays.self_organising.deciding.interest import (
    Cache,
    InterestSummary,
    bloom_filter,
    exact,
    notification_id,
    smallest,
)

BITS, HASHES = 100_000, 5


def ids(*numbers: int) -> list[int]:
    return [notification_id("P", number) for number in numbers]


def filled(numbers: range, entries: int = 8_192) -> Cache:
    cache = Cache(entries)
    for id in ids(*numbers):
        cache.add(id)
    return cache


def test_the_oldest_is_evicted_and_nothing_counts_twice() -> None:
    cache = filled(range(5), entries=3)
    assert sorted(map(int, cache.ids)) == sorted(ids(2, 3, 4))
    for id in ids(4, 3, 3, 0):  # 3 and 4 are known, so they keep their age
        cache.add(id)
    assert sorted(map(int, cache.ids)) == sorted(ids(3, 4, 0))
    assert len(cache) == 3


def test_a_summary_has_the_additions_since_the_last() -> None:
    cache = filled(range(3), entries=4)
    assert list(map(int, cache.turn())) == ids(0, 1, 2)
    assert len(cache.turn()) == 0
    for id in ids(3, 0, 4):  # over the end of the ring; 0 is known
        cache.add(id)
    assert list(map(int, cache.turn())) == ids(3, 4)
    for id in ids(*range(10, 20)):
        cache.add(id)
    assert list(map(int, cache.turn())) == ids(16, 17, 18, 19)


@pytest.mark.parametrize("count", [0, 1, 250, 2_500])
def test_summaries_miss_no_shared_notification_and_invent_few(count: int) -> None:
    there, here = filled(range(count)), filled(range(count // 2, count // 2 + 8_192))
    filter = bloom_filter(there.turn(), BITS, HASHES)
    common = count - count // 2
    assert common <= here.common(filter) <= common + 2
    assert here.common(exact(there.ids)) == common


def test_a_filters_error_rate_is_the_theoretical_one() -> None:
    """At the paper's cache size 0.43 % of absent notifications seem to be in the filter."""
    filter = bloom_filter(filled(range(8_192)).turn(), BITS, HASHES)
    strangers = filled(range(10_000, 110_000), entries=100_000)
    expected = (1 - np.exp(-HASHES * 8_192 / BITS)) ** HASHES
    assert strangers.common(filter) / 100_000 == pytest.approx(expected, rel=0.15)


def test_elements_of_two_filters_are_counted_in_both() -> None:
    here = filled(range(100))
    two = [
        bloom_filter(filled(numbers).turn(), BITS, HASHES) for numbers in (range(60), range(40, 99))
    ]
    assert here.common(*two) == 20


def test_identifiers_are_sent_where_they_are_smaller() -> None:
    few, many = filled(range(1_562)).turn(), filled(range(1_563)).turn()
    assert smallest(few, BITS, HASHES) == exact(few)
    assert smallest(many, BITS, HASHES) == bloom_filter(many, BITS, HASHES)
    assert len(exact(few).data) == 12_496


@pytest.mark.parametrize(
    "summary",
    [
        InterestSummary(0, 0, b"1234567"),
        InterestSummary(0, 1, b"12345678"),
        InterestSummary(16, 0, b"12"),
        InterestSummary(16, 33, b"12"),
        InterestSummary(-1, 5, b""),
        InterestSummary(16, 5, b"1"),
        InterestSummary(16, 5, b"123"),
        InterestSummary(1 << 40, 5, b""),
    ],
)
def test_an_invalid_summary_is_an_error(summary: InterestSummary) -> None:
    assert summary.problem()


def test_a_valid_summary_is_accepted() -> None:
    some = filled(range(9)).turn()
    assert not exact(some).problem()
    assert not bloom_filter(some, 13, 3).problem()


def test_every_process_makes_the_same_filter() -> None:
    program = (
        "from shoal.overlays.self_organising.deciding.interest import *\n"
        "cache = Cache(10)\n"
        "for number in range(8): cache.add(notification_id('Zoë', number))\n"
        "print(bloom_filter(cache.turn(), 64, 3).data.hex())"
    )

    def run(seed: str) -> str:
        environment = os.environ | {"PYTHONHASHSEED": seed}
        return subprocess.run(
            [sys.executable, "-c", program],
            env=environment,
            check=True,
            capture_output=True,
            text=True,
        ).stdout

    assert run("1") == run("2") != ""
