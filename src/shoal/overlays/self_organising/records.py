"""Rows of the trace that brokers write about the links they propose."""

from __future__ import annotations

from typing import Literal

import msgspec

from shoal.model import BrokerId

# Advised: worth it, but links are only recommended.  Agreed: worth it, and begun.  Kept: the links
# there are cost least.  Refused: nobody knows, or it may not be.
Outcome = Literal["advised", "agreed", "kept", "refused", "done", "failed"]


class ProposalRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a proposed link, said by the broker where it did.

    The new link is between `left` and `right`, the one that would go, once that is decided, between
    `old_left` and `old_right`.  Costs are of the cycle and per interval, as the heuristic weighs
    them: as it is, and without the old link.
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
