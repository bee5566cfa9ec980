"""OctopiA: a product of a tree and a complete graph, with routing around congestion."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta

from shoal.model import BrokerId
from shoal.overlays.octopia.messages import MESSAGES
from shoal.overlays.octopia.parameters import Dynamic, Parameters, links
from shoal.overlays.octopia.places.labels import MAX_CLUSTERS
from shoal.overlays.shapes import PRODUCT
from shoal.overlays.system import Brokers, Layout, Picture, System

if TYPE_CHECKING:
    from shoal.broker.strategy import BrokerContext, Strategy
    from shoal.overlays.planning import Plan, Survey, Wishes


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


def _octopia(context: BrokerContext, parameters: Parameters) -> Strategy:
    from shoal.overlays.octopia.protocol import Octopia

    return Octopia(context, parameters)


def _problems(picture: Picture, brokers: Mapping[BrokerId, Any]) -> list[str]:
    from shoal.overlays.octopia.oracle import problems

    return problems(picture, brokers)


def _plan(survey: Survey, wishes: Wishes) -> Plan:
    from shoal.overlays.octopia.planner import plan

    return plan(survey, wishes)


SYSTEM = System(
    name="octopia",
    strategy=_octopia,
    shape=PRODUCT,
    links=links,
    parameters=Parameters,
    messages=MESSAGES,
    size=Overlay,
    complete=Parameters.for_brokers,
    give_up_us=3_000_000,
    most_silent_us=_most_silent_us,
    oracle=_problems,
    planner=_plan,
)
