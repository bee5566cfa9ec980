"""Input of the judges of BlueDove's claims: a study's results, by the names of runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from shoal.experiments.bluedove.grid import (
    EVENEST_PEERS,
    FULL,
    PEERS,
    BlueDoveScale,
    policy_name,
    prefixed,
    rate_name,
    reports_name,
)
from shoal.experiments.bluedove.runs import BlueDoveResult, Series
from shoal.overlays.bluedove.cluster.forwarding import Policy


class BlueDoveEvidence(NamedTuple):
    """Results for the judges."""

    results: Mapping[str, BlueDoveResult]
    scale: BlueDoveScale

    def value(self, name: str, key: str = "rate_per_s") -> float | None:
        result = self.results.get(name)
        return None if result is None else result.values.get(key)

    def ratio(self, one: str, other: str, key: str = "rate_per_s") -> float | None:
        left, right = self.value(one, key), self.value(other, key)
        return None if left is None or not right else left / right

    def series(self, name: str, key: str) -> Series:
        """A series without its gaps; empty where it was not run."""
        result = self.results.get(name)
        found = [] if result is None else result.series.get(key, [])
        return [(time_s, value) for time_s, value in found if value is not None]

    def under(self, reading: str) -> BlueDoveEvidence:
        """The runs under another reading, by the names of those under the first."""
        prefix = prefixed(reading, "")
        found = {
            name.removeprefix(prefix): result
            for name, result in self.results.items()
            if name.startswith(prefix)
        }
        return BlueDoveEvidence(found, self.scale)

    def with_rare_reports(self) -> BlueDoveEvidence:
        """Those that look at loads with loads reported rarely; those that do not as they are."""
        names = {
            self.whole: reports_name(Policy.ADAPTIVE),
            policy_name(Policy.RESPONSE_TIME): reports_name(Policy.RESPONSE_TIME),
        }
        most = self.scale.most
        others = [policy_name(policy) for policy in (Policy.RANDOM, Policy.SUBSCRIPTIONS)]
        others += [rate_name(system, most) for system in (PEERS, EVENEST_PEERS, FULL)]
        names |= {name: name for name in others}
        found = {
            name: self.results[other] for name, other in names.items() if other in self.results
        }
        return BlueDoveEvidence(found if names[self.whole] in self.results else {}, self.scale)

    @property
    def whole(self) -> str:
        """The run that all others are compared with."""
        return rate_name("bluedove", self.scale.most)
