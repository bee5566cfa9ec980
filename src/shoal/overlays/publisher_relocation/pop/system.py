"""POP: a tree whose publishers move to where what they publish is wanted."""

from __future__ import annotations

from shoal.overlays.publisher_relocation.messages import MESSAGES as MIGRATION_MESSAGES
from shoal.overlays.publisher_relocation.pop.messages import MESSAGES
from shoal.overlays.publisher_relocation.pop.parameters import Parameters
from shoal.overlays.publisher_relocation.pop.protocol import Pop
from shoal.overlays.system import System
from shoal.overlays.tree.oracle import table_problems

SYSTEM = System(
    name="pop",
    strategy=Pop,
    parameters=Parameters,
    messages=(*MIGRATION_MESSAGES, *MESSAGES),
    stores=True,
    decides_after="threshold",
    oracle=table_problems,
)
