"""Live brokers of your own system, killed under load: nothing acknowledged is lost.

Processes, plain MQTT clients, kill -9, moves of clients; an independent judge compares histories
with docs/background/guarantees.md. The built-in systems have this in `tests/chaos`.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from shoal.overlays.registry import MODULES, SYSTEMS
from tests.examples import at_length

OWN = [name for name in SYSTEMS if name not in MODULES]
ROOT = Path(__file__).parents[2]


@pytest.mark.usefixtures("processes_know_own_systems")
@pytest.mark.parametrize("system", OWN)
@pytest.mark.parametrize("seed", [1, *at_length(range(2, 10))])
def test_kills_under_load_lose_nothing_acknowledged(system: str, seed: int, tmp_path: Path) -> None:
    options = {"seed": seed, "seconds": 4, "faults": "kill,kill two,move", "folder": tmp_path}
    command = [sys.executable, "-m", "tests.chaos", system]
    command += [f"--{name}={value}" for name, value in options.items()]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stdout + done.stderr
    assert " 0 delivered" not in done.stdout
