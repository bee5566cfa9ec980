"""The words that say by how much."""

from __future__ import annotations

from shoal.experiments.relocation.evidence import percent


def test_percent() -> None:
    assert [percent(share) for share in (0.684, 0.052, -0.1, 1.0)] == [
        "68 %", "5.2 %", "\N{MINUS SIGN}10 %", "100 %"
    ]  # fmt: skip
