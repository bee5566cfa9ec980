"""Filters that take long to evaluate."""

from __future__ import annotations

from random import Random


def costly(random: Random, number: int) -> str:
    """An expression of many operators with a CASE, which no vector instruction evaluates."""
    terms = " + ".join(f"a * {random.randrange(1, 9)}" for _ in range(40))
    return f"CASE WHEN b > {number} THEN {terms} ELSE {number} END > {random.randrange(-9, 9)}"
