"""TID: trees with identifiers on any connected graph; the baseline of OctopiA."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from shoal.model import BrokerId
from shoal.overlays.shapes import CONNECTED
from shoal.overlays.system import Picture, System
from shoal.overlays.tid.messages import MESSAGES
from shoal.overlays.tid.parameters import TidParameters

if TYPE_CHECKING:
    from shoal.broker.strategy import BrokerContext, Strategy


def _tid(context: BrokerContext, parameters: TidParameters) -> Strategy:
    from shoal.overlays.tid.protocol import Tid

    return Tid(context, parameters)


def _problems(picture: Picture, brokers: Mapping[BrokerId, Any]) -> list[str]:
    from shoal.overlays.tid.oracle import problems

    return problems(picture, brokers)


SYSTEM = System(
    name="tid",
    strategy=_tid,
    shape=CONNECTED,
    parameters=TidParameters,
    messages=MESSAGES,
    complete=TidParameters.for_brokers,
    oracle=_problems,
)
