"""Costs of a search of a bucket for a publication, in tests of conjunctions; no test is made."""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

from shoal.matching.filed.buckets import FilterBucket, Ladders, present
from shoal.model import Attributes

# So many characters are looked through in the time of one test, where patterns are made for it.
SHORT = 1_024


def cost_of(bucket: FilterBucket, attributes: Attributes) -> tuple[int, int, int]:
    """The most that a search of a bucket costs: conjunctions to test one by one, other work as so
    many tests, and ids that it finds without a test.
    """
    looks = 0
    tests = tested = _tested_in(bucket, attributes)
    if bucket.expression_work:
        # Of those on ladders some are tested: as costly as the others.
        looks += bucket.expression_work * tested // bucket.tests
    found = len(bucket.always)
    found += _passed(bucket.rising, True, attributes)
    found += _passed(bucket.falling, False, attributes)
    for _, ranged in present(bucket.ranged, attributes):
        for bitmaps in ranged:
            looked, matching = bitmaps.weigh(attributes.get)
            looks += looked
            found += matching
    if bucket.expressions is not None:
        tested, looked, matching = bucket.expressions.weigh(attributes)
        tests += tested
        looks += looked
        found += matching
    return tests, looks, found


def tests_in(bucket: FilterBucket, attributes: Attributes) -> int:
    """Return the cost of a search of a bucket, in tests."""
    tests = _tested_in(bucket, attributes)
    for _, ranged in present(bucket.ranged, attributes):
        tests += sum(bitmaps.tests for bitmaps in ranged)
    if bucket.expressions is not None:
        tests += bucket.expressions.tests
    return tests


def _tested_in(bucket: FilterBucket, attributes: Attributes) -> int:
    """Return how many of its conjunctions are tested one by one, but for those of ranges."""
    tests = len(bucket.others)
    for rising, ladders in bucket.tested.items():
        tests += _passed(ladders, rising, attributes)
    return tests


def longest_text(attributes: Attributes) -> int:
    """Return how many characters the longest text has."""
    return max((len(each) for each in attributes.values() if type(each) is str), default=0)


def _passed(by_attribute: dict[str, Ladders], rising: bool, attributes: Attributes) -> int:
    """Return how many thresholds of these ladders a publication passes."""
    count = 0
    for name, by_type in present(by_attribute, attributes) if by_attribute else ():
        value: Any = attributes.get(name)
        ladder = by_type.get(type(value))
        if ladder is not None:
            cut = bisect_right(ladder[0], value)
            count += cut if rising else len(ladder[1]) - cut
    return count
