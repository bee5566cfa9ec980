"""Cost and Interest: a tree whose brokers exchange its links for better ones."""

from __future__ import annotations

from shoal.overlays.self_organising.messages import MESSAGES
from shoal.overlays.self_organising.parameters import Parameters
from shoal.overlays.self_organising.protocol import SelfOrganising
from shoal.overlays.system import System
from shoal.overlays.tree.oracle import table_problems

SYSTEM = System(
    name="self_organising",
    strategy=SelfOrganising,
    parameters=Parameters,
    messages=MESSAGES,
    stores=True,
    is_quiet=False,
    oracle=table_problems,
)
