"""POP: a tree whose publishers move step by step towards most of their subscribers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.overlays.publisher_relocation.pop.messages import MESSAGES
from shoal.overlays.publisher_relocation.pop.parameters import Parameters
from shoal.overlays.publisher_relocation.system import relocating

if TYPE_CHECKING:
    from shoal.broker.strategy import BrokerContext
    from shoal.overlays.publisher_relocation.tracer import SendAway, Tracer


def _pop(context: BrokerContext, parameters: Parameters, send_away: SendAway) -> Tracer:
    from shoal.overlays.publisher_relocation.pop.protocol import Pop

    return Pop(context, parameters, send_away)


SYSTEM = relocating(
    "pop", _pop, parameters=Parameters, messages=MESSAGES, decides_after="threshold"
)
