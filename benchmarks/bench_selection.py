"""The time of GRAPE's broker selection: 10,000 brokers, and against the paper's quadratic form.

Run `python benchmarks/bench_selection.py`. It prints the median time of one whole selection (both
steps, all ping times known) on random trees, lines and stars of 10,000 brokers with 100-bit
vectors, and on a tree of 1,000 brokers also that of the tests' quadratic twin. The exit code is 1
if the random tree takes longer than the target.
"""

from __future__ import annotations

import random
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.overlays.publisher_relocation.grape.naive_planner import naive_select
from tests.overlays.publisher_relocation.grape.sessions import random_session

from shoal.overlays.publisher_relocation.choosing import Priority
from shoal.overlays.publisher_relocation.grape.planner import Snapshot, select

BROKERS = 10_000
TWIN_BROKERS = 1_000
TARGET_MS = 100.0
RUNS = 9


def median_ms(work: Callable[[], object], runs: int = RUNS) -> float:
    """Median wall time of `runs` calls in milliseconds."""
    times = []
    for _ in range(runs):
        started = time.perf_counter()
        work()
        times.append(1_000 * (time.perf_counter() - started))
    return statistics.median(times)


def report(label: str, snapshot: Snapshot, ping_us: dict[str, int]) -> float:
    """Print and return the slower priority's median."""
    medians = {
        priority: median_ms(lambda priority=priority: select(snapshot, priority, 50, ping_us))
        for priority in Priority
    }
    figures = ", ".join(f"{priority.value} {ms:.1f} ms" for priority, ms in medians.items())
    print(f"{label:>8} of {len(snapshot.traces):,} brokers: {figures}")
    return max(medians.values())


def main() -> int:
    generator = random.Random(1)
    slowest = 0.0
    for shape in ("random", "line", "star"):
        slowest = max(slowest, report(shape, *random_session(generator, BROKERS, shape)))
    snapshot, ping_us = random_session(generator, TWIN_BROKERS, "random")
    linear = median_ms(lambda: select(snapshot, Priority.LOAD, 50, ping_us))
    quadratic = median_ms(lambda: naive_select(snapshot, Priority.LOAD, 50, ping_us), runs=3)
    print(
        f"twin on {TWIN_BROKERS:,} brokers: linear {linear:.1f} ms, quadratic {quadratic:,.0f} ms, "
        f"ratio {quadratic / linear:,.0f}"
    )
    print(f"target {TARGET_MS:.0f} ms: {'met' if slowest < TARGET_MS else 'MISSED'}")
    return 0 if slowest < TARGET_MS else 1


if __name__ == "__main__":
    raise SystemExit(main())
