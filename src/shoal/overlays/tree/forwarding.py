"""Forwarding of publications along their routes, never back to their sender.

A batch is sent whole where all of it has one route; where routes differ, each neighbour gets its
publications, in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence

from shoal.broker.effects import Deliver, Effect, Send
from shoal.broker.messages import PublicationBatch, RoutedPublication
from shoal.broker.strategy import ProtocolError
from shoal.matching import Outcomes
from shoal.model import BrokerId
from shoal.overlays.tree.link_conflation import LinkConflation
from shoal.overlays.tree.routes import Route

# Called with a publication, its route, the neighbour it came from (which may be in the route), the
# time, and the effects to extend.
Note = Callable[[RoutedPublication, Route, BrokerId | None, int, list[Effect]], object]


class TreeForwarding:
    """Forwards publications from neighbours and clients by the routing table.

    An observer, `note`, sees each publication after its batch has been sent.
    """

    def __init__(
        self, broker: BrokerId, neighbours: Container[BrokerId], routes: Outcomes[Route]
    ) -> None:
        self.note: Note | None = None
        # Holds local clients' publications for links; later brokers do not.
        self.conflation = LinkConflation()
        # Former neighbours that forward what they hold: the neighbours that have it from there.
        self.draining: dict[BrokerId, Container[BrokerId]] = {}
        self._broker = broker
        self._neighbours = neighbours
        self._routes = routes

    def check_neighbour(self, neighbour: BrokerId) -> None:
        """ProtocolError unless there is a link to this broker."""
        if neighbour not in self._neighbours:
            raise ProtocolError(f"{neighbour} is not a neighbour of {self._broker}")

    def forward(
        self, hop: BrokerId | None, batch: PublicationBatch, now_us: int, out: list[Effect]
    ) -> None:
        """Send publications to each neighbour with a match but `hop`, deliver to local clients.

        `hop` is where they come from: a neighbour, or ProtocolError; None where that is a local
        client.
        """
        if hop not in self._neighbours and hop is not None:
            if hop in self.draining:
                self.forward_all(hop, batch, out, self.draining[hop])
                return
            self.check_neighbour(hop)
        publications = batch.publications
        if len(publications) == 1:
            routed = publications[0]
            route = self._routes.of(routed.publication.attributes)
            held: Container[BrokerId] = ()
            if hop is None and (route.paced is not None or self.conflation.keys):
                held = self.conflation.hold_back(routed, route.neighbours, route.paced, now_us, out)
            if route.clients:
                for client, subscriptions in route.clients:
                    out.append(Deliver(client, routed, subscriptions, batch.hops))
            further = None
            for neighbour in route.neighbours:
                if neighbour != hop and neighbour not in held:
                    further = further or PublicationBatch(publications, batch.hops + 1)
                    out.append(Send(neighbour, further))
            note = self.note  # what an attribute holds is no method: so it is found faster
            if note is not None:
                note(routed, route, hop, now_us, out)
            return
        routes = self.forward_all(hop, batch, out)
        note = self.note
        if note is not None:
            for routed, route in zip(publications, routes, strict=True):
                note(routed, route, hop, now_us, out)

    def is_conflated(self, publications: Sequence[RoutedPublication]) -> bool:
        """Whether some of these may be held for a link, so that each is forwarded by itself."""
        routes = self._routes.of_each([routed.publication.attributes for routed in publications])
        return self.conflation.is_on or any(route.paced is not None for route in routes)

    def forward_all(
        self,
        hop: BrokerId | None,
        batch: PublicationBatch,
        out: list[Effect],
        but: Container[BrokerId] = (),
    ) -> Sequence[Route]:
        """As `forward`, but `hop` need not be a neighbour any more, and `note` is not called.

        Nothing goes to the neighbours in `but`.

        Returns their routes, in their order.
        """
        publications = batch.publications
        remote: dict[BrokerId, list[RoutedPublication]] = {}
        routes = self._routes.of_each([routed.publication.attributes for routed in publications])
        for routed, route in zip(publications, routes, strict=True):
            for client, subscriptions in route.clients:
                out.append(Deliver(client, routed, subscriptions, batch.hops))
            for neighbour in route.neighbours:
                if neighbour in remote:
                    remote[neighbour].append(routed)
                elif neighbour != hop and neighbour not in but:
                    remote[neighbour] = [routed]
        whole = PublicationBatch(publications, batch.hops + 1)
        for neighbour, part in remote.items():
            is_whole = len(part) == len(publications)
            further = whole if is_whole else PublicationBatch(tuple(part), batch.hops + 1)
            out.append(Send(neighbour, further))
        return routes
