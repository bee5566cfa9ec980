"""Rows of the trace that brokers write for decisions on clients' places."""

from __future__ import annotations

import msgspec

from shoal.model import BrokerId, ClientId


class SelectionRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A relocation decision, made at the publisher's edge broker.

    Rates are messages per trace session, summed over the brokers; delays the estimated mean
    delivery delay; both for the publisher at its present broker and at the target. None if the
    decision did not need them. The weight is the one that was found at the knee, if that was
    configured.
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
    weight: int | None = None


class SubscriberSelectionRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A decision on a subscriber's place, made at its broker.

    Of the publications that it is based on: `rate` is the number of brokers that handle one for it
    alone, the delay the estimated mean; both at the present broker and at the target. The weight is
    as above.
    """

    subscriber: ClientId
    broker: BrokerId
    decided_us: int
    publications: int
    candidates: int
    target: BrokerId
    rate_now: float
    rate_target: float
    delay_now_us: float
    delay_target_us: float
    weight: int | None = None
