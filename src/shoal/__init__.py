"""shoal: a publish/subscribe broker network that filters on content and rearranges itself.

`shoal.Client` is the client of a live network, and the other names of `shoal.client` are here, too
(`ClientError`, `Keep`, `Message`, `Subscription`, `Tls`, `Will`): imported at first use, as nothing
else here needs a network.
"""

from __future__ import annotations

import importlib
from typing import Any

_OF_CLIENTS = ("Client", "ClientError", "Keep", "Message", "Subscription", "Tls", "Will")


def __getattr__(name: str) -> Any:
    if name not in _OF_CLIENTS:
        raise AttributeError(f"module 'shoal' has no attribute {name!r}")
    return getattr(importlib.import_module("shoal.client"), name)
