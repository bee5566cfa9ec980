"""What a broker knows of those around it: how they are reached, at what cost, what is shared.

Broadcasts bring it.  Each entry lives as long as broadcasts refresh it: at the end of an interval
those go that were not refreshed since the end of the one before (second chance), so one that is out
of reach is forgotten after one interval to two; who said that it broadcasts in so many intervals
only is remembered for as many more.  Links that are exchanged change the ways to others, not what
these want: nothing is forgotten for that, or brokers would wait for an interval after each exchange
before they know enough for the next.

>>> from shoal.overlays.self_organising.deciding.interest import exact, notification_id
>>> cache = Cache(entries=10)
>>> around = Neighbourhood(cache, ThreeWay.MEAN)
>>> cache.add(notification_id("P", 1))
>>> around.heard("B3", exact(cache.ids))
>>> around.shared("B3"), around.shared("B1")
(1, None)
>>> around.turn(), around.shared("B3"), around.turn(), around.shared("B3")
(None, 1, None, None)

Source: Cost and Interest, sections 4.1 (Eq. 6: the neighbourhood's mean) and 4.3.1.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from shoal.model import BrokerId
from shoal.overlays.self_organising.deciding.interest import Cache, Summary
from shoal.overlays.self_organising.deciding.planner import Cycle
from shoal.overlays.self_organising.parameters import Heuristic, ThreeWay

# What neighbours say cannot fill the memory; far above what any number of hops reaches.
MAX_KNOWN = 4_096


class Hop(msgspec.Struct, frozen=True, array_like=True):
    """A broker on a broadcast's way: what a notification costs there and over the link it came by.

    `shared` is what the broker shares with the one before it, as far as it knows.
    """

    broker: BrokerId
    processing: float
    cost: float = 0.0
    shared: int | None = None


Way = Sequence[Hop]


class _Known:
    """One broker: its last broadcast, and what it has in common with this one."""

    __slots__ = ("is_referenced", "left", "shared", "summary")

    def __init__(self, summary: Summary, shared: int, left: int) -> None:
        self.summary = summary
        self.shared = shared
        # Intervals that it is remembered for once it is not referenced any more.
        self.left = left
        self.is_referenced = True


class Neighbourhood:
    """The brokers whose broadcasts came; a view of theirs (`planner.View`)."""

    def __init__(self, cache: Cache, three_way: ThreeWay) -> None:
        self._cache = cache
        self._is_counted = three_way is ThreeWay.COUNTED
        self._known: dict[BrokerId, _Known] = {}
        self._sum = 0

    def __len__(self) -> int:
        return len(self._known)

    @property
    def is_full(self) -> bool:
        return len(self._known) >= MAX_KNOWN

    def __contains__(self, broker: BrokerId) -> bool:
        return broker in self._known

    def heard(self, origin: BrokerId, summary: Summary, every: int = 1) -> None:
        """A broadcast of this broker came; the next comes in so many intervals."""
        shared = self._cache.common(summary)
        self._drop(origin)
        # One more, as intervals are not all alike; the paper's end with a broadcast each.
        self._known[origin] = _Known(summary, shared, every + (every > 1))
        self._sum += shared

    def turn(self) -> None:
        """An interval ends: forget who was not heard of since the last one ended."""
        for broker, known in list(self._known.items()):
            if not known.is_referenced:
                known.left -= 1
                if known.left <= 0:
                    self._drop(broker)
            known.is_referenced = False

    def _drop(self, broker: BrokerId) -> None:
        known = self._known.pop(broker, None)
        if known is not None:
            self._sum -= known.shared

    # --- a view -------------------------------------------------------------------------------

    def shared(self, broker: BrokerId) -> int | None:
        known = self._known.get(broker)
        return None if known is None else known.shared

    def shared_by_three(self, broker: BrokerId, other: BrokerId) -> float:
        one, two = self._known[broker], self._known[other]
        if self._is_counted:
            # The cache has changed since the two were counted.
            counted = self._cache.common(one.summary, two.summary)
            return min(counted, one.shared, two.shared)
        return min(self._sum / len(self._known), one.shared, two.shared)


def cycle_of(way: Way, direct: float, shared: int, heuristic: Heuristic) -> Cycle | None:
    """The cycle that a link from a broadcast's last broker to its first would close.

    `direct` is what a notification costs over it, `shared` what the two share.  None when the
    heuristic needs what a broker on the way did not know.
    """
    back = way[::-1]
    over = [hop.shared for hop in back[:-1]]
    between: tuple[int, ...] = ()
    if heuristic is Heuristic.INTEREST:
        known = [count for count in over if count is not None]
        if len(known) < len(over):
            return None
        between = (*known, shared)
    return Cycle(
        brokers=tuple(hop.broker for hop in back),
        processing=tuple(hop.processing for hop in back),
        costs=(*(hop.cost for hop in back[:-1]), direct),
        shared=between,
    )
