"""Live brokers of your own system, killed under load: nothing acknowledged is lost.

Processes, plain MQTT clients, kill -9, moves of clients; an independent judge compares histories
with docs/background/guarantees.md. The built-in systems have this in `tests/chaos`.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from shoal.overlays.registry import MODULES, SYSTEMS
from tests.chaos.run import Run
from tests.chaos.schedule import make_plan
from tests.examples import at_length

OWN = [name for name in SYSTEMS if name not in MODULES]


@pytest.mark.usefixtures("processes_know_own_systems")
@pytest.mark.parametrize("system", OWN)
@pytest.mark.parametrize("seed", [1, *at_length(range(2, 10))])
def test_kills_under_load_lose_nothing_acknowledged(system: str, seed: int, tmp_path: Path) -> None:
    plan = make_plan(system, seed, seconds=4.0, faults=("kill", "kill two", "move"))
    outcome = asyncio.run(Run(plan, tmp_path).play())
    assert not outcome.violations, str(outcome)
    assert outcome.got > 0
