"""What tracing holds in the memory of brokers, looked at from outside while they run.

A system that traces publications says how many bytes its tables take; the tree says nothing, it
traces nothing.  A session's tables go when it has been answered, so the peak over a run is kept.

>>> memory = PeakMemory()
>>> memory.observe([object()])
>>> memory.peak_bytes is None
True

Source: Cheung and Jacobsen, publisher relocation, section 5.2, which compares memory in use.
"""

from __future__ import annotations

from collections.abc import Sequence

# Tables grow with every publication for minutes; looking costs as much as a few messages.
LOOK_EVERY = 10


def tracing_bytes(strategies: Sequence[object]) -> int | None:
    """What tracing takes at all these brokers together; None when none of them traces."""
    held = [one.tracing_bytes for one in strategies if hasattr(one, "tracing_bytes")]
    return sum(held) if held else None


class PeakMemory:
    """The most that tracing took at any moment looked at, all brokers together."""

    def __init__(self) -> None:
        self.peak_bytes: int | None = None
        self._asked = 0

    def observe(self, strategies: Sequence[object]) -> None:
        """Look, now and then, when asked to about once per virtual second."""
        self._asked += 1
        if self._asked % LOOK_EVERY:
            return
        held = tracing_bytes(strategies)
        if held is not None:
            self.peak_bytes = max(held, self.peak_bytes or 0)
