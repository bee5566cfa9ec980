"""Tables in memory, matched without Spark: `match_frame` takes pandas, Polars and Arrow.

It is imported when it is asked for: rooms here that need no Arrow are read without it.
"""

from __future__ import annotations

import importlib
from typing import Any


def __getattr__(name: str) -> Any:
    if name != "match_frame":
        raise AttributeError(f"module 'shoal.frames' has no attribute {name!r}")
    return importlib.import_module("shoal.frames.matching").match_frame
