"""How publications leave a broker of a tree: along their routes, and never back.

A batch is sent on whole where all of it goes the same way; where ways part, each neighbour gets
those that concern it, in their order.
"""

from __future__ import annotations

from collections.abc import Sequence

from shoal.broker.effects import Deliver, Effect, Send
from shoal.broker.messages import PublicationBatch, RoutedPublication
from shoal.matching import Outcomes
from shoal.model import BrokerId
from shoal.overlays.tree.routing_table import Route

# A publication, and the way it went from one broker.
Forwarded = tuple[RoutedPublication, Route]


class Forwarding:
    """Sends on what comes by where the routes say."""

    def __init__(self, routes: Outcomes[Route]) -> None:
        self._routes = routes

    def forward(
        self,
        publications: tuple[RoutedPublication, ...],
        hops: int,
        hop: BrokerId | None,
        out: list[Effect],
    ) -> Sequence[Forwarded]:
        """Send publications to each neighbour with a match but `hop`, deliver to local clients.

        Returns them with their routes; `hop` may be among the neighbours of these.
        """
        if len(publications) == 1:
            routed = publications[0]
            route = self._routes.of(routed.publication.attributes)
            for client, subscriptions in route.clients:
                out.append(Deliver(client, routed, subscriptions, hops))
            batch = None
            for neighbour in route.neighbours:
                if neighbour != hop:
                    batch = batch or PublicationBatch(publications, hops + 1)
                    out.append(Send(neighbour, batch))
            return ((routed, route),)
        remote: dict[BrokerId, list[RoutedPublication]] = {}
        routes = self._routes.of_each([routed.publication.attributes for routed in publications])
        forwarded = list(zip(publications, routes, strict=True))
        for routed, route in forwarded:
            for client, subscriptions in route.clients:
                out.append(Deliver(client, routed, subscriptions, hops))
            for neighbour in route.neighbours:
                if neighbour in remote:
                    remote[neighbour].append(routed)
                elif neighbour != hop:
                    remote[neighbour] = [routed]
        whole = PublicationBatch(publications, hops + 1)
        for neighbour, part in remote.items():
            is_whole = len(part) == len(publications)
            batch = whole if is_whole else PublicationBatch(tuple(part), hops + 1)
            out.append(Send(neighbour, batch))
        return forwarded
