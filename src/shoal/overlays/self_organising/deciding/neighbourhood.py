"""A broker's view of the brokers around it: paths, costs, and shared interest.

Broadcasts refresh the entries. The end of an interval removes entries that were not refreshed since
the end of the one before (second chance), so a broker out of reach is forgotten after one interval
to two. If a broker has announced that it broadcasts in some intervals only, its entry lasts as many
intervals longer. An exchange of links changes paths, not interests, so it removes no entry;
otherwise brokers would wait for an interval after each exchange before they know enough for the
next.

>>> from shoal.overlays.self_organising.deciding.interest import exact, notification_id
>>> cache = Cache(entries=10)
>>> around = Neighbourhood(cache, ThreeWay.MEAN)
>>> cache.add(notification_id("P", 1))
>>> around.on_broadcast("B3", exact(cache.ids))
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
from shoal.overlays.self_organising.deciding.interest import Cache, InterestSummary
from shoal.overlays.self_organising.deciding.planner import Cycle
from shoal.overlays.self_organising.parameters import Heuristic, ThreeWay

# Bound on memory against forged broadcasts; far above what any number of hops reaches.
MAX_KNOWN = 4_096


class NeighbourHop(msgspec.Struct, frozen=True, array_like=True):
    """A broker on a broadcast's path: a notification's cost there and over the link it came by.

    `shared` is the interest that the broker shares with the one before it, as far as it knows.
    """

    broker: BrokerId
    processing: float
    cost: float = 0.0
    shared: int | None = None


Way = Sequence[NeighbourHop]


class _Known:
    """One broker: its last broadcast, and the interest that it shares with this one."""

    __slots__ = ("is_referenced", "left", "shared", "summary")

    def __init__(self, summary: InterestSummary, shared: int, left: int) -> None:
        self.summary = summary
        self.shared = shared
        # Intervals that the entry lasts without a refresh.
        self.left = left
        self.is_referenced = True


class Neighbourhood:
    """The sources of received broadcasts; a view for the planner (`planner.NeighbourhoodView`)."""

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

    def on_broadcast(self, origin: BrokerId, summary: InterestSummary, every: int = 1) -> None:
        """A broadcast of this broker came; the next comes in `every` intervals."""
        shared = self._cache.common(summary)
        self._drop_known(origin)
        # One more, as intervals are not all alike; the paper's end with a broadcast each.
        self._known[origin] = _Known(summary, shared, every + (every > 1))
        self._sum += shared

    def turn(self) -> None:
        """End an interval: remove entries that were not refreshed since the last one ended."""
        for broker, known in list(self._known.items()):
            if not known.is_referenced:
                known.left -= 1
                if known.left <= 0:
                    self._drop_known(broker)
            known.is_referenced = False

    def _drop_known(self, broker: BrokerId) -> None:
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

    `direct` is a notification's cost over it, `shared` the interest that the two share. None when
    the heuristic needs a value that a broker on the path did not know.
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
