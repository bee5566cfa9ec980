"""How many examples property tests take: `make quick` a fifth of them, `make soak` ten times."""

from __future__ import annotations

import os

FACTOR = float(os.environ.get("SHOAL_EXAMPLES", "1"))


def examples(count: int) -> int:
    """So many in `make test`."""
    return max(round(FACTOR * count), 1)
