"""A run does not depend on the order of Python's sets, which the hash seed of a process decides."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from shoal.overlays.registry import MODULES, SYSTEMS
from tests.contract import printed_run
from tests.examples import at_length

OWN = [name for name in SYSTEMS if name not in MODULES]


def printed(system: str, hash_seed: str) -> str:
    environment = os.environ | {
        "PYTHONHASHSEED": hash_seed,
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    command = [sys.executable, printed_run.__file__, system]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    return done.stdout


@pytest.mark.usefixtures("processes_know_own_systems")
@pytest.mark.parametrize("system", [*OWN, *at_length(MODULES)])
def test_two_hash_seeds_give_the_same_run(system: str) -> None:
    first = printed(system, "1")
    assert first.count("\n") > 100
    assert first == printed(system, "2"), (
        f"{system}: the order of a set decides something; iterate over sorted(...) or a dict"
    )
