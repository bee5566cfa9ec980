"""How fast the match index answers one publication at a time, beside what else can be installed.

Run `python benchmarks/bench_one_by_one.py [subscriptions ...]` (default: 100 1,000 10,000).
Subscriptions of four ranges each, as W1 of `bench_matching.py`, are added one by one, as a broker
gets them; publications are dictionaries.  Every engine answers the same publications with the ids
of all matches, by turns; all answers are held against brute force first.  Prints the median of
RUNS runs in microseconds of wall time for each publication, the ratio to the best peer, and what a
subscription costs that is replaced before every publication.  Exits with 1 when shoal errs.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
import rtree.index

from bench_matching import RANGE_MEANS, RANGE_NAMES, truncated_normal
from shoal.matching import MatchIndex
from shoal.model import And, Filter, Operator, predicate

RUNS = 7
PUBLICATIONS = 300
CHANGES = 300

Publication = dict[str, float]
Engine = Callable[[Publication], list[int]]


def filter_of(low: list[float], high: list[float]) -> Filter:
    tests = [
        predicate(name, operator, bound)
        for name, *bounds in zip(RANGE_NAMES, low, high, strict=True)
        for operator, bound in zip((Operator.GE, Operator.LE), bounds, strict=True)
    ]
    return Filter(And(tuple(tests)))


def brute_force(low: np.ndarray, high: np.ndarray) -> Engine:
    lows, highs = np.ascontiguousarray(low.T), np.ascontiguousarray(high.T)

    def find(publication: Publication) -> list[int]:
        passed = np.ones(len(low), np.bool_)
        for at, value in enumerate(publication.values()):
            passed &= (lows[at] <= value) & (value <= highs[at])
        return np.flatnonzero(passed).tolist()

    return find


def python_rtree(low: np.ndarray, high: np.ndarray) -> Engine:
    boxes = np.concatenate((low, high), axis=1).tolist()
    tree = rtree.index.Index(
        ((at, box, None) for at, box in enumerate(boxes)),
        properties=rtree.index.Property(dimension=4),
    )
    return lambda publication: list(tree.intersection([*publication.values()] * 2))


def median_us(find: Callable[[], object], rounds: int) -> float:
    taken = []
    for _ in range(rounds):
        started = time.perf_counter()
        find()
        taken.append(time.perf_counter() - started)
    return statistics.median(taken) * 1e6


def bench(subscriptions: int) -> bool:
    random = np.random.default_rng(1)
    centres = np.stack([truncated_normal(random, mean, subscriptions) for mean in RANGE_MEANS], 1)
    low, high = centres - 125, centres + 125
    filters = [filter_of(*bounds) for bounds in zip(low.tolist(), high.tolist(), strict=True)]
    index = MatchIndex()
    for id, filter in enumerate(filters):
        index.add(id, filter)
    points = random.uniform(0, 1000, (PUBLICATIONS, 4)).tolist()
    publications = [dict(zip(RANGE_NAMES, point, strict=True)) for point in points]
    engines: dict[str, Engine] = {
        "shoal": index.match,
        "numpy brute force": brute_force(low, high),
        "rtree": python_rtree(low, high),
    }
    for _ in range(2):  # what is asked often is compiled first
        found = {
            name: [sorted(find(each)) for each in publications] for name, find in engines.items()
        }
    if found["shoal"] != found["numpy brute force"]:
        print(f"{subscriptions:>8,} subscriptions: shoal and brute force differ")
        return False
    taken: dict[str, list[float]] = {name: [] for name in engines}
    for _ in range(RUNS):
        for name, find in engines.items():
            started = time.perf_counter()
            for publication in publications:
                find(publication)
            taken[name].append((time.perf_counter() - started) / PUBLICATIONS * 1e6)
    medians = {name: statistics.median(each) for name, each in taken.items()}
    best = min(each for name, each in medians.items() if name != "shoal")
    matches = sum(map(len, found["shoal"])) / PUBLICATIONS
    print(f"{subscriptions:,} subscriptions of 4 ranges, {matches:.1f} match")
    for name, each in medians.items():
        print(f"  {name:20} {each:>10,.1f} us")
    print(f"  best peer / shoal    {best / medians['shoal']:>10,.1f}")

    changes = iter(range(CHANGES))

    def change() -> None:
        number = next(changes)
        index.add(number % subscriptions, filters[number % subscriptions])
        index.match(publications[number % PUBLICATIONS])

    print(f"  one replaced, one match {median_us(change, CHANGES):>7,.1f} us")
    return True


def main(chosen: list[str]) -> int:
    sizes = [int(each.replace(",", "")) for each in chosen] or [100, 1_000, 10_000]
    return 0 if all(bench(size) for size in sizes) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
