"""How busy a live broker is: the part that it uses of the processor time that it can have.

A broker on a machine that others keep busy gets less of a processor than it needs. So the time that
its thread waits for one counts: the broker cannot take more than it has, whatever has the rest. In
a container with a limit it can have less than a processor, and all of its threads use that up.
Linux counts all three; elsewhere the processor time of the process stands for them.
"""

from __future__ import annotations

import time
from pathlib import Path

from shoal.runtime.driving.quotas import allowed_processors

_SCHEDULED = Path("/proc/thread-self/schedstat")


class BusyMeter:
    """Meters the thread that reads it, and the process against its limit."""

    def __init__(self) -> None:
        self._at_ns, self._thread_ns = time.monotonic_ns(), _thread_ns()
        self._process_ns = time.process_time_ns()

    def read(self) -> float:
        """Return the busy part of the time since the last call, 0 to 1."""
        at_ns, thread_ns, process_ns = time.monotonic_ns(), _thread_ns(), time.process_time_ns()
        passed_ns = max(1, at_ns - self._at_ns)
        of_thread = (thread_ns - self._thread_ns) / passed_ns
        of_limit = (process_ns - self._process_ns) / passed_ns / allowed_processors()
        self._at_ns, self._thread_ns, self._process_ns = at_ns, thread_ns, process_ns
        return min(1.0, max(0.0, of_thread, of_limit))


def _thread_ns() -> int:
    try:
        ran_ns, waited_ns, _ = _SCHEDULED.read_text(encoding="ascii").split()
    except (OSError, ValueError):
        return time.process_time_ns()
    return int(ran_ns) + int(waited_ns)
