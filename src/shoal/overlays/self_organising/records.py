"""Rows of the trace that brokers of this system write by `Record` effects."""

from __future__ import annotations

import msgspec

from shoal.model import BrokerId


class ProposalRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Outcome of a proposed link, recorded by the broker that knows it.

    outcome     advised, worth it and only recommended; agreed, worth it and begun; kept, the links
                there cost no more; refused, not allowed; done or failed, after it was begun
    reason      why not
    left, right the link's ends; the link to remove for it, once decided, is between `old_left` and
                `old_right`
    hops        distance of its ends
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
