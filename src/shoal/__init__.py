"""shoal: a publish/subscribe broker network that filters on content and rearranges itself.

`shoal.Client` is the client of a live network (`shoal.client.Client`, imported when it is asked
for: nothing else here needs a network).
"""

from __future__ import annotations

import importlib
from typing import Any


def __getattr__(name: str) -> Any:
    if name != "Client":
        raise AttributeError(f"module 'shoal' has no attribute {name!r}")
    return importlib.import_module("shoal.client").Client
