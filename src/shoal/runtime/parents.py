"""Stops a broker when its parent process is gone, also if that was killed.

Else the broker would hold its ports and its folder unnoticed.
"""

from __future__ import annotations

import asyncio
import os

_LOOK_S = 1.0
_parent: int | None = None


def stop_with_parent() -> None:
    """Have the broker that this process becomes stop when the process that started it is gone."""
    global _parent
    _parent = os.getppid()


def parent() -> int | None:
    """The process with which this one is to stop."""
    return _parent


async def is_gone(process: int) -> None:
    """Return when that process is this one's parent no longer."""
    while os.getppid() == process:
        await asyncio.sleep(_LOOK_S)
