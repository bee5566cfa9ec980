"""Whether the saturation rates of `shoal reproduce bluedove` depend on how long its trials are.

Run `python benchmarks/bench_trials.py`: for each run whose limit is tried (where forwarding looks
at loads; the others' is arithmetic) the rate with trials as they are and twice as long, and the
change.  Names of runs may be given; it ends with 1 if any changes by 3 % or more.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from shoal.experiments.bluedove.grid import (
    SCALES,
    adverse_name,
    deviation_name,
    grid,
    policy_name,
    rate_name,
)
from shoal.experiments.bluedove.runs import measure_rate
from shoal.overlays.bluedove.cluster.forwarding import Policy

RUNS = (
    rate_name("bluedove", 5),
    rate_name("bluedove", 20),
    policy_name(Policy.RESPONSE_TIME),
    deviation_name(1_000),
    adverse_name(4),
)
MOST = 0.03


def main(names: list[str]) -> int:
    runs = {run.name: run for run in grid(SCALES["small"], Path("unused"), seed=1)}
    changes = []
    print(f"{'run':24}{'rate':>10}{'twice':>10}{'change':>9}{'s':>6}{'s':>6}")
    for name in names or RUNS:
        run, rates, took_s = runs[name], [], []
        for factor in (1, 2):
            started = time.process_time()
            values, _ = measure_rate(run.setting, run.messages * factor)
            rates.append(values["rate_per_s"])
            took_s.append(time.process_time() - started)
        changes.append(rates[1] / rates[0] - 1)
        figures = f"{rates[0]:10,.0f}{rates[1]:10,.0f}{changes[-1]:+9.1%}"
        print(f"{name:24}{figures}{took_s[0]:6.0f}{took_s[1]:6.0f}", flush=True)
    return int(max(map(abs, changes)) >= MOST)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
