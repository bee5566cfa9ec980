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


class RefusalRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A message or request that the protocol does not allow, from whom, and why."""

    broker: BrokerId
    sender: str
    reason: str
