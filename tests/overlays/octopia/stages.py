"""Stages for OctopiA: brokers named by region and cluster, such as b2."""

from __future__ import annotations

from collections.abc import Iterable

from shoal.broker.effects import LinkLoad, Loads
from shoal.overlays.octopia.messages import Notification
from shoal.overlays.octopia.parameters import Congestion, Dynamic, OctopiaParameters
from shoal.overlays.octopia.places.labels import Product
from tests.broker.transcript import Stage

# A path of three regions; parents come before their children.
PATH = ("abc", (0, 1))
# Figure 3: six regions, of which b, c and d are inner.
SIX = ("dcbaef", (0, 1, 2, 0, 0))


def rows(regions: str, clusters: int) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(f"{region}{cluster}" for cluster in range(clusters)) for region in regions)


class ProductStage(Stage):
    """A product at rest, with all its links."""

    def __init__(
        self,
        regions: str = "abc",
        parents: tuple[int, ...] = (0, 1),
        clusters: int = 3,
        dynamic: Dynamic = Dynamic.FREE,
        sharp_bits: int = 0,
    ) -> None:
        parameters = OctopiaParameters(
            rows=rows(regions, clusters),
            parents=parents,
            dynamic=dynamic,
            congestion=Congestion.PAPER,
            sharp_bits=sharp_bits,
        )
        self.product = Product(parameters.rows, parents)
        super().__init__(self.product.links, "octopia", parameters)

    def congest(self, *links: tuple[str, str, int]) -> None:
        """Set the queues of these outputs, given as (from, to, length); all others are free."""
        for broker in self.brokers:
            waiting = {target: many for source, target, many in links if source == broker}
            loads = {target: LinkLoad(many, many, many) for target, many in waiting.items()}
            self.handle(broker, Loads(loads))

    def copies(self) -> list[tuple[str, str, int]]:
        """The senders and receivers of a publication's copies, and the clusters they are for."""
        return [(source, target, each.owed) for source, target, each in self.sent(Notification)]

    def hops(self, client: str) -> int:
        """The links of a client's last delivery."""
        return [each.hops for _, each in self.deliveries if each.client == client][-1]

    def bits(self, broker: str, id: str) -> int:
        """An advertisement's cluster index vector at its host, without the host's own bit."""
        strategy = self.brokers[broker].strategy
        return strategy.hosted.bits(strategy.hosted.rows[id])


def brokers_in(copies: Iterable[tuple[str, str, int]]) -> set[str]:
    return {name for source, target, _ in copies for name in (source, target)}
