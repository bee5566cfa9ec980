"""Late subscribers of real processes get each acknowledged publication, under kills and moves."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.live.pasts.rounds import play


@pytest.mark.parametrize("seed", range(1))
def test_late_subscribers_get_the_past_and_the_present(seed: int, tmp_path: Path) -> None:
    play(seed, tmp_path / "net")


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1, 20))
def test_many_late_subscribers_get_the_past_and_the_present(seed: int, tmp_path: Path) -> None:
    play(seed, tmp_path / "net")
