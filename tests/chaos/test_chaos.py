"""Networks of processes under random faults, judged from outside.

By hand, with more seeds, or few kinds of faults: `python -m tests.chaos --help`.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.chaos.run import Run
from tests.chaos.schedule import SYSTEMS, make_plan

# Together with the systems some 300 runs.
SOAK_SEEDS = 75


def play(system: str, seed: int, seconds: float, folder: Path, *faults: str) -> None:
    plan = make_plan(system, seed, seconds, faults)
    outcome = asyncio.run(Run(plan, folder).play())
    assert not outcome.violations, str(outcome)
    assert outcome.taken > 0
    assert outcome.got > 0


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_short_run(tmp_path: Path, system: str) -> None:
    play(system, 1, 3.0, tmp_path, "kill", "move", "leave")


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(SOAK_SEEDS))
@pytest.mark.parametrize("system", SYSTEMS)
def test_chaos(tmp_path: Path, system: str, seed: int) -> None:
    play(system, seed, 20.0, tmp_path)
