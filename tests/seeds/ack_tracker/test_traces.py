"""A seed's run depends on the seed only, not on earlier runs or hashes of strings."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.seeds.ack_tracker.ack_tracker_networks import PLAYED
from tests.seeds.ack_tracker.traces import traces, wear_out

# A cluster, an overlay with cycles, and shared views; other systems are of these kinds.
KINDS = ("bluedove", "octopia", "dynatops")


@pytest.mark.parametrize(
    ("systems", "seed"), [(KINDS, 4), pytest.param(PLAYED, 0, marks=pytest.mark.soak)]
)
def test_a_run_is_a_function_of_its_seed(systems: tuple[str, ...], seed: int) -> None:
    """Each is played here after the earlier ones, in another process after the later ones."""
    code = [sys.executable, "-m", "tests.seeds.ack_tracker.traces", str(seed), *reversed(systems)]
    environment = os.environ | {
        "PYTHONHASHSEED": "7",
        "PYTHONPATH": os.pathsep.join(filter(None, (str(Path.cwd()), *sys.path))),
    }
    other = subprocess.run(code, env=environment, check=True, capture_output=True, text=True)
    wear_out()
    assert traces(systems, seed) == json.loads(other.stdout)
