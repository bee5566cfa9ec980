"""Input of the judges: the runs of the slot model by varied parameter, and the plans."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from shoal.experiments.dynatops.grid import Part
from shoal.experiments.dynatops.plans import Planned
from shoal.experiments.dynatops.runs import Hours
from shoal.experiments.dynatops.setting import DynatopsSetting, What

Which = Callable[[DynatopsSetting], bool]


def having(**values: Any) -> Which:
    """Return whether a setting has these values."""
    return lambda setting: all(getattr(setting, name) == one for name, one in values.items())


ANY = having()


class DynatopsEvidence(NamedTuple):
    """All runs that are done."""

    found: Sequence[Hours]
    planned: Sequence[Planned]

    def run(self, part: Part, what: What, which: Which = ANY) -> Hours | None:
        """The run of a system in this part, if it is done."""
        return next(
            (
                one
                for one in self.found
                if one.part == part and one.setting.what == what and which(one.setting)
            ),
            None,
        )

    def runs(
        self, part: Part, whats: Sequence[What], which: Which = ANY
    ) -> dict[What, Hours] | None:
        """Of each system its run; None unless all are done."""
        found = {what: self.run(part, what, which) for what in whats}
        done = {what: one for what, one in found.items() if one is not None}
        return done if len(done) == len(whats) else None

    def plan(self, pattern: str, brokers: int, topics: int) -> Planned | None:
        return next(
            (
                one
                for one in self.planned
                if not one.case.judge
                and (one.case.pattern, one.case.brokers, one.case.topics)
                == (pattern, brokers, topics)
            ),
            None,
        )

    def plans(self) -> list[Planned]:
        """Those without a search for the best."""
        return [one for one in self.planned if not one.case.judge]

    def regrets(self, judge: str, of: Callable[[Planned], float | None]) -> list[float]:
        """Return how far plans are above the best that is known."""
        found = (of(one) for one in self.planned if one.case.judge == judge)
        return sorted(one for one in found if one is not None)
