"""How long it takes to reduce 100,000 subscriptions to those that no other one covers.

Run `python benchmarks/bench_covering.py`.  Stock subscriptions as in `bench_matching` (equality on
class and symbol and none to two comparisons, 500 symbols); the same without those that ask for a
symbol alone, which cover most others; and 10,000 boxes of three ranges, of which most are kept.
What is kept of a sample is held against asking every pair.  Then the median and 99th percentile of
one add or remove.  Exits with 1 when the first workload takes longer than the target, or a sample
is wrong.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Sequence

from shoal.matching import CoveringSet, covering_set, covers
from shoal.model import And, Filter, Operator, Predicate, predicate

SUBSCRIPTIONS = 100_000
BOXES = 10_000
SYMBOLS = 500
NUMBER_NAMES = ("open", "high", "low", "close")
CHECKED_SUBSCRIPTIONS = 400
CHANGES = 5_000
TARGET_S = 5.0

Make = Callable[[random.Random], Filter]


def stock_filter(
    chance: random.Random, *, least_comparisons: int = 0, symbols: int = SYMBOLS
) -> Filter:
    tests = [
        predicate("class", Operator.EQ, "STOCK"),
        predicate("symbol", Operator.EQ, f"S{chance.randrange(symbols)}"),
    ]
    for name in chance.sample(NUMBER_NAMES, chance.randint(least_comparisons, 2)):
        side = chance.choice((Operator.GE, Operator.LE))
        tests.append(predicate(name, side, float(chance.randrange(100))))
    return made(tests)


def compared_filter(chance: random.Random) -> Filter:
    return stock_filter(chance, least_comparisons=1)


def box_filter(chance: random.Random) -> Filter:
    tests = []
    for name in ("a0", "a1", "a2"):
        low = chance.uniform(0, 1000)
        tests.append(predicate(name, Operator.GE, low))
        tests.append(predicate(name, Operator.LE, low + chance.uniform(1, 250)))
    return made(tests)


def made(tests: Sequence[Predicate]) -> Filter:
    """The filter as the parser would hand it over: with its normal form."""
    filter = Filter(And(tuple(tests)))
    filter.normal_form  # noqa: B018
    return filter


def is_right(filters: Sequence[Filter]) -> bool:
    """Whether what is kept is what asking every pair keeps: the first of those that are equal."""
    kept = [
        one
        for at, one in enumerate(filters)
        if not any(
            covers(other, one) and (before < at or not covers(one, other))
            for before, other in enumerate(filters)
            if before != at
        )
    ]
    return covering_set(filters) == kept


def bench(title: str, make: Make, size: int) -> float:
    """Print how many are kept, and how long it took."""
    chance = random.Random(1)
    filters = [make(chance) for _ in range(size)]
    table: CoveringSet[int] = CoveringSet()
    started = time.perf_counter()
    for id, each in enumerate(filters):
        table.add(id, each)
    took_s = time.perf_counter() - started
    times_us = []
    for _ in range(CHANGES):
        id, each = chance.randrange(size), make(chance)
        started = time.perf_counter()
        table.remove(id)
        between = time.perf_counter()
        table.add(id, each)
        times_us += [1e6 * (between - started), 1e6 * (time.perf_counter() - between)]
    times_us.sort()
    print(
        f"{title:<38} {size:>8,} -> {len(table.kept):>6,} in {took_s:5.2f} s; one change: median "
        f"{times_us[CHANGES]:,.0f} us, 99th percentile {times_us[CHANGES * 2 * 99 // 100]:,.0f} us"
    )
    return took_s


def main() -> int:
    chance = random.Random(2)
    stocks = [stock_filter(chance, symbols=20) for _ in range(CHECKED_SUBSCRIPTIONS)]
    boxes = [box_filter(chance) for _ in range(CHECKED_SUBSCRIPTIONS)]
    right = is_right(stocks) and is_right(boxes)
    print(f"against every pair of {CHECKED_SUBSCRIPTIONS}: {'equal' if right else 'WRONG'}")
    took_s = bench("stock subscriptions", stock_filter, SUBSCRIPTIONS)
    bench("stock subscriptions with a comparison", compared_filter, SUBSCRIPTIONS)
    bench("boxes of three ranges", box_filter, BOXES)
    return 0 if right and took_s < TARGET_S else 1


if __name__ == "__main__":
    sys.exit(main())
