"""OctopiA: a product of a tree and a complete graph, with routing around congestion."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from shoal.overlays.octopia.messages import MESSAGES
from shoal.overlays.octopia.oracle import problems
from shoal.overlays.octopia.parameters import Dynamic, Parameters, links
from shoal.overlays.octopia.places.labels import MAX_CLUSTERS
from shoal.overlays.octopia.planner import plan
from shoal.overlays.octopia.protocol import Octopia
from shoal.overlays.shapes import PRODUCT
from shoal.overlays.system import Brokers, Layout, System


class Overlay(Brokers, frozen=True, kw_only=True):
    """Brokers B1, B2, ..., region by region, each region with one of every cluster."""

    clusters: Annotated[
        int, Meta(ge=0, le=MAX_CLUSTERS, description="How many clusters; 0: 3, 2 or 1.")
    ] = 0

    def layout(self) -> Layout:
        doors, _, _ = super().layout()
        return Layout(doors, (), Parameters(clusters=self.clusters).for_brokers(doors))


def _most_silent_us(parameters: Parameters) -> int | None:
    """A gate waits no longer for what another broker was to bring it."""
    return parameters.order_us if parameters.dynamic is Dynamic.ORDERED else None


SYSTEM = System(
    name="octopia",
    strategy=Octopia,
    shape=PRODUCT,
    links=links,
    parameters=Parameters,
    messages=MESSAGES,
    size=Overlay,
    complete=Parameters.for_brokers,
    give_up_us=3_000_000,
    most_silent_us=_most_silent_us,
    oracle=problems,
    planner=plan,
)
