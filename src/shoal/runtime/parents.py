"""A broker that another process started stops when that one is gone, also if that was killed.

Else it would hold its ports and its folder, and nobody would know of it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping

_VARIABLE = "SHOAL_STARTED_BY"
_LOOK_S = 1.0


def stop_with_parent() -> None:
    """Have the broker that this process becomes stop when the process that started it is gone."""
    os.environ[_VARIABLE] = str(os.getppid())


def parent_in(environment: Mapping[str, str]) -> int | None:
    """The process that started this one and said so."""
    text = environment.get(_VARIABLE, "")
    return int(text) if text.isdecimal() else None


async def is_gone(parent: int) -> None:
    """Return when that process is this one's parent no longer."""
    while os.getppid() == parent:
        await asyncio.sleep(_LOOK_S)
