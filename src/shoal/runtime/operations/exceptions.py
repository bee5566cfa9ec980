"""Exceptions of this process that nothing has caught: how many, and the last one.

Each is somebody's slip, in shoal or in a system of one's own, and costs the connection over which
it came about; the log has its traceback.
"""

from __future__ import annotations

import asyncio
import traceback
from typing import Any


class Exceptions:
    """Counts what a loop's callbacks and tasks raise."""

    def __init__(self) -> None:
        self.count = 0
        # Its type, what it says, and where it was raised.
        self.last = ""

    def heard(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """The loop's handler of exceptions."""
        error = context.get("exception")
        if error is not None:
            self.count += 1
            self.last = _in_words(error)
        loop.default_exception_handler(context)

    def status(self) -> dict[str, Any]:
        return {"count": self.count, "last": self.last}


def _in_words(error: BaseException) -> str:
    words = f"{type(error).__name__}: {error}"
    frames = traceback.extract_tb(error.__traceback__)
    return f"{words} ({frames[-1].filename}, line {frames[-1].lineno})" if frames else words
