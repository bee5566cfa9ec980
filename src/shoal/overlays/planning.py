"""Input and result of a plan for a system's overlay; see `System.planner`.

>>> survey = OverlaySurvey(("A", "B"), {("A", "B"): 8.0}, {("A", "B"): 2.0})
>>> survey.one_way_ms("B", "A"), survey.rate("A", "B"), survey.rate("B", "A")
(4.0, 2.0, 0.0)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from shoal.model import BrokerId

Pair = tuple[BrokerId, BrokerId]


class PlanError(ValueError):
    """No overlay of these brokers meets the constraints."""


class OverlaySurvey(msgspec.Struct, frozen=True):
    """Measurements of brokers before there is an overlay.

    round_trips   between two of them, in ms, both directions
    rates         publications a second from a publisher's broker to a subscriber's; none: all alike
    sites         the brokers' sites, if that matters: all of a site may fail at once
    """

    brokers: tuple[BrokerId, ...]
    round_trips: Mapping[Pair, float]
    rates: Mapping[Pair, float] = {}
    sites: Mapping[BrokerId, str] = {}

    def one_way_ms(self, one: BrokerId, other: BrokerId) -> float:
        """KeyError without a measurement."""
        found = self.round_trips.get((one, other))
        return (self.round_trips[other, one] if found is None else found) / 2

    def rate(self, source: BrokerId, target: BrokerId) -> float:
        return self.rates.get((source, target), 0.0) if self.rates else 1.0


class PlannedInterests(msgspec.Struct, frozen=True):
    """Constraints on an overlay.

    survive     number of brokers that may die anywhere, with the others staying connected
    is_apart    and all of one site may die instead
    most_links  maximum number of a broker's links
    hop_ms      delay of each link beside its round trip: a broker's time to forward
    """

    survive: int = 1
    is_apart: bool = False
    most_links: int = 8
    hop_ms: float = 1.0


class OverlayPlan(msgspec.Struct, frozen=True):
    """An overlay: its parameters, its mean delay of a delivery, in ms, and the reason for it."""

    parameters: msgspec.Struct
    mean_ms: float
    reasons: Sequence[str]


Planner = Callable[[OverlaySurvey, PlannedInterests], OverlayPlan]
