"""Routes: where a publication goes from a broker, by the subscriptions that match it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from shoal.model import BrokerId, ClientId, SubscriptionId
from shoal.overlays.tree.link_conflation import LinkPace, link_pace
from shoal.overlays.tree.routing_rows import SubscriptionEntry


class Route:
    """Destinations of a publication: neighbours, and local clients with their subscriptions.

    Both in the order of their first entries in the match. Routes compare by identity: all
    publications that match the same entries share one route.
    `paced` has the neighbours behind which all matching subscriptions have a pace.
    """

    __slots__ = ("clients", "neighbours", "paced")

    def __init__(
        self,
        neighbours: tuple[BrokerId, ...],
        clients: tuple[tuple[ClientId, tuple[SubscriptionId, ...]], ...],
        paced: Mapping[BrokerId, LinkPace] | None = None,
    ) -> None:
        self.neighbours = neighbours
        self.clients = clients
        self.paced = paced


def route_of(entries: Iterable[SubscriptionEntry]) -> Route:
    """Return the route of a publication that matches these entries."""
    neighbours: dict[BrokerId, None] = {}
    paced: dict[BrokerId, list[SubscriptionEntry]] = {}
    at_once: set[BrokerId] = set()
    clients: dict[ClientId, list[SubscriptionId]] = {}
    for entry in entries:
        if entry.last_hop is None:
            clients.setdefault(entry.client, []).append(entry.id)
        else:
            neighbours[entry.last_hop] = None
            if entry.subscription.pace is not None:
                paced.setdefault(entry.last_hop, []).append(entry)
            else:
                at_once.add(entry.last_hop)
    paces = _paces(paced, at_once) if paced else None
    return Route(
        tuple(neighbours), tuple((name, tuple(ids)) for name, ids in clients.items()), paces
    )


def _paces(
    paced: Mapping[BrokerId, list[SubscriptionEntry]], at_once: Collection[BrokerId]
) -> dict[BrokerId, LinkPace]:
    """The pace of each link behind which no matching subscription wants all at once."""
    found: dict[BrokerId, LinkPace] = {}
    for hop, entries in paced.items():
        pace = None if hop in at_once else link_pace(entries)
        if pace is not None:
            found[hop] = pace
    return found


def size_of(route: Route) -> int:
    """Return the number of its neighbours, clients and subscriptions."""
    return len(route.neighbours) + sum(1 + len(ids) for _, ids in route.clients)
