"""BlueDove at one broker: a dispatcher, a matcher, or both, behind the broker machine's front end.

    publisher -> dispatcher -> matcher -> dispatcher -> the subscriber's dispatcher -> subscriber

A publication makes one hop from its dispatcher to one of its candidate matchers, which finds all
matching subscriptions; their dispatchers deliver it, directly or into mailboxes. If order is free,
as in the paper, a matcher sends its results to the subscribers' dispatchers itself; otherwise it
answers, and the publisher's dispatcher forwards them in order. Each part has its own module; this
one dispatches inputs.

Beyond the paper: a dispatcher keeps every publication until it is matched and every receiver has
it, so no accepted one is lost when matchers die; subscriptions lost with a matcher are rebuilt
before anything is matched; a subscription is acknowledged only when no publication can miss it.
Deviations: deliveries pass the subscriber's dispatcher, which knows the places of its clients;
order, as above.

Source: Li et al., A Scalable and Elastic Publish/Subscribe Service.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sized

from shoal.broker.effects import (
    Effect,
    EndLink,
    LeaveNetwork,
    Left,
    LinkState,
    MeasuredDelays,
    ProcessAnswered,
    Started,
    TimerKey,
    WatchDelays,
)
from shoal.broker.messages import Message
from shoal.broker.routing_decision import RoutingDecision, RoutingQuery
from shoal.broker.scaling_status import ScalingStatus
from shoal.broker.strategy import BaseStrategy, BrokerContext, ProtocolError, unexpected
from shoal.matching import MatchIndex
from shoal.model import BrokerId, ClientId
from shoal.overlays.bluedove.dispatching.dispatcher import Dispatcher
from shoal.overlays.bluedove.messages import (
    Digest,
    Donors,
    Fetch,
    GossipNews,
    JoinAnswer,
    LeaveCluster,
    MatcherStays,
    MatchRequest,
    MembershipRefused,
    Pull,
    Remove,
    SegmentTakeOver,
    Split,
    StayInCluster,
    Store,
    SubscriptionRows,
    TakerReady,
    Yours,
)
from shoal.overlays.bluedove.node import BlueDoveNode
from shoal.overlays.bluedove.parameters import BlueDoveParameters, DeliveryOrder
from shoal.overlays.bluedove.routing_decision import routing_decision
from shoal.overlays.bluedove.serving.matcher import Matcher
from shoal.overlays.bluedove.serving.membership import ClusterMembership
from shoal.overlays.bluedove.serving.queues import Index


class Bluedove(BaseStrategy):
    """One broker of a cluster; `make_index` makes what searches a matcher's sets."""

    def __init__(
        self,
        context: BrokerContext,
        parameters: BlueDoveParameters,
        make_index: Callable[[], Index] = MatchIndex,
    ) -> None:
        self.node = node = BlueDoveNode(context, parameters)
        role = parameters.role(context.broker)
        self.dispatcher = Dispatcher(node) if role.dispatches else None
        self.matcher = Matcher(node, make_index) if role.matches else None
        self.membership = None if self.matcher is None else ClusterMembership(node, self.matcher)
        self._revision = 0
        self._is_leaving = self._is_ending = False
        # The dispatcher that has asked this matcher to leave for good.
        self._asked_by: BrokerId = ""
        self._now_us = 0

    @property
    def description(self) -> Mapping[str, int]:
        found = {"members": len(self.node.table.names)}
        if self.dispatcher is not None:
            found["subscriptions"] = len(self.dispatcher.home)
        if self.matcher is not None:
            found["rows"] = sum(map(len, self.matcher.sets))
        return found

    @property
    def searched(self) -> Sized:
        """0: a matcher's work is in `Work` effects."""
        return ()

    def routing_decision(self, asked: RoutingQuery) -> RoutingDecision:
        return routing_decision(asked, self.node, self.dispatcher, self.matcher)

    # --- inputs -------------------------------------------------------------------------------

    @property
    def is_ready(self) -> bool:
        """Always: inputs before there are matchers, or before these are complete, wait."""
        return True

    @property
    def awaited(self) -> Collection[BrokerId]:
        """The brokers with subscriptions that are to be matched here."""
        return () if self.membership is None else self.membership.awaited

    @property
    def keeps_order(self) -> bool:
        """Unless order is free: then matchers, which are not equally fast, deliver at once."""
        return self.node.parameters.order is DeliveryOrder.PUBLISHER

    def start(self, started: Started, now_us: int, out: list[Effect]) -> None:
        self.node.start(started, now_us)
        if self.node.parameters.elastic and self.matcher is not None:
            out.append(WatchDelays())
        if self.dispatcher is not None:
            self.dispatcher.start(now_us, out)
        if self.membership is not None:
            self.membership.start(now_us, out)
        self._listen_to_self(now_us, out)

    def receive(
        self, neighbour: BrokerId, message: Message, now_us: int, out: list[Effect]
    ) -> None:
        if neighbour not in self.node.linked:
            raise ProtocolError(f"{neighbour} is not linked to {self.node.broker}")
        self._take_message(neighbour, message, now_us, out)
        self._listen_to_self(now_us, out)

    def request(self, client: ClientId, request: Message, now_us: int, out: list[Effect]) -> None:
        if type(request) is LeaveCluster and self.membership is not None:
            self.membership.leave(stay_ready=request.stay_ready, now_us=now_us, out=out)
        elif self.dispatcher is not None:
            self.dispatcher.request(client, request, now_us, out)
        else:
            raise ProtocolError(f"{self.node.broker} is no dispatcher")
        self._listen_to_self(now_us, out)

    def timer(self, key: TimerKey, now_us: int, out: list[Effect]) -> None:
        if self._is_ending:
            return
        match key:
            case ("match", core) if self.matcher is not None:
                self.matcher.work_done(int(core), now_us, out)
            case ("gossip",) if self.membership is not None:
                self.membership.gossip(now_us, out)
                self._tick(now_us, out)
            case ("load",) if self.membership is not None:
                self.membership.report(now_us, out)
            case ("tick",) if self.dispatcher is not None:
                self._now_us = now_us
                self._tick(now_us, out)
                self.dispatcher.tick(now_us, out)
        self._listen_to_self(now_us, out)

    def _tick(self, now_us: int, out: list[Effect]) -> None:
        """For both kinds of timers: links and absences are of the whole broker."""
        self.node.tick(now_us, out)
        for broker in self.node.absences.give_up(now_us):
            self._give_up_broker(broker, now_us, out)

    def _give_up_broker(self, broker: BrokerId, now_us: int, out: list[Effect]) -> None:
        if self.dispatcher is not None:
            self.dispatcher.given_up(broker, out)
        if self.membership is not None:
            self.membership.handover.given_up(broker, now_us, out)

    def measured(self, measured: MeasuredDelays) -> None:
        if self.matcher is not None:
            self.matcher.busy = measured.busy

    def link(self, neighbour: BrokerId, state: LinkState, now_us: int, out: list[Effect]) -> None:
        up = state is LinkState.UP
        if up and neighbour in self.node.linked:
            # It has reconnected before its loss was noticed; messages to it are lost all the same.
            self._link_changed(neighbour, False, now_us, out)
        self._link_changed(neighbour, up, now_us, out)
        if state is LinkState.ENDED and neighbour in self.node.dispatchers:
            self.node.dismiss(neighbour, out)
            self._give_up_broker(neighbour, now_us, out)
        if self._is_ending:
            self._end(out, [neighbour] if up else [])
            return
        self._listen_to_self(now_us, out)

    def _link_changed(self, neighbour: BrokerId, up: bool, now_us: int, out: list[Effect]) -> None:
        self.node.link(neighbour, up, now_us, out)
        if self.dispatcher is not None:
            self.dispatcher.link(neighbour, up, now_us, out)
        if self.membership is not None:
            if up:
                self.membership.handover.link_up(neighbour, now_us, out)
            else:
                self.membership.link_down(neighbour, now_us, out)

    # --- leaving ------------------------------------------------------------------------------

    def leave(self, now_us: int, out: list[Effect]) -> None:
        """A matcher hands its segments over, a dispatcher waits for its publications in transit.

        Then it ends its links, by which all others learn of the leave.
        """
        if self._is_leaving:
            return
        if self.obstacle:
            raise ProtocolError(self.obstacle)
        if self.membership is not None:
            self.membership.leave(stay_ready=False, now_us=now_us, out=out)
        self._is_leaving = True
        self._listen_to_self(now_us, out)

    def stay(self, now_us: int, out: list[Effect]) -> None:
        if self._is_ending:
            raise ProtocolError("its links end")
        if self._is_leaving:
            self._is_leaving = False
            if self.membership is not None:
                self.membership.stay(now_us, out)
            self._listen_to_self(now_us, out)

    @property
    def obstacle(self) -> str:
        node = self.node
        if self.dispatcher is not None and not any(
            each != node.broker and each not in node.lost for each in node.dispatchers
        ):
            return f"{node.broker} is the last dispatcher, and cannot leave"
        return "" if self.membership is None else self.membership.obstacle

    @property
    def _has_nothing_left(self) -> bool:
        dispatcher, membership = self.dispatcher, self.membership
        return (membership is None or membership.has_left) and (
            dispatcher is None or not (dispatcher.outbox or dispatcher.home)
        )

    def _end(self, out: list[Effect], linked: Iterable[BrokerId]) -> None:
        """End these links; without any, it has left."""
        out.extend(EndLink(each) for each in linked)
        if not self.node.linked:
            out.append(Left())

    # --- the number of matchers ---------------------------------------------------------------

    @property
    def scaling(self) -> ScalingStatus | None:
        dispatcher = self.dispatcher
        if dispatcher is None or dispatcher.scaling is None:
            return None
        return dispatcher.scaling.status(self._now_us, is_first=dispatcher.is_first)

    def process_answered(self, answered: ProcessAnswered, now_us: int, out: list[Effect]) -> None:
        if self.dispatcher is not None and self.dispatcher.scaling is not None:
            self.dispatcher.scaling.answered(answered, now_us, out)

    def leave_refused(self, reason: str, now_us: int, out: list[Effect]) -> None:
        if self._asked_by:
            self.node.send(self._asked_by, MatcherStays(reason), now_us, out)

    # --- messages -----------------------------------------------------------------------------

    def _listen_to_self(self, now_us: int, out: list[Effect]) -> None:
        inbox = self.node.inbox
        while inbox:
            self._take_message(self.node.broker, inbox.popleft(), now_us, out)
        if self.dispatcher is not None and self._revision != self.node.table.revision:
            self._revision = self.node.table.revision
            self.dispatcher.home.members_changed(now_us, out)
            self._listen_to_self(now_us, out)
        if self._is_leaving and not self._is_ending and self._has_nothing_left:
            self._is_ending = True
            self._end(out, list(self.node.linked))

    def _take_message(
        self, sender: BrokerId, message: Message, now_us: int, out: list[Effect]
    ) -> None:
        self._hand(sender, message, now_us, out)
        if self.membership is not None and self.node.table.contested is not None:
            self.membership.contested(now_us, out)

    def _hand(self, sender: BrokerId, message: Message, now_us: int, out: list[Effect]) -> None:
        """To whichever part it is for."""
        if self.dispatcher is not None:
            if type(message) is GossipNews:
                self.dispatcher.news(sender, message, now_us, out)
                if self.membership is None:
                    return
            elif self.dispatcher.receive(sender, message, now_us, out):
                return
        if self.membership is None or not self._take_as_matcher(sender, message, now_us, out):
            raise unexpected(message, sender)

    def _take_as_matcher(
        self, sender: BrokerId, message: Message, now_us: int, out: list[Effect]
    ) -> bool:
        """Handle a message; False if it is none for matchers."""
        assert self.matcher is not None
        assert self.membership is not None
        matcher, membership = self.matcher, self.membership
        handover = membership.handover
        match message:
            case MatchRequest():
                matcher.match(sender, message, now_us, out)
            case Store(row, dimensions):
                matcher.store(message, now_us, out)
                handover.pass_on(row, dimensions, now_us, out)
            case Remove():
                matcher.remove(message)
            case Digest():
                membership.digest(sender, message, now_us, out)
            case GossipNews():
                membership.news(sender, message, now_us, out)
            case Pull():
                members = tuple(self.node.table.members.values())
                self.node.dispatchers.setdefault(sender)
                self.node.send(sender, GossipNews(members), now_us, out)
            case JoinAnswer():
                membership.welcome(sender, message, now_us, out)
            case Donors():
                membership.donors(message, now_us, out)
            case LeaveCluster(_, True):
                self._asked_by = sender
                out.append(LeaveNetwork())
            case StayInCluster():
                self._asked_by = ""
                out.append(LeaveNetwork(leaves=False))
            case LeaveCluster(stay_ready):
                membership.leave(stay_ready=stay_ready, now_us=now_us, out=out)
            case _:
                return self._take_in_handover(sender, message, now_us, out)
        return True

    def _take_in_handover(
        self, sender: BrokerId, message: Message, now_us: int, out: list[Effect]
    ) -> bool:
        assert self.membership is not None
        membership, handover = self.membership, self.membership.handover
        match message:
            case Split(dimension):
                handover.split(sender, dimension, membership.is_leaving, now_us, out)
            case SubscriptionRows():
                handover.rows(sender, message, now_us, out)
            case TakerReady(dimension):
                handover.ready(sender, dimension, now_us, out)
            case Yours():
                handover.yours(sender, message, now_us, out)
            case MembershipRefused(dimension):
                handover.refused(sender, dimension, now_us, out)
            case SegmentTakeOver():
                membership.take_over(sender, message, now_us, out)
            case Fetch(_, _, _, False):
                handover.fetch(sender, message, now_us, out)
            case _:
                return False
        return True
