"""Plays an afternoon of each system, in the soak; `python -m tests.afternoon` prints its steps."""

from __future__ import annotations

from pathlib import Path

import pytest

from shoal.overlays.registry import MODULES
from tests.afternoon.play import play

# The soak runs beside other tests.
FACTOR = 2.0


@pytest.mark.soak
@pytest.mark.parametrize("system", MODULES)
def test_an_afternoon_ends_without_a_fault(tmp_path: Path, system: str) -> None:
    assert play(tmp_path, system, FACTOR) == []
