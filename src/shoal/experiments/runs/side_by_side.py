"""Several scenarios at once, one process each, as many at a time as there are processors.

A run depends on its scenario alone, so the runs are the same files whether they are made together
or one after the other.  Processes are spawned, not forked: the caller may have threads, and a
Spark session, that a fork would tear.

Example: `simulate_all([(scenario, Path("runs/load"))], progress=print)` calls `print(0, 0.37)`
when scenario 0 is about a third through.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.sharedctypes import SynchronizedArray
from pathlib import Path

from shoal.experiments.runs.run_folder import RunFolder, check_target
from shoal.experiments.runs.runner import run_scenario
from shoal.experiments.scenarios.scenario import Scenario

# Interval of progress reports; a display needs no more.
REPORT_INTERVAL_S = 0.2

_shares: SynchronizedArray[float] | None = None


class SimulationDiedError(RuntimeError):
    """A simulating process ended without a word, most likely for want of memory."""


def simulate_all(
    runs: Sequence[tuple[Scenario, Path]],
    progress: Callable[[int, float], None],
    *,
    overwrite: bool = False,
    processes: int | None = None,
) -> None:
    """Run every scenario and write it to its folder; ValueError as from `run_scenario`.

    `progress` is told the index of a scenario and the share of it that is done, 0 to 1.
    """
    for _, folder in runs:
        check_target(folder, overwrite=overwrite)
    context = multiprocessing.get_context("spawn")
    shares = context.Array("d", len(runs))
    workers = min(len(runs), processes or os.cpu_count() or 1)
    with ProcessPoolExecutor(workers, context, _start_worker, (shares,)) as pool:
        futures = [
            pool.submit(_simulate, index, scenario, folder, overwrite)
            for index, (scenario, folder) in enumerate(runs)
        ]
        try:
            _watch(futures, shares, progress)
        except BrokenProcessPool:
            raise SimulationDiedError(
                "a simulation ended unexpectedly; is there enough memory?"
            ) from None
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _watch(
    futures: Sequence[Future[None]],
    shares: SynchronizedArray[float],
    progress: Callable[[int, float], None],
) -> None:
    pending = set(futures)
    while pending:
        done, pending = wait(pending, timeout=REPORT_INTERVAL_S)
        for index in range(len(futures)):
            progress(index, shares[index])
        for future in done:
            future.result()


def _start_worker(shares: SynchronizedArray[float]) -> None:
    global _shares
    _shares = shares


def _simulate(index: int, scenario: Scenario, folder: Path, overwrite: bool) -> None:
    shares = _shares

    def tell(now_us: int, end_us: int, behind_us: int = 0) -> None:
        if shares is not None:
            shares[index] = min(1.0, now_us / max(end_us, 1))

    with RunFolder(folder, overwrite=overwrite) as run:
        result = run_scenario(scenario, progress=tell, sink=run.sink)
        run.finish(result.checks, scenario)
    tell(1, 1)
