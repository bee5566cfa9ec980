"""GRAPE: a tree that moves its publishers to the brokers that need their publications.

Its subscribers may move, too, to the brokers where these enter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.overlays.publisher_relocation.grape.messages import MESSAGES
from shoal.overlays.publisher_relocation.grape.parameters import GrapeParameters
from shoal.overlays.publisher_relocation.records import SubscriberSelectionRecord
from shoal.overlays.publisher_relocation.system import relocating

if TYPE_CHECKING:
    from shoal.broker.strategy import BrokerContext
    from shoal.overlays.publisher_relocation.tracer import SendAway, Tracer


def _grape(context: BrokerContext, parameters: GrapeParameters, send_away: SendAway) -> Tracer:
    from shoal.overlays.publisher_relocation.grape.protocol import Grape

    return Grape(context, parameters, send_away)


SYSTEM = relocating(
    "grape",
    _grape,
    parameters=GrapeParameters,
    messages=MESSAGES,
    decides_after="trace_session_length",
    records={"subscriber_selections": SubscriberSelectionRecord},
    moves_subscribers=lambda parameters: (parameters or GrapeParameters()).subscribers_move,
)
