"""Clusters whose publications may be in arrays, and the parts of one that its drivers share.

A cluster is plain if nothing but the usual way of publications is under way:

    every owner of a place in the dispatchers' tables, which agree, serves it, or all dispatchers
    know that its broker is gone; no subscriptions or segments are on their way
    publications are at the first matcher that they were sent to, and none is assured
    messages under way are those of publications, gossip, loads, pulls, and requests to join

Private parts of the machines are read and written in this module and in `entering` and `leaving`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from shoal.broker.effects import Received, Requested
from shoal.broker.messages import Publish
from shoal.experiments.bluedove.testbed.compiled.arrays import MOST_DISPATCHERS, ClusterArrays
from shoal.experiments.bluedove.testbed.compiled.layout import ClusterLayout, matcher_of
from shoal.experiments.bluedove.testbed.stream import MessageStream
from shoal.model import BrokerId, MessageId
from shoal.overlays.bluedove.dispatching.dispatcher import Dispatcher
from shoal.overlays.bluedove.messages import (
    Digest,
    GossipNews,
    JoinCluster,
    LoadReport,
    MatchAnswer,
    Matched,
    MatchRequest,
    Pull,
    Receipt,
)
from shoal.overlays.bluedove.protocol import Bluedove
from shoal.overlays.bluedove.serving.membership import MemberState
from shoal.simulation.nodes import BrokerNode
from shoal.simulation.service import ServiceCosts
from shoal.simulation.world import World

# Messages and timers that the machines handle while the kernel has the publications.
BESIDE = (Digest, GossipNews, Pull, LoadReport, JoinCluster)
TIMERS = ("gossip", "load", "tick")


class SimulatedCluster(NamedTuple):
    """The parts of a loaded cluster; `note_answers` has its stream note the machines' answers."""

    world: World
    strategies: Mapping[BrokerId, Bluedove]
    dispatchers: tuple[BrokerId, ...]
    costs: ServiceCosts
    stream: MessageStream
    attributes: tuple[str, ...]
    latency_us: int
    note_answers: Callable[[], None]

    @property
    def has_monitors(self) -> bool:
        """Whether brokers are told their delays."""
        return any(node._monitor is not None for node in self.world.brokers.values())

    def dispatcher(self, name: BrokerId) -> Dispatcher:
        found = self.strategies[name].dispatcher
        assert found is not None
        return found


class CompiledCluster(NamedTuple):
    """A cluster in arrays."""

    layout: ClusterLayout
    state: ClusterArrays


def is_plain(cluster: SimulatedCluster) -> bool:
    """Whether nothing but the usual way of publications is under way."""
    if len(cluster.dispatchers) > MOST_DISPATCHERS:
        return False
    return (
        all(_is_plain_dispatcher(cluster, name) for name in cluster.dispatchers)
        and _agree(cluster)
        and all(map(_is_plain_matcher, _running_matchers(cluster)))
        and all(_is_plain_event(cluster, *event[2:]) for event in cluster.world.queue.events)
        and all(_is_at(cluster, *where) for where in _queued_publications(cluster))
    )


def _queued_publications(cluster: SimulatedCluster) -> Iterator[tuple[MessageId, BrokerId]]:
    """The publications that matchers have, each with its matcher."""
    for strategy in _running_matchers(cluster):
        matcher = matcher_of(strategy)
        taken = (each for job in matcher._jobs.values() for each in job.taken)
        waiting = (each for queue in matcher.queues for each in queue.waiting)
        for each in (*taken, *waiting):
            yield each.routed.message_id, strategy.node.broker


def _is_at(cluster: SimulatedCluster, message_id: MessageId, matcher: BrokerId | None) -> bool:
    """Whether a dispatcher keeps a publication, and has sent it to this matcher."""
    pending = cluster.dispatcher(message_id.broker).outbox._pending.get(message_id)
    return pending is not None and matcher in (None, pending.matcher)


def _running_matchers(cluster: SimulatedCluster) -> Iterator[Bluedove]:
    for name, strategy in cluster.strategies.items():
        if strategy.matcher is not None and runs(cluster, name):
            yield strategy


def runs(cluster: SimulatedCluster, name: BrokerId) -> bool:
    node = cluster.world.brokers.get(name)
    return node is not None and node.running


def _is_plain_dispatcher(cluster: SimulatedCluster, name: BrokerId) -> bool:
    strategy, dispatcher = cluster.strategies[name], cluster.dispatcher(name)
    outbox = dispatcher.outbox
    # A silent matcher is asked again as soon as it is heard from.
    is_silent = any(runs(cluster, each) for each in outbox._silent)
    return not (
        is_silent
        or strategy.matcher is not None
        or outbox._stranded
        or outbox._keeps_order
        or dispatcher.home.unstored
        or any(
            each.tried or each.request is not None or each.matcher is None
            for each in outbox._pending.values()
        )
    )


def _agree(cluster: SimulatedCluster) -> bool:
    """Whether all dispatchers have the same table, which the matchers' segments and links bear
    out.
    """
    nodes = [cluster.strategies[name].node for name in cluster.dispatchers]
    first = nodes[0]
    for number in range(len(first.dimensions)):
        intervals = first.table.intervals(number)
        if any(node.table.intervals(number) != intervals for node in nodes[1:]):
            return False
    for member in first.table.serving():
        if not any(member.segments):
            continue
        name = member.broker
        if not runs(cluster, name):
            if not all(name in node.lost for node in nodes):
                return False
            continue
        strategy = cluster.strategies[name]
        if member.segments != tuple(matcher_of(strategy).segments):
            return False
        is_linked = all(
            name in node.linked and name not in node.lost and node.broker in strategy.node.linked
            for node in nodes
        )
        if not is_linked:
            return False
    return all(
        other in node.linked for node in nodes for other in cluster.dispatchers
        if other != node.broker
    )  # fmt: skip


def _is_plain_matcher(strategy: Bluedove) -> bool:
    matcher, membership = matcher_of(strategy), strategy.membership
    assert membership is not None
    if not any(matcher.segments):
        # A spare: it has no publications, and nothing of it is in the arrays.
        return matcher.is_idle and not membership.handover.is_active
    return not (
        membership.state is not MemberState.SERVING
        or membership.handover.is_active
        or matcher.unready
        or matcher._preparing
        or any(matcher._before_shrinking)
        or any(job.is_void or job.slices or len(job.taken) != 1 for job in matcher._jobs.values())
    )


def _is_plain_event(cluster: SimulatedCluster, action: Any, argument: Any) -> bool:
    """Whether an event is one of the kernel's, one of the machines' beside it, or none of a
    broker.
    """
    node = getattr(action, "__self__", None)
    if not isinstance(node, BrokerNode):
        return True
    if type(argument) is Requested:
        return type(argument.request) is Publish
    if type(argument) is not Received:
        return bool(action.__name__ == "_fire")
    sender = argument.neighbour
    match argument.message:
        case MatchRequest(_, (routed,)):
            return _is_at(cluster, routed.message_id, node.id)
        case Matched((found,)):
            return _is_at(cluster, found.routed.message_id, sender)
        case MatchAnswer(_, (message_id,)):
            return _is_at(cluster, message_id, sender)
        case Receipt((message_id,)):
            return _is_at(cluster, message_id, None)
    return isinstance(argument.message, BESIDE)
