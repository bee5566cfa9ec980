"""Rows of the trace that brokers of this system write by `Record` effects."""

from __future__ import annotations

import msgspec

from shoal.model import BrokerId


class ProposalRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a link that a broker proposed, said where it did.

    outcome     advised, worth it and no more than recommended; agreed, worth it and begun; kept,
                the links there cost no more; refused, it may not be; done or failed, what was begun
    reason      why not
    left, right the link's ends; the one that goes for it, where that is decided, is between
                `old_left` and `old_right`
    hops        how far its ends are apart
    cost_now, cost_then    of the cycle that it closes, per interval, as the system weighs it
    """

    broker: BrokerId
    at_us: int
    outcome: str
    reason: str
    left: BrokerId
    right: BrokerId
    old_left: BrokerId | None = None
    old_right: BrokerId | None = None
    hops: int
    cost_now: float | None = None
    cost_then: float | None = None
