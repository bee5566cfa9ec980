"""Input of the judges: the runs on one data set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from shoal.experiments.octopia.grid import Part, Way
from shoal.experiments.octopia.runs import OctopiaMeasures


class OctopiaEvidence(NamedTuple):
    """The runs that are done on one data set; `name` names it."""

    found: Sequence[OctopiaMeasures]
    name: str

    def by(self, part: Part, varied: str, way: Way) -> dict[int, OctopiaMeasures]:
        """Return runs of a part by the varied parameter, such as `rate`."""
        some = [one for one in self.found if one.setting.part == part and one.setting.way == way]
        return {
            getattr(one.setting, varied): one
            for one in sorted(some, key=lambda one: int(getattr(one.setting, varied)))
        }

    def pairs(
        self, part: Part, varied: str, ours: Way, theirs: Way
    ) -> dict[int, tuple[dict[str, float], dict[str, float]]]:
        """Figures of two ways, where both were run."""
        mine, others = self.by(part, varied, ours), self.by(part, varied, theirs)
        return {
            value: (one.figures, others[value].figures)
            for value, one in mine.items()
            if value in others
        }

    def cut(self, part: Part, varied: str, figure: str, ours: Way, theirs: Way) -> dict[int, float]:
        """Return by which share a figure is lower."""
        return {
            value: 1 - one[figure] / other[figure]
            for value, (one, other) in self.pairs(part, varied, ours, theirs).items()
            if other[figure]
        }
