"""Uncaught exceptions of this process: their number, and the last one.

Each is a defect, in shoal or in a custom system, and costs the connection that caused it; the log
has its traceback.
"""

from __future__ import annotations

import asyncio
import traceback
from typing import Any


class Exceptions:
    """Counts exceptions of a loop's callbacks and tasks."""

    def __init__(self) -> None:
        self.count = 0
        # type, text and place of the last
        self.last = ""

    def on_exception(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
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
