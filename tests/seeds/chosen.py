"""The seeds to play: SHOAL_SEEDS="7" or "0-999" replays chosen seeds."""

from __future__ import annotations

import os
from collections.abc import Iterable

CHOSEN = os.environ.get("SHOAL_SEEDS", "")


def chosen(default: Iterable[int]) -> Iterable[int]:
    """The seeds of SHOAL_SEEDS, otherwise these."""
    if not CHOSEN:
        return default
    first, _, last = CHOSEN.partition("-")
    return range(int(first), int(last or first) + 1)
