"""The time that live brokers go by: the world's, in integer microseconds, never running back."""

from __future__ import annotations

import time

_NANOSECONDS = 1_000


class Clock:
    """Reads the world's time once, and from then on only how much has passed since.

    `first_us`: the assumed time at the start; without it, the machine's.
    """

    def __init__(self, first_us: int | None = None) -> None:
        first_ns = time.time_ns() if first_us is None else first_us * _NANOSECONDS
        self._offset_ns = first_ns - time.monotonic_ns()

    def now_us(self) -> int:
        return (time.monotonic_ns() + self._offset_ns) // _NANOSECONDS
