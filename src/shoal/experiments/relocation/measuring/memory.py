"""Memory of tracing and routing at brokers, measured from outside while they run.

A system that traces publications reports the bytes of its tables; the tree traces nothing and
reports none. A session's tables go when it has been answered, so the peak over a run is kept.
Routing tables are counted alike (identifiers and texts): tracing's memory is a share of them. The
paper compares with a whole broker process, which has more than its tables.

>>> memory = PeakMemory()
>>> memory.observe([])
>>> memory.peak_bytes is None
True

Source: Cheung and Jacobsen, publisher relocation, section 5.2, which compares memory in use.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from shoal.language import format_filter
from shoal.model import Filter
from shoal.overlays.tree.routing_table import RoutingTable

# Tables grow with every publication for minutes; looking costs as much as a few messages.
LOOK_EVERY = 10


def tracing_bytes(strategies: Sequence[object]) -> int | None:
    """Return the memory of tracing at all these brokers together; None if none of them traces."""
    held = [one.tracing_bytes for one in strategies if hasattr(one, "tracing_bytes")]
    return sum(held) if held else None


def routing_bytes(tables: RoutingTable) -> int:
    """Return the memory of a broker's routing tables: a filter once, identifiers wherever they
    occur.
    """
    held = 0
    for row in tables.advertisements.values():
        id = row.advertisement.id
        held += len(id) + len(row.last_hop or "") + _text_bytes(row.advertisement.filter)
        # Both ends name each other.
        held += sum(len(entry.id) + len(id) for entry in row.overlapping)
    for entry in tables.subscriptions.values():
        held += len(entry.id) + len(entry.client) + len(entry.last_hop or "")
        held += _text_bytes(entry.subscription.filter)
        held += sum(map(len, entry.forwarded_to))
    return held


@lru_cache(65_536)
def _text_bytes(filter: Filter) -> int:
    return len(format_filter(filter).encode())


class PeakMemory:
    """The most that tracing took at any moment looked at, all brokers together.

    `routing_bytes` is their routing tables' memory at the first look.
    """

    def __init__(self) -> None:
        self.peak_bytes: int | None = None
        self.routing_bytes: int | None = None
        self._asked = 0

    def observe(self, strategies: Sequence[object]) -> None:
        """Look, now and then, when asked to about once per virtual second."""
        self._asked += 1
        if self._asked % LOOK_EVERY:
            return
        if self.routing_bytes is None:
            tables = [getattr(one, "tables", None) for one in strategies]
            found = [each for each in tables if isinstance(each, RoutingTable)]
            self.routing_bytes = sum(map(routing_bytes, found))
        held = tracing_bytes(strategies)
        if held is not None:
            self.peak_bytes = max(held, self.peak_bytes or 0)
