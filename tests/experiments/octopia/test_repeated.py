"""Bursts with repeated effects give the figures of bursts that machines handle whole."""

from __future__ import annotations

import pytest

from shoal.experiments.octopia.grid import OURS, PAPERS, OctopiaSetting, Way
from shoal.experiments.octopia.repeated import RepeatedEffects
from shoal.experiments.octopia.runs import measure_burst

ROWS = [[{"symbol": f"X{number}", "close": 1.0}] for number in range(3)]


@pytest.mark.parametrize("way", [*PAPERS, *OURS])
def test_repeated_effects_are_those_of_machines(way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every figure, and the greatest delays in a row; most copies are repeated."""
    setting = OctopiaSetting(
        part="burst", way=way, seed=2, count=200, burst=600, beside=6, clusters=3
    )
    repeated = 0
    repeat = RepeatedEffects._repeat

    def counted(*arguments: object) -> None:
        nonlocal repeated
        repeated += 1
        repeat(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(RepeatedEffects, "_repeat", counted)
    figures, series = measure_burst(setting, ROWS, 10)
    count, repeated = repeated, 0
    assert (figures, series) == measure_burst(setting, ROWS, 10, whole=True)
    assert not repeated
    assert figures["missing"] == 0
    copies = figures["copies"] * (600 + 100 * 6)
    assert count > copies / 2 or way == "tid-dynamic"
