"""Life cycle of a matcher in the cluster: start, gossip, join, leave, and detection of failures.

| state | action | until |
| --- | --- | --- |
| starting | asks all dispatchers whether it is expected | all answered: serving, or joining |
| joining | asks for donors on the dimensions where it serves nothing | it serves on all |
| serving | gossips, watches, takes over holes that lie above its segments | it is to leave |
| leaving | offers its segments to their neighbours | it serves nothing: left; it stays: joining |
| left | nothing | it stays: joining |

A matcher that was known before it started (it crashed) does not get its first segments again:
others may serve them by now. One that learns that it is declared dead drops everything and joins
anew. Only it writes its own entry: an entry of an earlier incarnation is answered by a newer one.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable

import msgspec

from shoal.broker.effects import Effect, Record, SetTimer
from shoal.broker.strategy import ProtocolError
from shoal.model import BrokerId
from shoal.overlays.bluedove.cluster.gossip import choose_partners, compare, digest, silent
from shoal.overlays.bluedove.cluster.members import NOTHING, WHOLE, Member, Segment, Status
from shoal.overlays.bluedove.cluster.planner import heirs, is_successor
from shoal.overlays.bluedove.messages import (
    Digest,
    Donors,
    GossipNews,
    JoinAnswer,
    JoinCluster,
    MemberHello,
    SegmentTakeOver,
)
from shoal.overlays.bluedove.node import BlueDoveNode
from shoal.overlays.bluedove.records import DeathRecord
from shoal.overlays.bluedove.serving.handover import Handover
from shoal.overlays.bluedove.serving.matcher import Matcher

# A hole counts after this many rounds of gossip: the news of the new owner may be slower than that
# of the old owner's release.
ROUNDS_BEFORE_BELIEF = 3


class MemberState(enum.Enum):
    """A matcher's state in its life cycle."""

    STARTING = "starting"
    JOINING = "joining"
    SERVING = "serving"
    LEAVING = "leaving"
    LEFT = "left"


class ClusterMembership:
    """One matcher among the others."""

    def __init__(self, node: BlueDoveNode, matcher: Matcher) -> None:
        self._node = node
        self._matcher = matcher
        self.handover = Handover(node, matcher, self.announce)
        self.state = MemberState.STARTING
        self._generation = self._version = self._changed = 0
        self._unanswered: dict[BrokerId, None] = {}
        self._is_known = False
        self._was_welcomed = False
        self._stays_ready = False
        self._round = 0
        self._holes: dict[tuple[int, Segment], int] = {}
        self._heir_tries = 0

    @property
    def is_leaving(self) -> bool:
        return self.state is MemberState.LEAVING

    # --- starting -----------------------------------------------------------------------------

    def start(self, now_us: int, out: list[Effect]) -> None:
        self._generation = self._node.table.born = max(1, now_us)
        if self._node.table.entry(self._node.broker) is None:
            self._write(now_us)
        self._unanswered = dict.fromkeys(self._node.dispatchers)
        for dispatcher in self._node.dispatchers:
            self._node.send(dispatcher, MemberHello(), now_us, out)
        parameters = self._node.parameters
        out.append(SetTimer(("gossip",), now_us + parameters.gossip_interval_us))
        out.append(SetTimer(("load",), now_us + parameters.load_interval_us))

    def welcome(
        self, dispatcher: BrokerId, message: JoinAnswer, now_us: int, out: list[Effect]
    ) -> None:
        if self.state is not MemberState.STARTING:
            return
        self._node.learn(message.members, now_us, out)
        self._was_welcomed = True
        self._is_known = self._is_known or not message.is_first
        self._unanswered.pop(dispatcher, None)
        self._begin(now_us, out)

    def _begin(self, now_us: int, out: list[Effect]) -> None:
        """When all dispatchers that are there have answered: serve, or join."""
        if self._unanswered or not self._was_welcomed:
            return
        first = {member.broker: member.segments for member in self._node.first_members}
        segments = first.get(self._node.broker)
        if self._is_known or segments is None:
            self.state = MemberState.JOINING
            self.announce(now_us, out)
            self._join(now_us, out)
            return
        self.state = MemberState.SERVING
        for dimension, segment in enumerate(segments):
            self._matcher.serve(dimension, segment, now_us, out)
        self.announce(now_us, out)
        for dimension, segment in enumerate(segments):
            self.handover.begin(dimension, segment, now_us, out)

    def report(self, now_us: int, out: list[Effect]) -> None:
        """Check the load, and report a changed one to the dispatchers."""
        if self.state is MemberState.LEFT:
            return
        out.append(SetTimer(("load",), now_us + self._node.parameters.load_interval_us))
        self._matcher.report(now_us, out)

    # --- its own entry ------------------------------------------------------------------------

    def _write(self, now_us: int, status: Status = Status.ALIVE) -> Member:
        """Write a new version of the own entry."""
        self._version += 1
        segments = tuple(self._matcher.segments)
        known = self._node.table.entry(self._node.broker)
        said = None if known is None else (known.generation, known.status, known.segments)
        if said != (self._generation, status, segments):
            self._changed = self._version
        member = Member(
            broker=self._node.broker,
            generation=self._generation,
            version=self._version,
            changed=self._changed,
            status=status,
            segments=segments,
        )
        self._node.table.write(member, now_us)
        return member

    def announce(self, now_us: int, out: list[Effect], also_tell: Iterable[BrokerId] = ()) -> None:
        """Announce the served segments to the dispatchers at once.

        Others learn of them by gossip.
        """
        status = Status.LEFT if self.state is MemberState.LEFT else Status.ALIVE
        member = self._write(now_us, status)
        gone = [self._node.table.members[name] for name in self._node.table.gone()]
        news = GossipNews((member, *gone))
        for broker in dict.fromkeys((*self._node.dispatchers, *also_tell)):
            if broker != self._node.broker:
                self._node.send(broker, news, now_us, out)
        if self.state is MemberState.JOINING and all(self._matcher.segments):
            self.state = MemberState.SERVING

    # --- gossip -------------------------------------------------------------------------------

    def gossip(self, now_us: int, out: list[Effect]) -> None:
        """One round: exchange tables, look for dead members and for holes."""
        node = self._node
        if self.state is MemberState.LEFT:
            return
        out.append(SetTimer(("gossip",), now_us + node.parameters.gossip_interval_us))
        if self.state is MemberState.STARTING:
            for dispatcher in self._unanswered or node.dispatchers:
                node.send(dispatcher, MemberHello(), now_us, out)
            if now_us - node.table.born > node.parameters.failure_us:
                # A link that lasts does not fail while its other end is down.
                answering = {each for each in self._unanswered if each in node.linked}
                self._unanswered = dict.fromkeys(sorted(answering))
                self._begin(now_us, out)
            return
        self._write(now_us)
        self._round += 1
        versions = node.table.heartbeats.to_bytes()
        message = Digest(basis=node.table.heartbeats.basis, versions=versions)
        if not versions:
            message = Digest(digest(node.table))
        for partner in choose_partners(node.table, node.broker, self._round, node.random):
            node.send(partner, message, now_us, out)
        for member in silent(node.table, node.broker, now_us - node.parameters.failure_us):
            node.table.merge([msgspec.structs.replace(member, status=Status.DEAD)], now_us)
            record = DeathRecord(matcher=node.broker, dead=member.broker, at_us=now_us)
            out.append(Record(record))
        self.handover.tick(now_us)
        if self.state is MemberState.LEAVING:
            self._hand_over(now_us, out)
        else:
            self._join(now_us, out)
            self._fill_holes(now_us, out)

    def digest(self, partner: BrokerId, message: Digest, now_us: int, out: list[Effect]) -> None:
        table = self._node.table
        if message.versions:
            self._heartbeats(partner, message, now_us, out)
            return
        found = compare(table, message.ages, now_us)
        if found:
            self._node.send(
                partner, GossipNews(found.members, found.wanted, found.ages), now_us, out
            )

    def _heartbeats(
        self, partner: BrokerId, message: Digest, now_us: int, out: list[Effect]
    ) -> None:
        """Exchange versions with a table of the same basis; send another one the ages here, as
        where a version does not fit.
        """
        table = self._node.table
        heartbeats = table.heartbeats
        if not (heartbeats.fits(message.basis, message.versions) and heartbeats.to_bytes()):
            self._node.send(partner, Digest(digest(table)), now_us, out)
            return
        is_ahead = heartbeats.is_ahead_of(message.versions)
        table.renew_all(message.versions, now_us)
        if is_ahead:
            news = GossipNews((), basis=heartbeats.basis, versions=heartbeats.to_bytes())
            self._node.send(partner, news, now_us, out)

    def news(self, partner: BrokerId, message: GossipNews, now_us: int, out: list[Effect]) -> None:
        table = self._node.table
        self._node.learn(message.members, now_us, out)
        table.renew(message.ages, now_us)
        if message.versions and table.heartbeats.fits(message.basis, message.versions):
            table.renew_all(message.versions, now_us)
        if message.wanted:
            found = (table.members.get(name) for name in message.wanted)
            members = tuple(member for member in found if member is not None)
            self._node.send(partner, GossipNews(members), now_us, out)

    def contested(self, now_us: int, out: list[Effect]) -> None:
        """Others have an entry about this matcher that it did not write in this incarnation."""
        table = self._node.table
        said, table.contested = table.contested, None
        if said is None or self.state is MemberState.LEFT:
            return
        was_known, is_of_earlier_life = self._is_known, said.generation != self._generation
        self._is_known = was_known or is_of_earlier_life
        if self.state is MemberState.STARTING:
            # It served in an earlier incarnation; others must not count that as present service.
            self._generation = max(self._generation, said.generation + 1)
            self._write(now_us)
        elif said <= table.ages[self._node.broker]:
            if not was_known:  # it began as if it were new: others may serve its segments by now
                self._rise_again(now_us, out)
        elif said.generation == self._generation:
            self._rise_again(now_us, out)
        else:  # the clock has gone back between two incarnations
            self._generation = said.generation + 1
            self.announce(now_us, out)

    def _rise_again(self, now_us: int, out: list[Effect]) -> None:
        """This matcher was declared dead: others serve its segments by now."""
        self._generation = max(self._generation + 1, now_us)
        self.handover.forget()
        self.state = MemberState.JOINING
        waiting = self._matcher.forget()
        self.announce(now_us, out)
        self._matcher.hand_back(waiting, now_us, out)

    # --- joining ------------------------------------------------------------------------------

    def _join(self, now_us: int, out: list[Effect]) -> None:
        """Ask for segments on dimensions that are neither served nor on their way."""
        wanting = self._wanting()
        if wanting:
            for dispatcher in self._node.dispatchers:
                self._node.send(dispatcher, JoinCluster(wanting), now_us, out)

    def _wanting(self) -> tuple[int, ...]:
        return tuple(
            dimension
            for dimension, segment in enumerate(self._matcher.segments)
            if not segment and not self.handover.is_busy(dimension)
        )

    def donors(self, message: Donors, now_us: int, out: list[Effect]) -> None:
        if self.state not in (MemberState.JOINING, MemberState.SERVING):
            return
        self._node.learn(message.members, now_us, out)
        for dimension in self._wanting():
            if dimension in message.matchers:
                self.handover.ask(message.matchers[dimension], dimension, now_us, out)
            elif self._is_first_of_all(dimension):
                self.handover.rebuild(dimension, WHOLE, now_us, out)

    def _is_first_of_all(self, dimension: int) -> bool:
        """Whether a dimension is unserved, and this matcher has to begin anew."""
        serving = self._node.table.serving()
        expected = self._is_awaited(dimension, WHOLE)
        nobody = not any(member.segments[dimension] for member in serving)
        return nobody and not expected and serving[0].broker == self._node.broker

    @property
    def awaited(self) -> list[BrokerId]:
        """Brokers that have yet to answer, or to send rows of segments to be served here."""
        return list(dict.fromkeys((*self._unanswered, *self.handover.awaited)))

    # --- leaving ------------------------------------------------------------------------------

    @property
    def has_left(self) -> bool:
        return self.state is MemberState.LEFT

    def leave(self, *, stay_ready: bool, now_us: int, out: list[Effect]) -> None:
        """ProtocolError without a matcher that could take over."""
        if self.obstacle:
            raise ProtocolError(self.obstacle)
        self._stays_ready = stay_ready
        self.state = MemberState.LEAVING
        self._hand_over(now_us, out)

    @property
    def obstacle(self) -> str:
        """Why the matcher cannot leave now; empty if it can."""
        if self.state not in (MemberState.SERVING, MemberState.JOINING):
            return f"{self._node.broker} is {self.state.value}, and cannot leave"
        others = [m for m in self._node.table.serving() if m.broker != self._node.broker]
        if not any(any(member.segments) for member in others):
            return f"{self._node.broker} is the last matcher, and cannot leave"
        return ""

    def stay(self, now_us: int, out: list[Effect]) -> None:
        """Cancel the leave: segments that others have taken over stay theirs, so join again."""
        if self.state is MemberState.LEFT:  # all know that; and it gossips no more
            self._generation = max(self._generation + 1, now_us)
            parameters = self._node.parameters
            out.append(SetTimer(("gossip",), now_us + parameters.gossip_interval_us))
            out.append(SetTimer(("load",), now_us + parameters.load_interval_us))
        elif self.state is not MemberState.LEAVING:
            return
        self.state = MemberState.JOINING
        self.announce(now_us, out)

    def _hand_over(self, now_us: int, out: list[Effect]) -> None:
        self._heir_tries += 1
        for dimension, segment in enumerate(self._matcher.segments):
            if not segment or self.handover.is_busy(dimension):
                continue
            if self._node.parameters.replicated:
                self._matcher.serve(dimension, NOTHING, now_us, out)
                self.announce(now_us, out)
                continue
            found = heirs(self._node.table, dimension, self._node.broker)
            if found:
                heir = found[self._heir_tries % len(found)]
                self._node.send(heir, SegmentTakeOver(dimension), now_us, out)
        self._finish(now_us, out)

    def _finish(self, now_us: int, out: list[Effect]) -> None:
        if any(self._matcher.segments) or not self._matcher.is_idle:
            return
        if self._stays_ready:
            self._generation = max(self._generation + 1, now_us)
            self.state = MemberState.JOINING
        else:
            self.state = MemberState.LEFT
        # It gossips no more: matchers that are not told now would take it for dead.
        self.announce(now_us, out, [each.broker for each in self._node.table.serving()])

    def take_over(
        self, leaving_broker: BrokerId, message: SegmentTakeOver, now_us: int, out: list[Effect]
    ) -> None:
        """Ask for the segment of a leaving broker, which repeats this until it is given.

        No refusal: the leaving broker may stay by then, and take it for one of its own request.
        """
        if self.state is MemberState.SERVING:
            self.handover.ask(leaving_broker, message.dimension, now_us, out)

    # --- holes --------------------------------------------------------------------------------

    def _fill_holes(self, now_us: int, out: list[Effect]) -> None:
        """Serve holes above an own segment, once they count."""
        table, broker = self._node.table, self._node.broker
        seen: dict[tuple[int, Segment], int] = {}
        for dimension in range(len(self._node.dimensions)):
            for hole in table.holes(dimension):
                if not is_successor(table, dimension, hole, broker):
                    continue
                if self.handover.is_busy(dimension) or self._is_awaited(dimension, hole):
                    continue
                rounds = self._holes.get((dimension, hole), 0) + 1
                if rounds < ROUNDS_BEFORE_BELIEF:
                    seen[dimension, hole] = rounds
                else:
                    self.handover.rebuild(dimension, hole, now_us, out)
        self._holes = seen

    def _is_awaited(self, dimension: int, hole: Segment) -> bool:
        """Whether an expected matcher will serve some of it."""
        return any(
            member.generation == 0
            and member.status is Status.ALIVE
            and member.segments[dimension].low < hole.high
            and hole.low < member.segments[dimension].high
            for member in self._node.table.members.values()
        )

    # --- links --------------------------------------------------------------------------------

    def link_down(self, broker: BrokerId, now_us: int, out: list[Effect]) -> None:
        self._unanswered.pop(broker, None)
        if self.state is MemberState.STARTING:
            self._begin(now_us, out)
        self.handover.link_down(broker, now_us, out)
        self._matcher.forget_report(broker)
