"""Input of the judges: the runs on one kind of tree, with the static tree's."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from shoal.experiments.self_organising.grid import Part, SelfOrganisingScale
from shoal.experiments.self_organising.modelling.setting import What
from shoal.experiments.self_organising.runs import ModelCosts


class SelfOrganisingEvidence(NamedTuple):
    """The runs on one kind of tree, with one reading of links' costs and of interests."""

    found: Sequence[ModelCosts]
    scale: SelfOrganisingScale
    name: str

    def runs(
        self, part: Part, what: What, which: Callable[[ModelCosts], bool] = lambda _: True
    ) -> dict[int, ModelCosts]:
        """By physical network."""
        return {
            one.setting.seed: one
            for one in self.found
            if one.part == part and one.setting.what == what and which(one)
        }

    def ratios(
        self,
        part: Part,
        what: What,
        which: Callable[[ModelCosts], bool] = lambda _: True,
        other: What = "static",
    ) -> list[float]:
        """Return total costs of a heuristic's runs, as parts of the others' on the same
        networks.
        """
        ours, theirs = self.runs(part, what, which), self.runs(part, other, which)
        return [one.total / theirs[seed].total for seed, one in ours.items() if seed in theirs]

    def curve(self, what: What) -> list[float]:
        """In the first experiment: a heuristic's costs as parts of the static tree's, by window;
        the mean over networks.
        """
        curves = self.curves("adaptivity", what)
        return [statistics.fmean(each) for each in zip(*curves, strict=False)]

    def curves(self, part: Part, what: What) -> list[list[float]]:
        """Of each network: a heuristic's costs as parts of the static tree's, by window."""
        ours, theirs = self.runs(part, what), self.runs(part, "static")
        return [
            [one / other for one, other in zip(run.windows, theirs[seed].windows, strict=False)]
            for seed, run in sorted(ours.items())
            if seed in theirs
        ]

    def by_hops(self) -> dict[int, list[tuple[ModelCosts, ModelCosts]]]:
        """Runs with broadcasts that go so far, each with the static tree's on its network."""
        static = self.runs("hops", "static")
        found: dict[int, list[tuple[ModelCosts, ModelCosts]]] = {}
        for one in self.runs_of("hops", "ci"):
            if one.setting.seed in static:
                pairs = found.setdefault(one.setting.hops, [])
                pairs.append((one, static[one.setting.seed]))
        return dict(sorted(found.items()))

    def regrets(self, what: What, brokers: int) -> list[float]:
        """Return by which part trees of so many brokers are above the best, in order."""
        runs = self.runs("regret", what, lambda one: one.setting.brokers == brokers).values()
        return sorted(one.regret for one in runs if one.regret is not None)

    def runs_of(self, part: Part, what: What) -> Iterable[ModelCosts]:
        return (one for one in self.found if one.part == part and one.setting.what == what)

    def improvements(self, what: What) -> Mapping[float, float]:
        """Return, by alpha, by which part costs are below the static tree's, mean over networks."""
        found = {}
        for alpha in self.scale.alphas:
            ratios = self.ratios("alpha", what, lambda one, a=alpha: one.setting.alpha == a)  # type: ignore[misc]
            if ratios:
                found[alpha] = 1 - statistics.fmean(ratios)
        return found
