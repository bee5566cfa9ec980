"""TCO: an overlay in which the subscribers of each topic reach each other without relays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from shoal.model import BrokerId
from shoal.overlays.shapes import SELF_LINKED
from shoal.overlays.system import BrokerMachines, Picture, System, SystemLayout
from shoal.overlays.tco.messages import MESSAGES
from shoal.overlays.tco.parameters import TcoParameters

if TYPE_CHECKING:
    from shoal.broker.strategy import BrokerContext, Strategy


class TcoMembers(BrokerMachines, frozen=True, kw_only=True):
    """Brokers B1, B2, ..., all of which take clients."""

    def layout(self) -> SystemLayout:
        front_ends, _, _ = super().layout()
        return SystemLayout(front_ends, (), TcoParameters().for_brokers(front_ends))


def _named(parameters: TcoParameters) -> Mapping[str, Iterable[BrokerId]]:
    return {"brokers": parameters.brokers}


def _tco(context: BrokerContext, parameters: TcoParameters) -> Strategy:
    from shoal.overlays.tco.protocol import Tco

    return Tco(context, parameters)


def _problems(picture: Picture, brokers: Mapping[BrokerId, Any]) -> list[str]:
    from shoal.overlays.tco.oracle import problems

    return problems(picture, brokers)


SYSTEM = System(
    name="tco",
    strategy=_tco,
    shape=SELF_LINKED,
    parameters=TcoParameters,
    messages=MESSAGES,
    size=TcoMembers,
    complete=TcoParameters.for_brokers,
    give_up_us=10_000_000,
    oracle=_problems,
    named=_named,
)
