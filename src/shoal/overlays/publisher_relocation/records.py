"""Rows of the trace that brokers write for decisions on clients' places."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from shoal.broker.happenings import Happening
from shoal.model import BrokerId, ClientId


class SelectionRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A relocation decision, made at the publisher's edge broker.

    Rates are messages per trace session, summed over the brokers; delays the estimated mean
    delivery delay; both for the publisher at its present broker and at the target. None if the
    decision did not need them. The weight is the one that was found at the knee, if that was
    configured. `expired` is POP's number of traces without a result in time.
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
    expired: int | None = None

    def happening(self) -> Happening:
        return _decided(
            f"publisher {self.publisher}",
            Happening(
                at_us=self.decided_us,
                kind="",
                text="",
                why="; ".join(_figures(self)),
                client=self.publisher,
                source=self.broker,
                target=self.target,
            ),
        )


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

    def happening(self) -> Happening:
        return _decided(
            f"subscriber {self.subscriber}",
            Happening(
                at_us=self.decided_us,
                kind="",
                text="",
                why="; ".join(_figures(self)),
                client=self.subscriber,
                source=self.broker,
                target=self.target,
            ),
        )


def _decided(whose: str, made: Happening) -> Happening:
    """A decision to move or to stay, in words; one to stay has no target."""
    if made.source == made.target:
        return msgspec.structs.replace(
            made, kind="stay", text=f"{whose} stays at {made.source}", target=""
        )
    return msgspec.structs.replace(made, kind="decision", text=f"{whose} is to move")


def _figures(row: SelectionRecord | SubscriberSelectionRecord) -> Iterator[str]:
    """The figures behind a decision; at the present broker alone if no other was found better."""
    stays = row.broker == row.target
    if row.rate_now is not None and row.rate_target is not None:
        change = "" if stays else f" → {row.rate_target:g}"
        yield f"{row.rate_now:g}{change} broker messages per sample"
    if row.delay_now_us is not None and row.delay_target_us is not None:
        change = "" if stays else f" → {row.delay_target_us / 1000:.1f}"
        yield f"mean delay {row.delay_now_us / 1000:.1f}{change} ms"
    others = row.candidates - 1
    if stays and others > 0:
        yield f"none of {others:,} other candidates is better by what a move must bring"
    elif stays:
        yield "no other broker is a candidate"
