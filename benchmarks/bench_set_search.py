"""The time of our engine to match a message against sets of several sizes.

Run `python benchmarks/bench_set_search.py`; with `--write` the figures become the second cost model
of `shoal reproduce bluedove` (`engine_costs.toml`). Messages and subscriptions are those of the
evaluation; a time is the least processor time of several rounds, with single messages and in
batches of 256.
"""

from __future__ import annotations

import datetime
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import msgspec
import tomli_w

from shoal.experiments.bluedove.testbed.engine_costs import FILE, Measurement, SearchTime
from shoal.experiments.bluedove.testbed.workload import BlueDoveWorkload
from shoal.matching import MatchIndex

SIZES = (10, 30, 100, 300, 1_000, 3_000, 10_000, 20_000, 40_000)
BATCH = 256
ROUNDS = 7
# Searches after which no further compilation happens.
ENOUGH = 200
# The approximate length of a round.
ROUND_S = 0.2


def least_s(work: Callable[[], object]) -> float:
    """The least processor time of one call."""
    started = time.process_time()
    work()
    calls = max(1, round(ROUND_S / max(1e-6, time.process_time() - started)))
    rounds = []
    for _ in range(ROUNDS):
        started = time.process_time()
        for _ in range(calls):
            work()
        rounds.append((time.process_time() - started) / calls)
    return min(rounds)


def measure() -> list[SearchTime]:
    workload = BlueDoveWorkload(Random(1), deviation=250.0, adverse=0)
    filters = [workload.filter() for _ in range(max(SIZES))]
    rows = workload.messages(BATCH).tolist()
    messages = [dict(zip(workload.attributes, row, strict=True)) for row in rows]
    times = []
    for size in SIZES:
        index = MatchIndex()
        for number, filter in enumerate(filters[:size]):
            index.add(number, filter)
        few = messages[: max(8, BATCH * 100 // size)]
        for _ in range(ENOUGH // len(few)):
            for one in few:  # filters that are searched often are compiled, step by step
                index.match(one)
        single_s = least_s(lambda index=index, few=few: [index.match(one) for one in few])
        index.match_batch(messages)  # compiled before it is timed
        batch_s = least_s(lambda index=index: index.match_batch(messages))
        found = SearchTime(size, round(single_s / len(few) * 1e9), round(batch_s / BATCH * 1e9))
        print(f"{size:>8,}  {found.single_ns:>12,} ns alone  {found.batch_ns:>8,} ns in a batch")
        times.append(found)
    return times


def machine() -> str:
    """The processor's name, if the system has it."""
    file = Path("/proc/cpuinfo")
    lines = file.read_text().splitlines() if file.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{len(names)} x {names[0]}" if names else platform.processor()


def main() -> None:
    times = measure()
    if "--write" not in sys.argv[1:]:
        return
    measurement = Measurement(
        date=datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        machine=machine(),
        python=platform.python_version(),
        command="python benchmarks/bench_set_search.py --write",
        times=tuple(times),
    )
    FILE.write_text(tomli_w.dumps(msgspec.to_builtins(measurement)), encoding="utf-8")
    print(f"-> {FILE}")


if __name__ == "__main__":
    main()
