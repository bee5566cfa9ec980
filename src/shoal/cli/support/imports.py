"""Imports of much code, sooner."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Switch garbage collection off within; imported objects stay, and later collections skip them.

    A sixth of the time until a broker has all its code went into that.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()
