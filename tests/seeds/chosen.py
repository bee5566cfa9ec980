"""Which seeds are played: SHOAL_SEEDS="7" or "0-999" replays chosen ones."""

from __future__ import annotations

import os
from collections.abc import Iterable

CHOSEN = os.environ.get("SHOAL_SEEDS", "")


def chosen(default: Iterable[int]) -> Iterable[int]:
    """Those that SHOAL_SEEDS names, or else these."""
    if not CHOSEN:
        return default
    first, _, last = CHOSEN.partition("-")
    return range(int(first), int(last or first) + 1)
