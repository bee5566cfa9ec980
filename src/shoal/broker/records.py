"""Rows of the trace that every system's brokers write by `Record` effects."""

from __future__ import annotations

import msgspec

from shoal.model import BrokerId


class RefusalRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A message or request that violates the protocol, its sender, and the reason."""

    broker: BrokerId
    sender: str
    reason: str
