"""The path of a publication in a cluster, part by part (`Strategy.routing_decision`).

A dispatcher names all possible matchers, since the choice depends on their loads then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from shoal.broker.routing_decision import Hop, RoutingDecision, RoutingQuery, read_told, write_told
from shoal.model import BrokerId, SubscriptionId
from shoal.overlays.bluedove.dispatching.dispatcher import Dispatcher
from shoal.overlays.bluedove.node import BlueDoveNode
from shoal.overlays.bluedove.parameters import DeliveryOrder
from shoal.overlays.bluedove.serving.matcher import Matcher

# The most named subscriptions of a dispatcher.
NAMED = 20


class BlueDoveHop(msgspec.Struct, frozen=True, omit_defaults=True):
    """Details of a publication: the part that it goes to next.

    dimension   a matcher: the dimension of the match
    dispatcher  and the dispatcher that gets the result
    found       a dispatcher: subscriptions, by dispatcher; a subscriber's dispatcher: its own
    """

    dimension: int | None = None
    dispatcher: BrokerId = ""
    found: Mapping[BrokerId, tuple[SubscriptionId, ...]] = {}


def routing_decision(
    asked: RoutingQuery, node: BlueDoveNode, dispatcher: Dispatcher | None, matcher: Matcher | None
) -> RoutingDecision:
    """The routing of a publication at one broker of a cluster."""
    told = read_told(asked.told, BlueDoveHop) if asked.told else None
    if told is not None and told.dimension is not None:
        return _matched(asked, told.dimension, told.dispatcher, node, matcher)
    if dispatcher is None:
        return RoutingDecision(problem="it is no dispatcher")
    if told is None:
        return _dispatched(asked, node, dispatcher)
    here = told.found.get(node.broker, ())
    others = {home: ids for home, ids in told.found.items() if home != node.broker}
    is_local = any(id in dispatcher.home for id in here)
    problem = "" if is_local or not here else "its matcher found removed subscriptions"
    return RoutingDecision(_to_homes(others), is_local, problem)


def _dispatched(asked: RoutingQuery, node: BlueDoveNode, dispatcher: Dispatcher) -> RoutingDecision:
    candidates = dispatcher.outbox.candidates(asked.attributes)
    if not candidates:
        return RoutingDecision(problem="it waits for a matcher: none serves its place")
    count = f", one of {len(candidates)} that can" if len(candidates) > 1 else ""
    return RoutingDecision(
        tuple(
            Hop(
                each.matcher,
                write_told(BlueDoveHop(each.dimension, node.broker)),
                f"matches it on {node.dimensions[each.dimension].attribute}{count}",
            )
            for each in candidates
        )
    )


def _matched(
    asked: RoutingQuery,
    dimension: int,
    dispatcher: BrokerId,
    node: BlueDoveNode,
    matcher: Matcher | None,
) -> RoutingDecision:
    if matcher is None or not 0 <= dimension < len(node.dimensions):
        return RoutingDecision(problem="it is no matcher of that")
    if not matcher.serves(dimension, asked.attributes):
        return RoutingDecision(problem="it serves another segment by now")
    if dimension in matcher.unready:
        return RoutingDecision(problem="it waits until it knows all subscriptions of its segment")
    found = {
        home: tuple(ids)[:NAMED]
        for home, ids in matcher.by_home(dimension, asked.attributes).items()
    }
    if not found:
        return RoutingDecision(problem="it knows no subscription that matches")
    if node.parameters.order is DeliveryOrder.PUBLISHER:
        told = write_told(BlueDoveHop(found=found))
        return RoutingDecision((Hop(dispatcher, told, "forwards the results"),))
    return RoutingDecision(_to_homes(found))


def _to_homes(found: Mapping[BrokerId, Iterable[SubscriptionId]]) -> tuple[Hop, ...]:
    return tuple(
        Hop(home, write_told(BlueDoveHop(found={home: tuple(ids)})), "the subscriber's dispatcher")
        for home, ids in found.items()
    )
