"""Filters with expressions: the index beside linear evaluation, as ratios from one run.

Run `python benchmarks/bench_expressions.py [filters]` (default 10,000). For each workload: the
median of RUNS runs, in messages per second, of every filter's tests one after the other, of single
publications through the index, and of batches through it. Answers are compared before.
"""

from __future__ import annotations

import random
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

from shoal.language import parse
from shoal.matching import MatchIndex
from shoal.matching.predicates import compile_conjunction

RUNS = 3
SECONDS = 0.2
MESSAGES = 200

Message = dict[str, Any]


def fences(chance: random.Random, number: int) -> str:
    del number
    place = f"{chance.uniform(-60, 70):.4f}, {chance.uniform(-170, 170):.4f}"
    return f"distance(lat, lon, {place}) <= {chance.randint(1, 200) * 1000}"


def own(chance: random.Random, bound: float) -> str:
    return f"a * {chance.uniform(0.5, 2):.3f} + {chance.uniform(0.5, 2):.3f} * b > {bound}"


WORKLOADS: dict[str, Callable[[random.Random, int], str]] = {
    "a chain of one attribute": lambda chance, number: (
        f"temp * {chance.uniform(0.5, 2):.3f} + 32 > {chance.uniform(150, 260):.2f}"
    ),
    "one expression, shared": lambda chance, number: f"a - b > {chance.uniform(80, 130):.3f}",
    "own expressions beside an equality": lambda chance, number: (
        f"room = {number} AND {own(chance, 20)}"
    ),
    "own expressions, rarely TRUE": lambda chance, number: own(chance, chance.uniform(300, 900)),
    "own expressions, every fifth TRUE": lambda chance, number: own(chance, 190),
    "two attributes beside two ranges": lambda chance, number: (
        f"temp BETWEEN {(low := chance.uniform(0, 90)):.2f} AND {low + 10:.2f} AND "
        f"{own(chance, 120)}"
    ),
    "fences by distance": fences,
    "an item of a list": lambda chance, number: f"array_contains(tags, 't{number}')",
    "an item of a list, and an expression": lambda chance, number: (
        f"array_contains(tags, 't{number % 100}') AND {own(chance, 150)}"
    ),
}


def some_message(chance: random.Random, filters: int) -> Message:
    tags = ",".join(f'"t{chance.randrange(filters)}"' for _ in range(5))
    return {
        "temp": chance.uniform(0, 100),
        "a": chance.uniform(0, 100),
        "b": chance.choice((chance.uniform(0, 100), chance.randint(0, 100))),
        "lat": chance.uniform(-60, 70),
        "lon": chance.uniform(-170, 170),
        "room": chance.randrange(filters),
        "$list.tags": f"[{tags}]",
    }


def rate(match: Callable[[], int]) -> float:
    """Messages per second, for SECONDS."""
    count, started = 0, time.perf_counter()
    while (spent := time.perf_counter() - started) < SECONDS:
        count += match()
    return count / spent


def measure(name: str, filters: int) -> None:
    chance = random.Random(name)
    texts = [WORKLOADS[name](chance, number) for number in range(filters)]
    parsed = [parse(text) for text in texts]
    messages = [some_message(chance, filters) for _ in range(MESSAGES)]
    tests = [[compile_conjunction(each) for each in filter.normal_form] for filter in parsed]
    index = MatchIndex()
    for number, filter in enumerate(parsed):
        index.add(number, filter)

    def linear(message: Message) -> list[int]:
        return [n for n, each in enumerate(tests) if any(test(message) for test in each)]

    found = 0
    offsets, ids = index.match_batch(messages)
    for number, message in enumerate(messages[:20]):
        truth = linear(message)
        found += len(truth)
        assert sorted(index.match(message)) == truth
        assert sorted(ids[offsets[number] : offsets[number + 1]].tolist()) == truth
    ways: dict[str, Callable[[], int]] = {
        "linear": lambda: len([linear(each) for each in chance.sample(messages, 1)]),
        "single": lambda: len([index.match(each) for each in chance.sample(messages, 10)]),
        "batch": lambda: len(index.match_batch(messages)[0]) - 1,
    }
    rates: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(RUNS):
        for way, match in ways.items():
            rates[way].append(rate(match))
    medians = {way: statistics.median(each) for way, each in rates.items()}
    print(
        f"{name:<38} {found / 20:>7.1f} {medians['linear']:>9,.0f} {medians['single']:>9,.0f}"
        f" {medians['batch']:>9,.0f} {medians['single'] / medians['linear']:>9,.0f}"
        f" {medians['batch'] / medians['linear']:>9,.0f}",
        flush=True,
    )


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    print(f"{count:,} filters{'':<24} matches  linear/s  single/s   batch/s   x single   x batch")
    for workload in WORKLOADS:
        measure(workload, count)
