"""The phrases for percentages."""

from __future__ import annotations

from shoal.experiments.relocation.evidence import percent


def test_percentages_are_phrased() -> None:
    assert [percent(share) for share in (0.684, 0.052, -0.1, 1.0)] == [
        "68 %", "5.2 %", "\N{MINUS SIGN}10 %", "100 %"
    ]  # fmt: skip
