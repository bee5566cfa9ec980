"""Rows of the trace that every system's brokers write by `Record` effects."""

from __future__ import annotations

import msgspec

from shoal.model import BrokerId


class RefusalRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A message or request that the protocol does not allow, from whom, and why."""

    broker: BrokerId
    sender: str
    reason: str
