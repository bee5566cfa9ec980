"""Handover of segments: joining, leaving, and taking over unserved ones.

A segment moves in four steps from its *source* to its *target*, so that at no time two matchers
serve it with different subscriptions, and none is missed:

    target -> source   Split       request for half (of a leaving broker: all)
    source -> target   Rows        its subscriptions; the source forwards new ones from now on
    target -> source   TakerReady  all rows are stored
    source -> target   Yours       end of service, behind all forwarded rows

In between the source serves, and after its last message it still matches its accepted publications.
If a link breaks, the source keeps a segment that it has not released; one that it has released, but
that the target has not got, is a hole, and the source lies below it.

A hole (its matcher died) is served by the matcher below, once its subscriptions are rebuilt: from
all dispatchers, each of which has those of its clients, including disconnected ones that may come
back; then from all matchers, on any dimension, which have those of dead dispatchers. Dispatchers
learn of owners before they are asked: subscriptions after their answer are then stored where only
the matcher below will serve, or does not yet.

A matcher that begins with its first segment, without a known earlier incarnation, asks dispatchers
likewise: they may have been there before, and their clients' subscriptions with them. It accepts
publications at once, and matches them when it has the answers.

Source: Li et al., BlueDove, sections III-A3 and III-C; rebuilding is ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from shoal.broker.effects import Effect
from shoal.model import BrokerId
from shoal.overlays.bluedove.cluster.members import NOTHING, Segment
from shoal.overlays.bluedove.cluster.planner import halves
from shoal.overlays.bluedove.messages import (
    Fetch,
    GossipNews,
    MatcherRow,
    MembershipRefused,
    Split,
    SubscriptionRows,
    TakerReady,
    Yours,
    in_messages,
)
from shoal.overlays.bluedove.node import BlueDoveNode
from shoal.overlays.bluedove.serving.matcher import Matcher

# In a fully replicated cluster a joiner gets new subscriptions forwarded for this time, until every
# dispatcher knows it.
PASS_ON_US = 30_000_000


class SegmentImport:
    """A segment on its way here from a source."""

    def __init__(self, source: BrokerId) -> None:
        self.source = source


class SegmentRebuild:
    """A hole to be served here, and the brokers that have yet to send their subscriptions.

    With `is_served` it is a first segment, for which publications come already.
    """

    def __init__(self, hole: Segment, number: int, *, is_served: bool = False) -> None:
        self.hole = hole
        self.number = number
        self.is_served = is_served
        self.asks_matchers = False
        self.awaited: dict[BrokerId, None] = {}


class SegmentExport:
    """A segment on its way from here; `until_us` when only copies are given (replication)."""

    def __init__(self, target: BrokerId, segment: Segment) -> None:
        self.target = target
        self.segment = segment
        self.until_us: int | None = None


class Handover:
    """Imports and exports of one matcher, at most one segment per dimension and direction."""

    def __init__(
        self,
        node: BlueDoveNode,
        matcher: Matcher,
        announce: Callable[[int, list[Effect], Iterable[BrokerId]], None],
    ) -> None:
        self._node = node
        self._matcher = matcher
        self._announce = announce
        self._incoming: dict[int, SegmentImport | SegmentRebuild] = {}
        self._exports: dict[int, SegmentExport] = {}
        self._deferred: list[tuple[BrokerId, Fetch]] = []
        self._number = 0

    def is_busy(self, dimension: int) -> bool:
        return dimension in self._incoming or dimension in self._exports

    @property
    def is_active(self) -> bool:
        """Whether any segment is on its way."""
        return bool(self._incoming or self._exports)

    def forget(self) -> None:
        self._incoming.clear()
        self._exports.clear()

    # --- exports ------------------------------------------------------------------------------

    def split(
        self, target: BrokerId, dimension: int, is_leaving: bool, now_us: int, out: list[Effect]
    ) -> None:
        """Export half of a segment, or all, or refuse: there is none, or one is moving already."""
        served = self._matcher.segments[self._matcher.dimension(dimension)]
        is_whole = is_leaving or self._node.parameters.replicated
        given = served if is_whole else halves(self._node.dimensions[dimension], served)
        # An heir of a leaving broker that stays: half a segment would not lie beside its own.
        is_late = not is_whole and self._serves(target, dimension)
        if self.is_busy(dimension) or not given or is_late:
            self._node.send(target, MembershipRefused(dimension), now_us, out)
            return
        self._exports[dimension] = SegmentExport(target, given)
        rows = self._matcher.sets[dimension].meeting(given)
        self._send_rows(target, dimension, given, rows, now_us, out)

    def _serves(self, matcher: BrokerId, dimension: int) -> bool:
        member = self._node.table.members.get(matcher)
        return member is not None and bool(member.segments[dimension])

    def pass_on(
        self, row: MatcherRow, dimensions: Iterable[int], now_us: int, out: list[Effect]
    ) -> None:
        """A subscription that comes while a segment is being given goes there as well."""
        for dimension in dimensions:
            export = self._exports.get(dimension)
            if export is None:
                continue
            if export.segment.meets(
                self._node.dimensions[dimension].ranges(row.subscription.filter)
            ):
                rows = SubscriptionRows(dimension, export.segment, (row,), False)
                self._node.send(export.target, rows, now_us, out)

    def ready(self, target: BrokerId, dimension: int, now_us: int, out: list[Effect]) -> None:
        """The target has everything: end the service of the segment, and confirm that."""
        export = self._exports.get(dimension)
        if export is None or export.target != target or export.until_us is not None:
            return  # given up meanwhile: the link broke in between
        if self._node.parameters.replicated:
            export.until_us = now_us + PASS_ON_US
        else:
            del self._exports[dimension]
            served = self._matcher.segments[dimension]
            kept = Segment(served.low, export.segment.low)
            self._matcher.serve(dimension, kept or NOTHING, now_us, out)
            self._announce(now_us, out, ())
        self._node.send(target, Yours(dimension, export.segment), now_us, out)

    # --- imports ------------------------------------------------------------------------------

    def ask(self, source: BrokerId, dimension: int, now_us: int, out: list[Effect]) -> bool:
        """Request (part of) a segment; False when one is moving on this dimension already."""
        if self.is_busy(self._matcher.dimension(dimension)):
            return False
        self._incoming[dimension] = SegmentImport(source)
        self._node.send(source, Split(dimension), now_us, out)
        return True

    def refused(self, source: BrokerId, dimension: int, now_us: int, out: list[Effect]) -> None:
        imported = self._incoming.get(dimension)
        if isinstance(imported, SegmentImport) and imported.source == source:
            self._stop(dimension)
            self._answer_deferred(now_us, out)

    def rows(
        self, sender: BrokerId, message: SubscriptionRows, now_us: int, out: list[Effect]
    ) -> None:
        """Subscriptions of an imported segment."""
        dimension = self._matcher.dimension(message.dimension)
        incoming = self._incoming.get(dimension)
        if isinstance(incoming, SegmentRebuild) and message.number == incoming.number:
            self._matcher.take_in(dimension, message.rows)
            if message.is_last:
                incoming.awaited.pop(sender, None)
                self._continue(dimension, incoming, now_us, out)
        elif (
            isinstance(incoming, SegmentImport) and incoming.source == sender and not message.number
        ):
            self._matcher.incoming[dimension] = message.segment
            self._matcher.take_in(dimension, message.rows)
            if message.is_last:
                self._node.send(sender, TakerReady(dimension), now_us, out)
        elif self._node.parameters.replicated and not message.number:
            self._matcher.take_in(dimension, message.rows)
        # Else it was given up meanwhile.

    def yours(self, source: BrokerId, message: Yours, now_us: int, out: list[Effect]) -> None:
        """Serve the segment from now on: its source has ended its service."""
        imported = self._incoming.get(message.dimension)
        if not isinstance(imported, SegmentImport) or imported.source != source:
            return  # given up meanwhile: a hole, which the matcher below it will serve
        self._serve_too(message.dimension, message.segment, now_us, out, (source,))

    def _serve_too(
        self,
        dimension: int,
        segment: Segment,
        now_us: int,
        out: list[Effect],
        also_tell: Iterable[BrokerId] = (),
    ) -> None:
        del self._incoming[dimension]
        self._matcher.incoming[dimension] = NOTHING
        served = self._matcher.segments[dimension]
        joined = segment
        if served:
            joined = Segment(min(served.low, segment.low), max(served.high, segment.high))
        self._matcher.serve(dimension, joined, now_us, out)
        self._announce(now_us, out, also_tell)
        self._answer_deferred(now_us, out)

    def _stop(self, dimension: int) -> None:
        self._incoming.pop(dimension, None)
        self._matcher.incoming[dimension] = NOTHING
        self._matcher.tidy(dimension)

    # --- rebuilt ------------------------------------------------------------------------------

    def rebuild(self, dimension: int, hole: Segment, now_us: int, out: list[Effect]) -> None:
        """Serve a hole beside the own segment, once its subscriptions are found."""
        if not self.is_busy(dimension):
            self._matcher.incoming[dimension] = hole
            self._number += 1
            self._ask_dispatchers(dimension, SegmentRebuild(hole, self._number), now_us, out)

    def begin(self, dimension: int, segment: Segment, now_us: int, out: list[Effect]) -> None:
        """Find the subscriptions of a first segment, which is served."""
        self._matcher.unready.add(dimension)
        self._number += 1
        beginning = SegmentRebuild(segment, self._number, is_served=True)
        self._ask_dispatchers(dimension, beginning, now_us, out)

    def _ask_dispatchers(
        self, dimension: int, rebuilding: SegmentRebuild, now_us: int, out: list[Effect]
    ) -> None:
        self._incoming[dimension] = rebuilding
        absences = self._node.absences
        for dispatcher in self._node.dispatchers:
            if not absences.is_given_up(dispatcher):
                self._fetch(dimension, rebuilding, dispatcher, now_us, out)
        self._continue(dimension, rebuilding, now_us, out)

    def _fetch(
        self,
        dimension: int,
        rebuilding: SegmentRebuild,
        supplier: BrokerId,
        now_us: int,
        out: list[Effect],
    ) -> None:
        rebuilding.awaited[supplier] = None
        is_for_home = not rebuilding.asks_matchers
        if is_for_home:
            members = tuple(self._node.table.members.values())
            self._node.send(supplier, GossipNews(members), now_us, out)
        fetch = Fetch(dimension, rebuilding.hole, rebuilding.number, is_for_home)
        self._node.send(supplier, fetch, now_us, out)

    def _continue(
        self, dimension: int, rebuilding: SegmentRebuild, now_us: int, out: list[Effect]
    ) -> None:
        if rebuilding.awaited:
            return
        if rebuilding.is_served:
            del self._incoming[dimension]
            self._matcher.mark_ready(dimension, now_us, out)
            self._answer_deferred(now_us, out)
            return
        if not rebuilding.asks_matchers:
            rebuilding.asks_matchers = True
            for row, ranges in self._matcher.known_rows(dimension, rebuilding.hole):
                self._matcher.sets[dimension].add(row, ranges)
            serving = (member.broker for member in self._node.table.serving())
            for name in serving:
                if name != self._node.broker:
                    self._fetch(dimension, rebuilding, name, now_us, out)
        if not rebuilding.awaited:
            self._serve_too(dimension, rebuilding.hole, now_us, out)

    def fetch(self, sender: BrokerId, message: Fetch, now_us: int, out: list[Effect]) -> None:
        """Send the subscriptions of a hole; later, if some of them may be in transit to here.

        A matcher that rebuilds answers at once: otherwise two of them would wait for each other.
        """
        self._matcher.dimension(message.dimension)
        if any(isinstance(incoming, SegmentImport) for incoming in self._incoming.values()):
            self._deferred.append((sender, message))
            return
        dimension, segment = message.dimension, message.segment
        rows = [row for row, _ in self._matcher.known_rows(dimension, segment)]
        self._send_rows(sender, dimension, segment, rows, now_us, out, message.number)

    def _answer_deferred(self, now_us: int, out: list[Effect]) -> None:
        deferred, self._deferred = self._deferred, []
        for sender, message in deferred:
            self.fetch(sender, message, now_us, out)

    def _send_rows(
        self,
        to: BrokerId,
        dimension: int,
        segment: Segment,
        rows: list[MatcherRow],
        now_us: int,
        out: list[Effect],
        number: int = 0,
    ) -> None:
        for message in in_messages(dimension, segment, rows, number):
            self._node.send(to, message, now_us, out)

    # --- failures -----------------------------------------------------------------------------

    def link_down(self, broker: BrokerId, now_us: int, out: list[Effect]) -> None:
        """Nothing more comes from there: abort its transfers, or ask others anew."""
        for dimension, export in list(self._exports.items()):
            if export.target == broker:
                del self._exports[dimension]
        for dimension, incoming in list(self._incoming.items()):
            if isinstance(incoming, SegmentImport):
                if incoming.source == broker:
                    self._stop(dimension)
            elif broker in incoming.awaited and incoming.asks_matchers:
                self._stop(dimension)  # the hole is found again, and rebuilt without it
        self._answer_deferred(now_us, out)

    @property
    def awaited(self) -> list[BrokerId]:
        """Brokers that have yet to send rows of segments that are unserved meanwhile."""
        rebuilding = [each for each in self._incoming.values() if isinstance(each, SegmentRebuild)]
        return list(dict.fromkeys(broker for each in rebuilding for broker in each.awaited))

    def link_up(self, broker: BrokerId, now_us: int, out: list[Effect]) -> None:
        """A request to a dispatcher may be lost, and it may have restarted since."""
        for dimension, incoming in self._incoming.items():
            if isinstance(incoming, SegmentRebuild) and broker in incoming.awaited:
                self._fetch(dimension, incoming, broker, now_us, out)

    def given_up(self, dispatcher: BrokerId, now_us: int, out: list[Effect]) -> None:
        """A disconnected dispatcher is declared dead."""
        for dimension, incoming in list(self._incoming.items()):
            if isinstance(incoming, SegmentRebuild) and not incoming.asks_matchers:
                incoming.awaited.pop(dispatcher, None)
                self._continue(dimension, incoming, now_us, out)

    def tick(self, now_us: int) -> None:
        """End transfers with dead brokers, and the forwarding to joiners that all know by now."""
        for dimension, incoming in list(self._incoming.items()):
            if (
                isinstance(incoming, SegmentRebuild)
                and incoming.asks_matchers
                and not all(map(self._node.table.is_serving, incoming.awaited))
            ):
                self._stop(dimension)
        for dimension, export in list(self._exports.items()):
            if export.until_us is not None and export.until_us <= now_us:
                del self._exports[dimension]
