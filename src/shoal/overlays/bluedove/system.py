"""BlueDove: a cluster of dispatchers, which serve clients, and matchers, which share the
filters.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from shoal.matching.segments import Dimension
from shoal.model import BrokerId
from shoal.overlays.bluedove.cluster.planner import Elasticity
from shoal.overlays.bluedove.messages import MESSAGES
from shoal.overlays.bluedove.parameters import BlueDoveParameters
from shoal.overlays.bluedove.records import (
    DeathRecord,
    OverflowRecord,
    ScaleRecord,
    ServedRecord,
)
from shoal.overlays.shapes import SELF_LINKED
from shoal.overlays.system import MAX_BROKERS, Spares, System, SystemLayout, SystemSize

if TYPE_CHECKING:
    from shoal.broker.strategy import BrokerContext, Strategy


class Cluster(SystemSize, frozen=True, kw_only=True):
    """Dispatchers D1, ..., that clients connect to, matchers M1, ..., and spare matchers after
    them.
    """

    dispatchers: Annotated[int, Meta(ge=1, le=MAX_BROKERS, description="Brokers for clients.")] = 2
    matchers: Annotated[int, Meta(ge=1, le=MAX_BROKERS, description="Brokers that match.")] = 4
    spares: Annotated[
        int,
        Meta(ge=0, le=MAX_BROKERS, description="Matchers that start when load asks for them."),
    ] = 0
    dimension: Annotated[
        tuple[str, ...],
        Meta(title="NAME=LOW:HIGH", description="An attribute with its range, to divide by."),
    ] = ("x=0:1000",)

    def layout(self) -> SystemLayout:
        front = [f"D{number}" for number in range(1, self.dispatchers + 1)]
        back = [f"M{number}" for number in range(1, self.matchers + self.spares + 1)]
        matchers, spares = tuple(back[: self.matchers]), tuple(back[self.matchers :])
        dimensions = tuple(_dimension(text) for text in self.dimension)
        parameters = BlueDoveParameters(
            dispatchers=tuple(front),
            matchers=matchers,
            dimensions=dimensions,
            elastic=bool(spares),
            elasticity=Elasticity(least=self.matchers, spares=spares),
        )
        return SystemLayout(front, back, parameters)


def _dimension(text: str) -> Dimension:
    name, _, bounds = text.partition("=")
    low, _, high = bounds.partition(":")
    try:
        return Dimension(attribute=name, low=float(low), high=float(high))
    except ValueError as error:
        problem = f"--dimension {text}: write NAME=LOW:HIGH, such as x=0:1000"
        raise ValueError(problem) from error


def _dispatches(parameters: BlueDoveParameters, broker: BrokerId) -> bool:
    return parameters.role(broker).dispatches


def _named(parameters: BlueDoveParameters) -> Mapping[str, Iterable[BrokerId]]:
    return {"elasticity.spares": parameters.elasticity.spares}


def _spares(parameters: BlueDoveParameters) -> Spares:
    elasticity = parameters.elasticity
    return Spares(elasticity.spares, bool(elasticity.spares) and not elasticity.dry_run)


def _bluedove(context: BrokerContext, parameters: BlueDoveParameters) -> Strategy:
    from shoal.overlays.bluedove.protocol import Bluedove

    return Bluedove(context, parameters)


SYSTEM = System(
    name="bluedove",
    strategy=_bluedove,
    shape=SELF_LINKED,
    parameters=BlueDoveParameters,
    messages=MESSAGES,
    records={
        "deaths": DeathRecord,
        "scalings": ScaleRecord,
        "served_segments": ServedRecord,
        "overflows": OverflowRecord,
    },
    shown=("deaths", "scalings", "overflows"),
    size=Cluster,
    complete=BlueDoveParameters.for_brokers,
    takes_clients=_dispatches,
    is_quiet=False,
    named=_named,
    spares=_spares,
)
