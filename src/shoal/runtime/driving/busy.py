"""How busy the thread of a live broker is: the time that it ran, and waited for a processor.

A broker on a machine that others keep busy gets less of a processor than it needs. So the time that
its thread waits for one counts: the broker cannot take more than it has, whatever has the rest.
Linux counts both; elsewhere the processor time of the process stands for them.
"""

from __future__ import annotations

import time
from pathlib import Path

_SCHEDULED = Path("/proc/thread-self/schedstat")


class BusyMeter:
    """Meters the thread that reads it."""

    def __init__(self) -> None:
        self._at_ns, self._busy_ns = time.monotonic_ns(), _busy_ns()

    def read(self) -> float:
        """Return the busy part of the time since the last call, 0 to 1."""
        at_ns, busy_ns = time.monotonic_ns(), _busy_ns()
        passed_ns = max(1, at_ns - self._at_ns)
        share = (busy_ns - self._busy_ns) / passed_ns
        self._at_ns, self._busy_ns = at_ns, busy_ns
        return min(1.0, max(0.0, share))


def _busy_ns() -> int:
    try:
        ran_ns, waited_ns, _ = _SCHEDULED.read_text(encoding="ascii").split()
    except (OSError, ValueError):
        return time.process_time_ns()
    return int(ran_ns) + int(waited_ns)
