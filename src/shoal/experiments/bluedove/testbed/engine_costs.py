"""The second cost of matching: that of our own engine, measured once and kept as data.

`benchmarks/bench_set_search.py` matches the evaluation's messages against sets of several sizes,
one message at a time, as a matcher does, and writes `engine_costs.toml` with the machine's
description. Between sizes, and beyond them, time is a power of the size. A run may have fewer
subscriptions than the paper, each standing for several.

>>> times = (SearchTime(10, 1_000, 0), SearchTime(1_000, 100_000, 0))
>>> round(search_ns(times, 100)), round(search_ns(times, 10_000)), search_ns(times, 0)
(10000, 1000000, 1000.0)
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import msgspec

from shoal.broker.effects import MatchingWork
from shoal.simulation.service import ServiceCosts
from shoal.typed_toml import convert, read_table

FILE = Path(__file__).with_name("engine_costs.toml")


class SearchTime(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A publication against so many subscriptions.

    single_ns   by itself, as matchers do it
    batch_ns    in a batch of 256, by the compiled index
    """

    subscriptions: int
    single_ns: int
    batch_ns: int


class Measurement(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A measurement, with date and machine."""

    date: str
    machine: str
    python: str
    command: str
    times: tuple[SearchTime, ...]


@lru_cache(1)
def measured() -> Measurement:
    """The file's measurement."""
    return convert(read_table(FILE), Measurement, FILE.name)


def search_ns(times: Sequence[SearchTime], subscriptions: float) -> float:
    """The time of one publication, by the two sizes nearest; never below the smallest size's."""
    if subscriptions <= times[0].subscriptions:
        return float(times[0].single_ns)
    sizes = [time.subscriptions for time in times]
    number = min(bisect_left(sizes, subscriptions), len(times) - 1)
    left, right = times[number - 1], times[number]
    power = math.log(right.single_ns / left.single_ns) / math.log(
        right.subscriptions / left.subscriptions
    )
    return float(left.single_ns * (subscriptions / left.subscriptions) ** power)


class EngineCosts(ServiceCosts, frozen=True, kw_only=True):
    """Costs of a matcher with our engine, slower by a factor.

    stands_for   so many subscriptions are searched for each that a set has
    """

    stands_for: int
    slowdown: int

    def work_us(self, work: MatchingWork) -> int:
        size = self.stands_for * work.searched / max(1, work.publications)
        return round(work.publications * _single_ns(size) * self.slowdown / 1_000)


@lru_cache(100_000)
def _single_ns(size: float) -> float:
    return search_ns(measured().times, size)
