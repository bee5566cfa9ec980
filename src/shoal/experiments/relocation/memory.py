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
from typing import Protocol, runtime_checkable


@runtime_checkable
class Traces(Protocol):
    """A system that traces publications."""

    @property
    def tracing_bytes(self) -> int:
        """What its tables of traces take at this broker."""


def tracing_bytes(strategies: Sequence[object]) -> int | None:
    """What tracing takes at all these brokers together; None when none of them traces."""
    held = [one.tracing_bytes for one in strategies if isinstance(one, Traces)]
    return sum(held) if held else None


class PeakMemory:
    """The most that tracing took at any moment looked at, all brokers together."""

    def __init__(self) -> None:
        self.peak_bytes: int | None = None

    def observe(self, strategies: Sequence[object]) -> None:
        held = tracing_bytes(strategies)
        if held is not None:
            self.peak_bytes = max(held, self.peak_bytes or 0)
