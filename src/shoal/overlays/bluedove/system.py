"""BlueDove: a cluster of dispatchers, which serve clients, and matchers, which share the
filters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from shoal.matching.segments import Dimension
from shoal.model import BrokerId
from shoal.overlays.bluedove.messages import MESSAGES
from shoal.overlays.bluedove.parameters import BlueDoveParameters
from shoal.overlays.bluedove.records import (
    DeathRecord,
    OverflowRecord,
    ScaleRecord,
    ServedRecord,
)
from shoal.overlays.shapes import SELF_LINKED
from shoal.overlays.system import MAX_BROKERS, System, SystemLayout, SystemSize

if TYPE_CHECKING:
    from shoal.broker.strategy import BrokerContext, Strategy


class Cluster(SystemSize, frozen=True, kw_only=True):
    """Dispatchers D1, ..., that clients connect to, and matchers M1, ..."""

    dispatchers: Annotated[int, Meta(ge=1, le=MAX_BROKERS, description="Brokers for clients.")] = 2
    matchers: Annotated[int, Meta(ge=1, le=MAX_BROKERS, description="Brokers that match.")] = 4
    dimension: Annotated[
        tuple[str, ...],
        Meta(title="NAME=LOW:HIGH", description="What to divide by; repeatable."),
    ] = ("x=0:1000",)

    def layout(self) -> SystemLayout:
        front = [f"D{number}" for number in range(1, self.dispatchers + 1)]
        back = [f"M{number}" for number in range(1, self.matchers + 1)]
        dimensions = tuple(_dimension(text) for text in self.dimension)
        parameters = BlueDoveParameters(
            dispatchers=tuple(front), matchers=tuple(back), dimensions=dimensions
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
)
