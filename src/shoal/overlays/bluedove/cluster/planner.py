"""Decisions about the partition, each a pure function of what a node knows.

Matchers of a subscription, first segments, source and cut of a joiner's segments, heirs of a
leaving matcher, and when a matcher is added or removed.

>>> speed = Dimension(attribute="speed", low=0, high=120)
>>> initial_segments((speed,), ("A", "B", "C"))["B"]
(Segment(low=40.0, high=80.0),)
>>> halves(speed, Segment(40.0, 80.0)), halves(speed, Segment(80.0, math.inf)).high
(Segment(low=60.0, high=80.0), inf)

Source: Li et al., BlueDove, sections III-A and III-C; elasticity, section IV-E.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from shoal.matching.segments import LOWEST, Dimension, Range, place_of
from shoal.model import BrokerId, Filter
from shoal.overlays.bluedove.cluster.forwarding import Load
from shoal.overlays.bluedove.cluster.members import NOTHING, WHOLE, MemberTable, Segment

Ranges = tuple[tuple[Range, ...], ...]


# --- where things are -------------------------------------------------------------------------


def initial_segments(
    dimensions: Sequence[Dimension], matchers: Sequence[BrokerId], *, replicated: bool = False
) -> dict[BrokerId, tuple[Segment, ...]]:
    """Each matcher's segments at first: its number-th on every dimension (figure 2).

    Replicated: everything, on every dimension.
    """
    if replicated:
        return {matcher: (WHOLE,) * len(dimensions) for matcher in matchers}
    bounds = [(LOWEST, *dimension.cuts(len(matchers)), math.inf) for dimension in dimensions]
    return {
        matcher: tuple(Segment(*places[number : number + 2]) for places in bounds)
        for number, matcher in enumerate(matchers)
    }


def ranges_of(dimensions: Iterable[Dimension], filter: Filter) -> Ranges:
    """A filter's ranges on each dimension; all empty when nothing can match it."""
    return tuple(dimension.ranges(filter) for dimension in dimensions)


class Copies(NamedTuple):
    """Placement of a subscription: matcher → the dimensions of the sets that it joins there.

    Replicas are kept aside, unsearched, in case the other copies are lost.
    """

    searched: dict[BrokerId, tuple[int, ...]]
    replicas: dict[BrokerId, tuple[int, ...]]


def copies(table: MemberTable, ranges: Ranges) -> Copies:
    """A subscription's copies by this node's table (III-A).

    If all are on one matcher, replicas go to its clockwise neighbours on the dimensions.
    """
    searched: dict[BrokerId, tuple[int, ...]] = {}
    for dimension, met in enumerate(ranges):
        for matcher in table.owners_met(dimension, met):
            searched[matcher] = (*searched.get(matcher, ()), dimension)
    replicas: dict[BrokerId, tuple[int, ...]] = {}
    if len(searched) == 1:
        (only,) = searched
        for dimension, met in enumerate(ranges):
            if not met:
                continue
            neighbour = table.clockwise(dimension, met[0].low)
            if neighbour not in (None, only):
                assert neighbour is not None
                replicas[neighbour] = (*replicas.get(neighbour, ()), dimension)
    return Copies(searched, replicas)


# --- joining, leaving, taking over ------------------------------------------------------------


def halves(dimension: Dimension, segment: Segment) -> Segment:
    """The upper half of a segment, for a joiner; empty when it cannot be divided.

    An outermost segment reaches to where values end; it is divided where most of them lie.
    """
    low, high = segment
    if low == LOWEST:
        low = min(place_of(dimension.low), high)
    if high == math.inf:
        high = max(place_of(dimension.high), low)
    middle = low + (high - low) / 2
    return Segment(middle, segment.high) if low < middle < high else NOTHING


def donors(
    table: MemberTable,
    loads: Mapping[tuple[BrokerId, int], Load],
    dimensions: Iterable[int],
    joiner: BrokerId,
) -> dict[int, BrokerId]:
    """For each dimension the matcher with the most work there, to give half of its segment.

    Work is the arrival rate times the size of the set; without arrivals, the larger set.
    """
    found: dict[int, BrokerId] = {}
    for dimension in dimensions:
        heaviest: tuple[float, float] | None = None
        for member in table.serving():
            if member.broker == joiner or not member.segments[dimension]:
                continue
            load = loads.get((member.broker, dimension))
            size = 0 if load is None else load.subscriptions
            rate = 0.0 if load is None else load.arrival_per_s
            if heaviest is None or (rate * size, size) > heaviest:
                heaviest = rate * size, size
                found[dimension] = member.broker
    return found


def heirs(table: MemberTable, dimension: int, leaving_broker: BrokerId) -> list[BrokerId]:
    """The owners of the segments next to a leaving matcher's: the one below first, then the one
    above.
    """
    segment = table.members[leaving_broker].segments[dimension]
    others = [member for member in table.serving() if member.broker != leaving_broker]
    below = [m.broker for m in others if _is_joined(m.segments[dimension], segment)]
    above = [m.broker for m in others if _is_joined(segment, m.segments[dimension])]
    return below + above


def is_successor(table: MemberTable, dimension: int, hole: Segment, matcher: BrokerId) -> bool:
    """Whether this matcher has to serve a hole: it lies below it, or starts the line."""
    segment = table.members[matcher].segments[dimension]
    if not segment:
        return False
    return segment.high == hole.low or (hole.low == LOWEST and segment.low == hole.high)


def _is_joined(below: Segment, above: Segment) -> bool:
    return bool(below) and bool(above) and below.high == above.low


# --- how many matchers ------------------------------------------------------------------------


class ScaleOrder(enum.Enum):
    """The controller's decision."""

    ADD = "add"
    REMOVE = "remove"


class Elasticity(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Conditions for adding and removing matchers (IV-E; the figures are ours, the paper has none).

    saturated         add when the matchers' mean utilisation is above this for `patience_us`
    idle              remove one when the others could carry all at a utilisation below this, for
                      `patience_us`; well below `saturated`, so that one does not follow the other
    patience_us       minimum duration of the condition
    settle_us         pause of decisions after a change: 15 s
    least             minimum number of serving matchers
    most              maximum number of serving matchers; 0: any
    spares            matchers whose processes are started and ended as load asks for it; the
                      others serve all the time. Without any, all matchers run, and those beyond
                      `least` serve as load asks for it
    ready_within_us   a spare that serves nothing after this time is ended again: 60 s
    leave_within_us   a spare that has not left after this time stays: 60 s
    dry_run           only say what would be done
    """

    saturated: float = 0.85
    idle: float = 0.5
    patience_us: int = 3_000_000
    settle_us: int = 15_000_000
    least: int = 1
    most: int = 0
    spares: tuple[BrokerId, ...] = ()
    ready_within_us: int = 60_000_000
    leave_within_us: int = 60_000_000
    dry_run: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.idle < self.saturated <= 1:
            raise ValueError(
                f"idle {self.idle} and saturated {self.saturated} are not 0 < idle < saturated <= 1"
            )
        if self.patience_us < 0 or self.settle_us < 0 or self.least < 1:
            raise ValueError("patience_us and settle_us cannot be negative, nor least below 1")
        if self.most and self.most < self.least:
            raise ValueError(f"most {self.most} is below least {self.least}")
        if self.ready_within_us < 1 or self.leave_within_us < 1:
            raise ValueError("ready_within_us and leave_within_us are at least 1")
        if len(set(self.spares)) < len(self.spares):
            raise ValueError(f"spares: {list(self.spares)} has a broker twice")


class Controller:
    """Watches utilisations, and decides when to add or remove, with delay and hysteresis.

    >>> controller = Controller(Elasticity(patience_us=2, settle_us=10))
    >>> [controller.decide({"M1": 0.95, "M2": 0.9}, now_us) for now_us in (0, 1, 2, 3, 12, 14)]
    [None, None, <ScaleOrder.ADD: 'add'>, None, None, <ScaleOrder.ADD: 'add'>]
    >>> controller.why
    '2 matchers are 92 % busy, above 85 %'
    """

    def __init__(self, elasticity: Elasticity) -> None:
        self._elasticity = elasticity
        self._pending: ScaleOrder | None = None
        self._since_us = 0
        self._settled_us = 0
        # Mean of the last utilisations; None without any.
        self.utilisation: float | None = None
        # The reason of the last decision, with its figure.
        self.why = ""

    def decide(
        self, utilisations: Mapping[BrokerId, float], now_us: int, *, may_remove: bool = True
    ) -> ScaleOrder | None:
        """The decision, given the serving matchers' utilisations.

        Without `may_remove` none of them can be removed.
        """
        total, count = sum(utilisations.values()), len(utilisations)
        self.utilisation = total / count if count else None
        if self.utilisation is None or self.is_resting(now_us):
            self._pending = None
            return None
        elasticity = self._elasticity
        pending = None
        if self.utilisation > elasticity.saturated:
            has_room = not elasticity.most or count < elasticity.most
            pending = ScaleOrder.ADD if has_room else None
        elif may_remove and count > elasticity.least and total / (count - 1) < elasticity.idle:
            pending = ScaleOrder.REMOVE
        if pending is not self._pending:
            self._pending, self._since_us = pending, now_us
        if pending is None or now_us - self._since_us < elasticity.patience_us:
            return None
        self.why = self._reason(pending, count, self.utilisation)
        self.rest(now_us)
        return pending

    def rest(self, now_us: int) -> None:
        """Decide nothing for the pause after a change, which is now."""
        self._pending = None
        self._settled_us = now_us + self._elasticity.settle_us

    def is_resting(self, now_us: int) -> bool:
        """Whether the pause after a change lasts."""
        return now_us < self._settled_us

    def _reason(self, order: ScaleOrder, count: int, utilisation: float) -> str:
        verb = "matcher is" if count == 1 else "matchers are"
        busy = f"{count} {verb} {100 * utilisation:.0f} % busy"
        if order is ScaleOrder.ADD:
            return f"{busy}, above {100 * self._elasticity.saturated:.0f} %"
        others = 100 * utilisation * count / (count - 1)
        bound = 100 * self._elasticity.idle
        return f"{busy}; {count - 1} would be {others:.0f} % busy, below {bound:.0f} %"
