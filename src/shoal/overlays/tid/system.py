"""TID: trees with identifiers on any connected graph; the baseline of OctopiA."""

from __future__ import annotations

from shoal.overlays.shapes import CONNECTED
from shoal.overlays.system import System
from shoal.overlays.tid.messages import MESSAGES
from shoal.overlays.tid.oracle import problems
from shoal.overlays.tid.parameters import Parameters
from shoal.overlays.tid.protocol import Tid

SYSTEM = System(
    name="tid",
    strategy=Tid,
    shape=CONNECTED,
    parameters=Parameters,
    messages=MESSAGES,
    complete=Parameters.for_brokers,
    oracle=problems,
)
