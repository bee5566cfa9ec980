"""Where a cluster sends a publication, part by part (`Strategy.onward`).

A dispatcher names all who can match it, since which of them does depends on their loads then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from shoal.broker.onward import Asked, Hop, Onward, read_told, write_told
from shoal.model import BrokerId, SubscriptionId
from shoal.overlays.bluedove.dispatching.dispatcher import Dispatcher
from shoal.overlays.bluedove.node import Node
from shoal.overlays.bluedove.parameters import Order
from shoal.overlays.bluedove.serving.matcher import Matcher

# Of the subscriptions that are found for a home so many are named.
NAMED = 20


class Told(msgspec.Struct, frozen=True, omit_defaults=True):
    """Of a publication: the part that it goes to next.

    dimension   a matcher: what it is matched on
    dispatcher  and who hears what was found
    found       a dispatcher: subscriptions, by home; a home: its own
    """

    dimension: int | None = None
    dispatcher: BrokerId = ""
    found: Mapping[BrokerId, tuple[SubscriptionId, ...]] = {}


def onward(
    asked: Asked, node: Node, dispatcher: Dispatcher | None, matcher: Matcher | None
) -> Onward:
    """What one broker of a cluster does with a publication."""
    told = read_told(asked.told, Told) if asked.told else None
    if told is not None and told.dimension is not None:
        return _matched(asked, told.dimension, told.dispatcher, node, matcher)
    if dispatcher is None:
        return Onward(problem="it is no dispatcher")
    if told is None:
        return _dispatched(asked, node, dispatcher)
    here = told.found.get(node.broker, ())
    others = {home: ids for home, ids in told.found.items() if home != node.broker}
    is_local = any(id in dispatcher.home for id in here)
    problem = "" if is_local or not here else "its matcher found subscriptions that are gone"
    return Onward(_to_homes(others), is_local, problem)


def _dispatched(asked: Asked, node: Node, dispatcher: Dispatcher) -> Onward:
    candidates = dispatcher.outbox.candidates(asked.attributes)
    if not candidates:
        return Onward(problem="it waits for a matcher: none serves its place")
    count = f", one of {len(candidates)} that can" if len(candidates) > 1 else ""
    return Onward(
        tuple(
            Hop(
                each.matcher,
                write_told(Told(each.dimension, node.broker)),
                f"matches it on {node.dimensions[each.dimension].attribute}{count}",
            )
            for each in candidates
        )
    )


def _matched(
    asked: Asked, dimension: int, dispatcher: BrokerId, node: Node, matcher: Matcher | None
) -> Onward:
    if matcher is None or not 0 <= dimension < len(node.dimensions):
        return Onward(problem="it is no matcher of that")
    if not matcher.serves(dimension, asked.attributes):
        return Onward(problem="it serves another segment by now")
    if dimension in matcher.unready:
        return Onward(problem="it waits until it knows all subscriptions of its segment")
    found = {
        home: tuple(ids)[:NAMED]
        for home, ids in matcher.by_home(dimension, asked.attributes).items()
    }
    if not found:
        return Onward(problem="it knows no subscription that matches")
    if node.parameters.order is Order.PUBLISHER:
        told = write_told(Told(found=found))
        return Onward((Hop(dispatcher, told, "passes on what was found"),))
    return Onward(_to_homes(found))


def _to_homes(found: Mapping[BrokerId, Iterable[SubscriptionId]]) -> tuple[Hop, ...]:
    return tuple(
        Hop(home, write_told(Told(found={home: tuple(ids)})), "the subscriber's dispatcher")
        for home, ids in found.items()
    )
