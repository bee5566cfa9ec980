"""GRAPE: a tree whose publishers move to where what they publish is wanted.

Its subscribers may move, too, to where that enters.
"""

from __future__ import annotations

from shoal.overlays.publisher_relocation.grape.messages import MESSAGES
from shoal.overlays.publisher_relocation.grape.parameters import Parameters
from shoal.overlays.publisher_relocation.grape.protocol import Grape
from shoal.overlays.publisher_relocation.records import SubscriberSelectionRecord
from shoal.overlays.publisher_relocation.system import relocating

SYSTEM = relocating(
    "grape",
    Grape,
    parameters=Parameters,
    messages=MESSAGES,
    decides_after="trace_session_length",
    records={"subscriber_selections": SubscriberSelectionRecord},
    moves_subscribers=lambda parameters: (parameters or Parameters()).subscribers_move,
)
