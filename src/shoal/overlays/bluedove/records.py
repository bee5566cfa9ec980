"""Rows of the trace that a cluster writes by `Record` effects."""

from __future__ import annotations

import msgspec

from shoal.model import BrokerId
from shoal.overlays.bluedove.cluster.members import Segment


class ServedRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A matcher serves something else on a dimension from now on."""

    matcher: BrokerId
    dimension: int
    segment: Segment
    at_us: int


class DeathRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A matcher took another for dead."""

    matcher: BrokerId
    dead: BrokerId
    at_us: int


class ScaleRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The controller adds or removes a matcher; None: it would add one, but none is ready."""

    dispatcher: BrokerId
    action: str
    matcher: BrokerId | None
    at_us: int


class OverflowRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A buffer was full, and lost its oldest entry: which one, and whose."""

    broker: BrokerId
    buffer: str
    owner: str
    at_us: int
