"""GRAPE: a tree whose publishers move to where what they publish is wanted."""

from __future__ import annotations

from shoal.overlays.publisher_relocation.grape.messages import MESSAGES
from shoal.overlays.publisher_relocation.grape.parameters import Parameters
from shoal.overlays.publisher_relocation.grape.protocol import Grape
from shoal.overlays.publisher_relocation.messages import MESSAGES as MIGRATION_MESSAGES
from shoal.overlays.system import System
from shoal.overlays.tree.oracle import table_problems

SYSTEM = System(
    name="grape",
    strategy=Grape,
    parameters=Parameters,
    messages=(*MIGRATION_MESSAGES, *MESSAGES),
    stores=True,
    decides_after="trace_session_length",
    oracle=table_problems,
)
