"""How segments change hands: joining, leaving, and serving what nobody serves any more.

A segment given away moves in four steps, so that at no time two matchers serve it with different
subscriptions, and none is missed:

    taker -> giver   Split       give me half (of a leaver: all)
    giver -> taker   Rows        its subscriptions; from now on the giver passes new ones on, too
    taker -> giver   TakerReady  I have them
    giver -> taker   Yours       I no longer serve it: behind all that was passed on

In between the giver serves, and after its last word it still matches what it had taken in.  When a
link breaks, the giver keeps what it has not given; what it has given and the taker never got is a
hole, and the giver lies below it.

A hole (its matcher died) is served by the matcher below, once the subscriptions are rebuilt: from
all dispatchers, each of which has those of its clients, and waiting for those that are away; then
from all matchers, whatever dimension they have them on, which know those of dispatchers that were
given up.  Dispatchers hear who serves what before they are asked: what is subscribed after their
answer is then stored where nobody but the matcher below is going to serve it, or not yet.

A matcher that begins with its first segment, as nobody knows of an earlier life, asks dispatchers
likewise: they may have been there before, and their clients' subscriptions with them.  It takes
publications in at once, and matches them when it has the answers.

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
    News,
    Refused,
    Row,
    Rows,
    Split,
    TakerReady,
    Yours,
    in_messages,
)
from shoal.overlays.bluedove.node import Node
from shoal.overlays.bluedove.serving.matcher import Matcher

# A joiner of a fully replicated cluster is told of new subscriptions so long after it joined:
# until every dispatcher has heard of it.
PASS_ON_US = 30_000_000


class _Taking:
    """A segment on its way here from a giver."""

    def __init__(self, giver: BrokerId) -> None:
        self.giver = giver


class _Rebuilding:
    """A hole that is to be served here, and who has yet to send what it knows.

    With `is_served` it is a first segment, for which publications come already.
    """

    def __init__(self, hole: Segment, number: int, *, is_served: bool = False) -> None:
        self.hole = hole
        self.number = number
        self.is_served = is_served
        self.asks_matchers = False
        self.awaited: dict[BrokerId, None] = {}


class _Giving:
    """A segment on its way from here; `until_us` when only copies are given (replication)."""

    def __init__(self, taker: BrokerId, segment: Segment) -> None:
        self.taker = taker
        self.segment = segment
        self.until_us: int | None = None


class Handover:
    """What one matcher gives and takes, at most one segment per dimension and direction."""

    def __init__(
        self,
        node: Node,
        matcher: Matcher,
        announce: Callable[[int, list[Effect], Iterable[BrokerId]], None],
    ) -> None:
        self._node = node
        self._matcher = matcher
        self._announce = announce
        self._incoming: dict[int, _Taking | _Rebuilding] = {}
        self._giving: dict[int, _Giving] = {}
        self._deferred: list[tuple[BrokerId, Fetch]] = []
        self._number = 0

    def is_busy(self, dimension: int) -> bool:
        return dimension in self._incoming or dimension in self._giving

    def forget(self) -> None:
        self._incoming.clear()
        self._giving.clear()

    # --- given away ---------------------------------------------------------------------------

    def split(
        self, taker: BrokerId, dimension: int, is_leaving: bool, now_us: int, out: list[Effect]
    ) -> None:
        """Give half of a segment, or all, or refuse: there is none, or one is moving already."""
        served = self._matcher.segments[self._matcher.dimension(dimension)]
        is_whole = is_leaving or self._node.parameters.replicated
        given = served if is_whole else halves(self._node.dimensions[dimension], served)
        # An heir of a leaver that stays: half a segment would not lie beside its own.
        is_late = not is_whole and self._serves(taker, dimension)
        if self.is_busy(dimension) or not given or is_late:
            self._node.send(taker, Refused(dimension), now_us, out)
            return
        self._giving[dimension] = _Giving(taker, given)
        rows = self._matcher.sets[dimension].meeting(given)
        self._send_rows(taker, dimension, given, rows, now_us, out)

    def _serves(self, matcher: BrokerId, dimension: int) -> bool:
        member = self._node.table.members.get(matcher)
        return member is not None and bool(member.segments[dimension])

    def pass_on(self, row: Row, dimensions: Iterable[int], now_us: int, out: list[Effect]) -> None:
        """A subscription that comes while a segment is being given goes there as well."""
        for dimension in dimensions:
            giving = self._giving.get(dimension)
            if giving is None:
                continue
            if giving.segment.meets(
                self._node.dimensions[dimension].ranges(row.subscription.filter)
            ):
                rows = Rows(dimension, giving.segment, (row,), False)
                self._node.send(giving.taker, rows, now_us, out)

    def ready(self, taker: BrokerId, dimension: int, now_us: int, out: list[Effect]) -> None:
        """The taker has everything: serve the segment no more, and say so."""
        giving = self._giving.get(dimension)
        if giving is None or giving.taker != taker or giving.until_us is not None:
            return  # given up meanwhile: the link broke in between
        if self._node.parameters.replicated:
            giving.until_us = now_us + PASS_ON_US
        else:
            del self._giving[dimension]
            served = self._matcher.segments[dimension]
            kept = Segment(served.low, giving.segment.low)
            self._matcher.serve(dimension, kept or NOTHING, now_us, out)
            self._announce(now_us, out, ())
        self._node.send(taker, Yours(dimension, giving.segment), now_us, out)

    # --- taken over ---------------------------------------------------------------------------

    def ask(self, giver: BrokerId, dimension: int, now_us: int, out: list[Effect]) -> bool:
        """Ask for (part of) a segment; False when one is moving on this dimension already."""
        if self.is_busy(self._matcher.dimension(dimension)):
            return False
        self._incoming[dimension] = _Taking(giver)
        self._node.send(giver, Split(dimension), now_us, out)
        return True

    def refused(self, giver: BrokerId, dimension: int, now_us: int, out: list[Effect]) -> None:
        taking = self._incoming.get(dimension)
        if isinstance(taking, _Taking) and taking.giver == giver:
            self._stop(dimension)
            self._answer_deferred(now_us, out)

    def rows(self, sender: BrokerId, message: Rows, now_us: int, out: list[Effect]) -> None:
        """Subscriptions for what is taken over."""
        dimension = self._matcher.dimension(message.dimension)
        incoming = self._incoming.get(dimension)
        if isinstance(incoming, _Rebuilding) and message.number == incoming.number:
            self._add(dimension, message.rows)
            if message.is_last:
                incoming.awaited.pop(sender, None)
                self._continue(dimension, incoming, now_us, out)
        elif isinstance(incoming, _Taking) and incoming.giver == sender and not message.number:
            self._matcher.incoming[dimension] = message.segment
            self._add(dimension, message.rows)
            if message.is_last:
                self._node.send(sender, TakerReady(dimension), now_us, out)
        elif self._node.parameters.replicated and not message.number:
            self._add(dimension, message.rows)
        # Else it was given up meanwhile.

    def _add(self, dimension: int, rows: Iterable[Row]) -> None:
        for row in rows:
            self._matcher.sets[dimension].add(row)

    def yours(self, giver: BrokerId, message: Yours, now_us: int, out: list[Effect]) -> None:
        """The segment is ours to serve."""
        taking = self._incoming.get(message.dimension)
        if not isinstance(taking, _Taking) or taking.giver != giver:
            return  # a hole now, which the matcher below it will find
        self._serve_too(message.dimension, message.segment, now_us, out, (giver,))

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
        """Serve a hole beside what is served here, once its subscriptions are found."""
        if not self.is_busy(dimension):
            self._matcher.incoming[dimension] = hole
            self._number += 1
            self._ask_dispatchers(dimension, _Rebuilding(hole, self._number), now_us, out)

    def begin(self, dimension: int, segment: Segment, now_us: int, out: list[Effect]) -> None:
        """Find the subscriptions of a first segment, which is served."""
        self._matcher.unready.add(dimension)
        self._number += 1
        beginning = _Rebuilding(segment, self._number, is_served=True)
        self._ask_dispatchers(dimension, beginning, now_us, out)

    def _ask_dispatchers(
        self, dimension: int, rebuilding: _Rebuilding, now_us: int, out: list[Effect]
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
        rebuilding: _Rebuilding,
        supplier: BrokerId,
        now_us: int,
        out: list[Effect],
    ) -> None:
        rebuilding.awaited[supplier] = None
        is_for_home = not rebuilding.asks_matchers
        if is_for_home:
            members = tuple(self._node.table.members.values())
            self._node.send(supplier, News(members), now_us, out)
        fetch = Fetch(dimension, rebuilding.hole, rebuilding.number, is_for_home)
        self._node.send(supplier, fetch, now_us, out)

    def _continue(
        self, dimension: int, rebuilding: _Rebuilding, now_us: int, out: list[Effect]
    ) -> None:
        if rebuilding.awaited:
            return
        if rebuilding.is_served:
            del self._incoming[dimension]
            self._matcher.be_ready(dimension, now_us, out)
            self._answer_deferred(now_us, out)
            return
        if not rebuilding.asks_matchers:
            rebuilding.asks_matchers = True
            for row in self._matcher.known_rows(dimension, rebuilding.hole):
                self._matcher.sets[dimension].add(row)
            serving = (member.broker for member in self._node.table.serving())
            for name in serving:
                if name != self._node.broker:
                    self._fetch(dimension, rebuilding, name, now_us, out)
        if not rebuilding.awaited:
            self._serve_too(dimension, rebuilding.hole, now_us, out)

    def fetch(self, sender: BrokerId, message: Fetch, now_us: int, out: list[Effect]) -> None:
        """Send what is known here of a hole; later, if some of it may just be on its way here.

        Who rebuilds answers at once, as two who rebuild would wait for each other.
        """
        self._matcher.dimension(message.dimension)
        if any(isinstance(incoming, _Taking) for incoming in self._incoming.values()):
            self._deferred.append((sender, message))
            return
        rows = self._matcher.known_rows(message.dimension, message.segment)
        dimension, segment = message.dimension, message.segment
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
        rows: list[Row],
        now_us: int,
        out: list[Effect],
        number: int = 0,
    ) -> None:
        for message in in_messages(dimension, segment, rows, number):
            self._node.send(to, message, now_us, out)

    # --- what goes wrong ----------------------------------------------------------------------

    def link_down(self, broker: BrokerId, now_us: int, out: list[Effect]) -> None:
        """Nothing more comes from there: give up what it was to give or take, or ask anew."""
        for dimension, giving in list(self._giving.items()):
            if giving.taker == broker:
                del self._giving[dimension]
        for dimension, incoming in list(self._incoming.items()):
            if isinstance(incoming, _Taking):
                if incoming.giver == broker:
                    self._stop(dimension)
            elif broker in incoming.awaited and incoming.asks_matchers:
                self._stop(dimension)  # the hole is found again, and asked for without it
        self._answer_deferred(now_us, out)

    @property
    def awaited(self) -> list[BrokerId]:
        """Who has yet to send what is to be served here, which nobody serves meanwhile."""
        rebuilding = [each for each in self._incoming.values() if isinstance(each, _Rebuilding)]
        return list(dict.fromkeys(broker for each in rebuilding for broker in each.awaited))

    def link_up(self, broker: BrokerId, now_us: int, out: list[Effect]) -> None:
        """What a dispatcher was asked may be lost, and it may have started again since."""
        for dimension, incoming in self._incoming.items():
            if isinstance(incoming, _Rebuilding) and broker in incoming.awaited:
                self._fetch(dimension, incoming, broker, now_us, out)

    def given_up(self, dispatcher: BrokerId, now_us: int, out: list[Effect]) -> None:
        """A dispatcher that is away is not waited for any more."""
        for dimension, incoming in list(self._incoming.items()):
            if isinstance(incoming, _Rebuilding) and not incoming.asks_matchers:
                incoming.awaited.pop(dispatcher, None)
                self._continue(dimension, incoming, now_us, out)

    def tick(self, now_us: int) -> None:
        """End what waits for the dead, and passing on to joiners that everybody knows by now."""
        for dimension, incoming in list(self._incoming.items()):
            if (
                isinstance(incoming, _Rebuilding)
                and incoming.asks_matchers
                and not all(map(self._node.table.is_serving, incoming.awaited))
            ):
                self._stop(dimension)
        for dimension, giving in list(self._giving.items()):
            if giving.until_us is not None and giving.until_us <= now_us:
                del self._giving[dimension]
