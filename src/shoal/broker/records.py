"""Rows of the trace that brokers and publishers write by `Record` effects."""

from __future__ import annotations

import msgspec

from shoal.model import BrokerId, ClientId


class SelectionRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A relocation decision, taken at the publisher's first broker.

    Rates are messages per trace session, summed over the brokers; delays the estimated mean
    delivery delay; both for the publisher where it is and at the chosen target.  None where
    the decision did not need them.
    """

    publisher: ClientId
    broker: BrokerId
    started_us: int
    requested_us: int
    answered_us: int
    decided_us: int
    candidates: int
    target: BrokerId
    rate_now: float | None = None
    rate_target: float | None = None
    delay_now_us: float | None = None
    delay_target_us: float | None = None


class MigrationRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A finished migration, seen by the publisher: it published nothing from pause to resume."""

    publisher: ClientId
    source: BrokerId
    target: BrokerId
    path_hops: int
    paused_us: int
    resumed_us: int


class ReturnRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A migration that failed, seen by the publisher: it is back where it was."""

    publisher: ClientId
    broker: BrokerId
    target: BrokerId
    paused_us: int
    resumed_us: int


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


class RefusalRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A message or request that the protocol does not allow, from whom, and why."""

    broker: BrokerId
    sender: str
    reason: str
