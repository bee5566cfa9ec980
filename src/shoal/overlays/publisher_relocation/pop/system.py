"""POP: a tree that moves its publishers step by step towards most of their subscribers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.overlays.publisher_relocation.pop.messages import MESSAGES
from shoal.overlays.publisher_relocation.pop.parameters import PopParameters
from shoal.overlays.publisher_relocation.system import relocating

if TYPE_CHECKING:
    from shoal.broker.strategy import BrokerContext
    from shoal.overlays.publisher_relocation.tracer import SendAway, Tracer


def _pop(context: BrokerContext, parameters: PopParameters, send_away: SendAway) -> Tracer:
    from shoal.overlays.publisher_relocation.pop.protocol import Pop

    return Pop(context, parameters, send_away)


SYSTEM = relocating(
    "pop", _pop, parameters=PopParameters, messages=MESSAGES, decides_after="threshold"
)
