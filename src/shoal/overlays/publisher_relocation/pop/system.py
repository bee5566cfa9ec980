"""POP: a tree whose publishers move step by step towards most of their subscribers."""

from __future__ import annotations

from shoal.overlays.publisher_relocation.pop.messages import MESSAGES
from shoal.overlays.publisher_relocation.pop.parameters import Parameters
from shoal.overlays.publisher_relocation.pop.protocol import Pop
from shoal.overlays.publisher_relocation.system import relocating

SYSTEM = relocating("pop", Pop, parameters=Parameters, messages=MESSAGES, decides_after="threshold")
