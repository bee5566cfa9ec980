"""Planner: number of clusters, tree and places of brokers with the least mean delay.

For each number of clusters that makes full rows, and survives the given faults, brokers are placed
so that the mean delay over shortest paths (VII-A) is least: over the iLink into the subscriber's
cluster, then over its tree. Deliveries are the weights. More clusters give shorter paths and more
links, so the bound on these decides.

Places are searched from many starts by the best of small changes: two brokers change places, or a
row is moved below another one. The starts come from a fixed seed, so a plan is the same each time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from random import Random
from typing import NamedTuple

from shoal.model import BrokerId
from shoal.overlays.octopia.parameters import OctopiaParameters
from shoal.overlays.octopia.places.labels import MAX_CLUSTERS
from shoal.overlays.planning import OverlayPlan, OverlaySurvey, PlanError, PlannedInterests

# Bound on the paths and rates examined in all: some seconds.
EFFORT = 3_000_000
STARTS = 40

Rows = tuple[tuple[BrokerId, ...], ...]


class ProductLayout(NamedTuple):
    """Places of brokers, and the row above each row but the first."""

    rows: Rows
    parents: tuple[int, ...]


def plan(survey: OverlaySurvey, wishes: PlannedInterests, effort: int = EFFORT) -> OverlayPlan:
    """The layout of least mean delay that is found; PlanError when there is none."""
    found: list[tuple[float, ProductLayout]] = []
    reasons = []
    sizes = _numbers_of_clusters(survey, wishes)
    for clusters in sizes:
        search = PlannerSearch(survey, wishes, clusters)
        best = search.run(effort // len(sizes))
        what = f"{clusters} clusters of {search.regions}"
        if best is None:
            reasons.append(f"{what}: {search.problem}")
        else:
            mean_ms, layout = best
            reasons.append(f"{what}: {mean_ms:.2f} ms, at most {most_links(layout)} links a broker")
            found.append(best)
    if not found:
        raise PlanError("; ".join(reasons))
    mean_ms, layout = min(found, key=lambda each: (each[0], len(each[1].rows[0])))
    clusters = len(layout.rows[0])
    parameters = OctopiaParameters(clusters=clusters, rows=layout.rows, parents=layout.parents)
    return OverlayPlan(parameters, mean_ms, tuple(reasons))


def _numbers_of_clusters(survey: OverlaySurvey, wishes: PlannedInterests) -> list[int]:
    brokers, least = len(survey.brokers), wishes.survive + 1
    found = [
        clusters
        for clusters in range(least, min(brokers, MAX_CLUSTERS) + 1)
        if brokers % clusters == 0
    ]
    if not found:
        raise PlanError(
            f"{brokers} brokers make no full rows of {least} or more, and at most {MAX_CLUSTERS}, "
            f"as the death of any {wishes.survive} needs; take other brokers, or survive fewer"
        )
    return found


def most_links(layout: ProductLayout) -> int:
    """The highest number of links of a broker."""
    regions = range(len(layout.rows))
    degrees = [bool(region) + layout.parents.count(region) for region in regions]
    return max(degrees) + len(layout.rows[0]) - 1


class PlannerSearch:
    """The layouts of one number of clusters."""

    def __init__(self, survey: OverlaySurvey, wishes: PlannedInterests, clusters: int) -> None:
        self.clusters = clusters
        self.regions = len(survey.brokers) // clusters
        self.problem = ""
        self._brokers = survey.brokers
        self._sites = survey.sites if wishes.is_apart else {}
        self._most_links = wishes.most_links
        every = [(one, other) for one in survey.brokers for other in survey.brokers]
        self._ms = {
            pair: survey.one_way_ms(*pair) + wishes.hop_ms for pair in every if pair[0] != pair[1]
        }
        rates = {pair: survey.rate(*pair) for pair in every if pair[0] != pair[1]}
        self._rates = {pair: rate for pair, rate in rates.items() if rate > 0}
        self._total = sum(self._rates.values()) or 1.0
        self._looked = 0

    def run(self, effort: int) -> tuple[float, ProductLayout] | None:
        """The best that is found with this effort, and its mean delay in ms."""
        random = Random(self.clusters)
        best: tuple[float, ProductLayout] | None = None
        for number in range(STARTS):
            start = self._start(random, is_first=number == 0)
            if start is None:
                return None
            found = self._improve(start, random, effort)
            if best is None or found < best:
                best = found
            if self._looked > effort:
                break
        return best

    def _start(self, random: Random, *, is_first: bool) -> ProductLayout | None:
        """Some layout that is allowed; the first has the brokers in their order."""
        parents = _tree(self.regions, self._most_links - self.clusters + 1)
        if parents is None:
            self.problem = f"more than {self._most_links} links a broker"
            return None
        brokers = list(self._brokers)
        if not is_first:
            random.shuffle(brokers)
        rows = self._apart(brokers) if self._sites else _rows(brokers, self.clusters)
        if rows is None:
            self.problem = "some row would have two brokers of one site"
            return None
        return ProductLayout(rows, parents)

    def _apart(self, brokers: Sequence[BrokerId]) -> Rows | None:
        """Rows without two brokers of one site, of which the fullest sites are dealt out first."""
        by_site: dict[str, list[BrokerId]] = {}
        for broker in brokers:
            by_site.setdefault(self._sites[broker], []).append(broker)
        if max(map(len, by_site.values())) > self.regions:
            return None
        dealt = [each for site in sorted(by_site.values(), key=len, reverse=True) for each in site]
        return tuple(tuple(dealt[region :: self.regions]) for region in range(self.regions))

    def _is_allowed(self, layout: ProductLayout) -> bool:
        if most_links(layout) > self._most_links:
            return False
        return not self._sites or all(
            len({self._sites[each] for each in row}) == self.clusters for row in layout.rows
        )

    def _improve(
        self, layout: ProductLayout, random: Random, effort: int
    ) -> tuple[float, ProductLayout]:
        """Change little things for the better, until nothing is better."""
        now = self.mean_ms(layout)
        is_better = True
        while is_better:
            is_better = False
            changes = list(_changes(layout))
            random.shuffle(changes)
            for changed in changes:
                if self._looked > effort:
                    return now, layout
                if self._is_allowed(changed) and (then := self.mean_ms(changed)) < now - 1e-9:
                    now, layout, is_better = then, changed, True
                    break
        return now, layout

    def mean_ms(self, layout: ProductLayout) -> float:
        """The mean delay of a delivery over shortest paths."""
        rows, parents = layout
        self._looked += self.clusters * self.regions**2 + len(self._rates)
        ways = [_ways(rows, parents, cluster, self._ms) for cluster in range(self.clusters)]
        place = {
            name: (region, at) for region, row in enumerate(rows) for at, name in enumerate(row)
        }
        total = 0.0
        for (source, target), rate in self._rates.items():
            (here, own), (there, cluster) = place[source], place[target]
            way = ways[cluster][here][there]
            if own != cluster:
                way += self._ms[source, rows[here][cluster]]
            total += rate * way
        return total / self._total


def _ways(
    rows: Rows, parents: Sequence[int], cluster: int, ms: dict[tuple[BrokerId, BrokerId], float]
) -> list[list[float]]:
    """Delay from region to region of a cluster."""
    found = [[0.0] * len(rows) for _ in rows]
    for region, parent in enumerate(parents, 1):
        step = ms[rows[parent][cluster], rows[region][cluster]]
        for other in range(region):
            found[region][other] = found[other][region] = found[parent][other] + step
    return found


def _changes(layout: ProductLayout) -> Iterator[ProductLayout]:
    """All layouts that differ in two brokers' places, or in the parent of one row."""
    rows, parents = layout
    places = [(region, at) for region, row in enumerate(rows) for at in range(len(row))]
    for (one, here), (other, there) in combinations(places, 2):
        changed = [list(row) for row in rows]
        changed[one][here], changed[other][there] = rows[other][there], rows[one][here]
        yield ProductLayout(tuple(map(tuple, changed)), parents)
    for region in range(2, len(rows)):
        for parent in range(region):
            if parent != parents[region - 1]:
                changed_parents = (*parents[: region - 1], parent, *parents[region:])
                yield ProductLayout(rows, changed_parents)


def _rows(brokers: Sequence[BrokerId], clusters: int) -> Rows:
    starts = range(0, len(brokers), clusters)
    return tuple(tuple(brokers[start : start + clusters]) for start in starts)


def _tree(regions: int, degree: int) -> tuple[int, ...] | None:
    """Parents of a balanced tree with at most `degree` neighbours each, if there is one."""
    if degree < min(2, regions - 1):
        return None
    room = [degree - bool(region) for region in range(regions)]
    found: list[int] = []
    for region in range(1, regions):
        parent = next((each for each in range(region) if room[each]), None)
        if parent is None:
            return None
        room[parent] -= 1
        found.append(parent)
    return tuple(found)
