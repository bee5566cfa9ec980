"""OctopiA: a product of a tree and a complete graph, with routing around congestion."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta

from shoal.model import BrokerId
from shoal.overlays.octopia.messages import MESSAGES
from shoal.overlays.octopia.parameters import Dynamic, OctopiaParameters, links
from shoal.overlays.octopia.places.labels import MAX_CLUSTERS
from shoal.overlays.shapes import PRODUCT
from shoal.overlays.system import BrokerMachines, Picture, System, SystemLayout

if TYPE_CHECKING:
    from shoal.broker.strategy import BrokerContext, Strategy
    from shoal.overlays.planning import OverlayPlan, OverlaySurvey, PlannedInterests


class OctopiaOverlay(BrokerMachines, frozen=True, kw_only=True):
    """Brokers B1, B2, ..., region by region, each region with one of every cluster."""

    clusters: Annotated[
        int, Meta(ge=0, le=MAX_CLUSTERS, description="How many clusters; 0: 3, 2 or 1.")
    ] = 0

    def layout(self) -> SystemLayout:
        front_ends, _, _ = super().layout()
        return SystemLayout(
            front_ends, (), OctopiaParameters(clusters=self.clusters).for_brokers(front_ends)
        )


def _most_silent_us(parameters: OctopiaParameters) -> int | None:
    """A sequencer waits no longer for publications by another broker."""
    return parameters.order_us if parameters.dynamic is Dynamic.ORDERED else None


def _octopia(context: BrokerContext, parameters: OctopiaParameters) -> Strategy:
    from shoal.overlays.octopia.protocol import Octopia

    return Octopia(context, parameters)


def _problems(picture: Picture, brokers: Mapping[BrokerId, Any]) -> list[str]:
    from shoal.overlays.octopia.oracle import problems

    return problems(picture, brokers)


def _plan(survey: OverlaySurvey, wishes: PlannedInterests) -> OverlayPlan:
    from shoal.overlays.octopia.planner import plan

    return plan(survey, wishes)


SYSTEM = System(
    name="octopia",
    strategy=_octopia,
    shape=PRODUCT,
    links=links,
    parameters=OctopiaParameters,
    messages=MESSAGES,
    size=OctopiaOverlay,
    complete=OctopiaParameters.for_brokers,
    give_up_us=3_000_000,
    most_silent_us=_most_silent_us,
    oracle=_problems,
    planner=_plan,
)
