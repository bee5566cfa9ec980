"""What a plan of a system's overlay is made of, and what it says; see `System.planner`.

>>> survey = Survey(("A", "B"), {("A", "B"): 8.0}, {("A", "B"): 2.0})
>>> survey.one_way_ms("B", "A"), survey.rate("A", "B"), survey.rate("B", "A")
(4.0, 2.0, 0.0)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from shoal.model import BrokerId

Pair = tuple[BrokerId, BrokerId]


class PlanError(ValueError):
    """No overlay of these brokers is as it should be."""


class Survey(msgspec.Struct, frozen=True):
    """What is known of brokers before there is an overlay.

    round_trips   between two of them, in ms, either way round
    rates         publications a second from a publisher's broker to a subscriber's; none: all alike
    sites         where brokers stand, if that matters: all of a site may be gone at once
    """

    brokers: tuple[BrokerId, ...]
    round_trips: Mapping[Pair, float]
    rates: Mapping[Pair, float] = {}
    sites: Mapping[BrokerId, str] = {}

    def one_way_ms(self, one: BrokerId, other: BrokerId) -> float:
        """KeyError when nobody has measured it."""
        found = self.round_trips.get((one, other))
        return (self.round_trips[other, one] if found is None else found) / 2

    def rate(self, source: BrokerId, target: BrokerId) -> float:
        return self.rates.get((source, target), 0.0) if self.rates else 1.0


class Wishes(msgspec.Struct, frozen=True):
    """What an overlay must be like.

    survive     so many brokers may die anywhere, and the others stay connected
    is_apart    and all of one site may die instead
    most_links  so many links may a broker have
    hop_ms      what each link takes beside its round trip: a broker's time to pass something on
    """

    survive: int = 1
    is_apart: bool = False
    most_links: int = 8
    hop_ms: float = 1.0


class Plan(msgspec.Struct, frozen=True):
    """An overlay: what to set, the mean delay of a delivery by it, in ms, and why this one."""

    parameters: msgspec.Struct
    mean_ms: float
    reasons: Sequence[str]


Planner = Callable[[Survey, Wishes], Plan]
