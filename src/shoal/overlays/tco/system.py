"""TCO: an overlay in which the subscribers of each topic reach each other without relays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from shoal.model import BrokerId
from shoal.overlays.shapes import SELF_LINKED
from shoal.overlays.system import Brokers, Layout, Picture, System
from shoal.overlays.tco.messages import MESSAGES
from shoal.overlays.tco.parameters import Parameters

if TYPE_CHECKING:
    from shoal.broker.strategy import BrokerContext, Strategy


class Members(Brokers, frozen=True, kw_only=True):
    """Brokers B1, B2, ..., all of which take clients."""

    def layout(self) -> Layout:
        doors, _, _ = super().layout()
        return Layout(doors, (), Parameters().for_brokers(doors))


def _named(parameters: Parameters) -> Mapping[str, Iterable[BrokerId]]:
    return {"brokers": parameters.brokers}


def _tco(context: BrokerContext, parameters: Parameters) -> Strategy:
    from shoal.overlays.tco.protocol import Tco

    return Tco(context, parameters)


def _problems(picture: Picture, brokers: Mapping[BrokerId, Any]) -> list[str]:
    from shoal.overlays.tco.oracle import problems

    return problems(picture, brokers)


SYSTEM = System(
    name="tco",
    strategy=_tco,
    shape=SELF_LINKED,
    parameters=Parameters,
    messages=MESSAGES,
    size=Members,
    complete=Parameters.for_brokers,
    give_up_us=10_000_000,
    oracle=_problems,
    named=_named,
)
