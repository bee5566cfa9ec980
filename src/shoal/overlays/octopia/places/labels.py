"""Labels: the brokers' places in the product of a tree and a complete graph (OctopiA, III and IV).

A broker (v, i) is in region v, with one broker of every cluster, and in cluster i, which is a copy
of the tree. Two brokers of one cluster are linked if their regions are linked in the tree (aLinks),
and any two of one region (iLinks). Parents come before their children, so that a broker that links
only to lower regions of its cluster closes no cycle.

>>> product = Product((("A", "B"), ("C", "D"), ("E", "F")))
>>> product.links
[('A', 'C'), ('A', 'E'), ('B', 'D'), ('B', 'F'), ('A', 'B'), ('C', 'D'), ('E', 'F')]
>>> product.position("F")
Position(region=2, cluster=1)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

from shoal.model import BrokerId
from shoal.overlays.shapes import Link, TopologyError, check_brokers

# A cluster is a bit of a publication's owed clusters, which travel as one integer.
MAX_CLUSTERS = 32


class Position(NamedTuple):
    """A broker's label."""

    region: int
    cluster: int


class Product:
    """An overlay: `rows` are its regions, each with its broker of every cluster, "" for a free
    place.

    `parents` has the parent of each region but the first; without it the tree is balanced, with a
    fan-out of 2. TopologyError names a wrong row or parent.

    A joiner links up to brokers that were there before, so that its join changes no path.
    """

    def __init__(self, rows: Sequence[Sequence[BrokerId]], parents: Sequence[int] = ()) -> None:
        check_brokers([name for row in rows for name in row if name])
        self.rows = tuple(tuple(row) for row in rows)
        self.clusters = len(self.rows[0])
        self.regions = len(self.rows)
        _check_rows(self.rows)
        regions = range(1, self.regions)
        given = tuple(parents) or tuple((region - 1) // 2 for region in regions)
        _check_parents(given, self.regions)
        self._parents = dict(enumerate(given, 1))
        # Every region up to this one has a parent.
        self._filled = len(given)
        self._brokers: dict[Position, BrokerId] = {}
        # Includes brokers that have left: their messages may still be in transit.
        self._positions: dict[BrokerId, Position] = {}
        self._since: dict[Position, int] = {}
        # By cluster, its regions in the order in which they came; until a broker comes or goes.
        self._regions_of: dict[int, list[int]] = {}
        for region, row in enumerate(self.rows):
            for cluster, name in enumerate(row):
                if name:
                    self.place(name, Position(region, cluster), 0)

    # --- brokers that come and go -------------------------------------------------------------

    def place(
        self, broker: BrokerId, position: Position, since: int, parent: int | None = None
    ) -> None:
        """A broker is here, since then; `parent` is the region above its own, if that is new."""
        self.remove(broker)
        self._regions_of.clear()
        self._brokers[position] = broker
        self._positions[broker] = position
        self._since[position] = since
        self.regions = max(self.regions, position.region + 1)
        self.clusters = max(self.clusters, position.cluster + 1)
        if parent is not None and position.region:
            self._parents[position.region] = parent
        # Regions that are empty, or of which this broker has yet to hear.
        for region in range(self._filled + 1, position.region + 1):
            self._parents.setdefault(region, 0)
        self._filled = max(self._filled, position.region)

    def remove(self, broker: BrokerId) -> None:
        """A broker has left; its position is remembered."""
        if broker in self:
            self._regions_of.clear()
            del self._brokers[self._positions[broker]]

    # --- places -------------------------------------------------------------------------------

    @property
    def parents(self) -> tuple[int, ...]:
        return tuple(self._parents[region] for region in range(1, self.regions))

    @property
    def brokers(self) -> tuple[BrokerId, ...]:
        """All that are there, region by region."""
        return tuple(self._brokers[position] for position in sorted(self._brokers))

    @property
    def links(self) -> list[Link]:
        """All aLinks, cluster by cluster, then all iLinks, region by region."""
        inner = [
            (self.broker(parent, cluster), self.broker(region, cluster))
            for cluster in range(self.clusters)
            for region, parent in self._parents.items()
            if {(parent, cluster), (region, cluster)} <= self._brokers.keys()
        ]
        rows: list[list[BrokerId]] = [[] for _ in range(self.regions)]
        for broker in self.brokers:
            rows[self._positions[broker].region].append(broker)
        return inner + [pair for row in rows for pair in combinations(row, 2)]

    def position(self, broker: BrokerId) -> Position:
        """A broker's present or last place; KeyError when it is no broker of this overlay."""
        return self._positions[broker]

    def knows(self, broker: BrokerId) -> bool:
        """Whether a broker is, or was, one of this overlay."""
        return broker in self._positions

    def __contains__(self, broker: BrokerId) -> bool:
        position = self._positions.get(broker)
        return position is not None and self._brokers.get(position) == broker

    def broker(self, region: int, cluster: int) -> BrokerId:
        """KeyError for a free place."""
        return self._brokers[Position(region, cluster)]

    def near(self, broker: BrokerId) -> list[BrokerId]:
        """The others of a broker's region."""
        region = self._positions[broker].region
        places = [Position(region, cluster) for cluster in range(self.clusters)]
        found = [self._brokers[each] for each in places if each in self._brokers]
        return [each for each in found if each != broker]

    def at(self, position: Position) -> BrokerId | None:
        """The broker at a place, if any."""
        return self._brokers.get(position)

    def regions_of(self, cluster: int) -> list[int]:
        """The regions with a broker of a cluster, in the order in which these came."""
        found = self._regions_of.get(cluster)
        if found is None:
            here = [position for position in self._brokers if position.cluster == cluster]
            found = [position.region for position in sorted(here, key=self._rank)]
            self._regions_of[cluster] = found
        return found

    def is_above(self, region: int, other: int, cluster: int) -> bool:
        """Whether the second region's broker of a cluster may link up to the first one's."""
        return self._rank(Position(region, cluster)) < self._rank(Position(other, cluster))

    def _rank(self, position: Position) -> tuple[int, int]:
        return self._since.get(position, 0), position.region

    def parent(self, region: int) -> int | None:
        return self._parents.get(region)

    def ancestors(self, region: int) -> Iterator[int]:
        """The regions above this one, nearest first."""
        above = self.parent(region)
        while above is not None:
            yield above
            above = self.parent(above)

    def above(self, region: int, cluster: int) -> list[int]:
        """The regions whose brokers are candidates for this one's parent in its cluster, best
        first.

        Its ancestors, nearest first, then all others that joined before it: after any deaths, the
        living brokers with their best living parents form one tree.
        """
        there = self.regions_of(cluster)
        earlier = [each for each in there if self.is_above(each, region, cluster)]
        ancestors = [each for each in self.ancestors(region) if each in earlier]
        return ancestors + [each for each in earlier if each not in ancestors]

    def best_above(self, region: int, cluster: int) -> int | None:
        """The first of `above`, without the others; None if there is none."""
        for each in self.ancestors(region):
            if Position(each, cluster) in self._brokers and self.is_above(each, region, cluster):
                return each
        first = next(iter(self.regions_of(cluster)), None)
        return first if first is not None and self.is_above(first, region, cluster) else None

    def entries(self, region: int, cluster: int) -> list[int]:
        """By which of another cluster's brokers this region enters it, the best first."""
        there = self.regions_of(cluster)
        near = [each for each in (region, *self.ancestors(region)) if each in there]
        return near + [each for each in sorted(there) if each not in near]

    def beside(self, broker: BrokerId) -> list[BrokerId]:
        """The tree neighbours of a broker in its cluster if all that have not left are
        connected.
        """
        region, cluster = self._positions[broker]
        best = {each: self.best_above(each, cluster) for each in self.regions_of(cluster)}
        below = [each for each, up in best.items() if up == region]
        up = best.get(region)
        return [self.broker(each, cluster) for each in (*([] if up is None else [up]), *below)]

    def joined(self, cluster: int) -> dict[int, int]:
        """The regions with a broker of a cluster, and when these came, in µs."""
        return {each: self._since[Position(each, cluster)] for each in self.regions_of(cluster)}

    def free_position(self) -> Position | None:
        """The first free place in a region that is not full; None: all are full."""
        everywhere = (
            Position(region, cluster)
            for region in range(self.regions)
            for cluster in range(self.clusters)
        )
        return next((each for each in everywhere if each not in self._brokers), None)


def rows_of(brokers: Sequence[BrokerId], clusters: int) -> tuple[tuple[BrokerId, ...], ...]:
    """Brokers in their order, region by region; TopologyError when some region is not full.

    >>> rows_of(["A", "B", "C", "D"], 2)
    (('A', 'B'), ('C', 'D'))
    """
    check_brokers(brokers)
    if len(brokers) % clusters:
        raise TopologyError(
            f"{len(brokers)} brokers do not make regions of {clusters}, one for each cluster"
        )
    starts = range(0, len(brokers), clusters)
    return tuple(tuple(brokers[start : start + clusters]) for start in starts)


def most_clusters(brokers: int) -> int:
    """3 clusters if the brokers suffice, else 2, else one."""
    return next(clusters for clusters in (3, 2, 1) if brokers % clusters == 0)


def _check_rows(rows: Sequence[Sequence[BrokerId]]) -> None:
    clusters = len(rows[0])
    if clusters > MAX_CLUSTERS:
        raise TopologyError(f"rows[0]: {clusters} clusters, at most {MAX_CLUSTERS} are possible")
    for place, row in enumerate(rows):
        if len(row) != clusters:
            raise TopologyError(
                f"rows[{place}]: has {len(row)} brokers, rows[0] has {clusters}; a region has one "
                "broker of each cluster"
            )


def _check_parents(parents: Sequence[int], regions: int) -> None:
    if len(parents) != regions - 1:
        raise TopologyError(
            f"parents: {len(parents)} for {regions} rows; each row but the first has one"
        )
    for region, parent in enumerate(parents, 1):
        if not 0 <= parent < region:
            raise TopologyError(
                f"parents[{region - 1}]: {parent} is no row before rows[{region}]; parents come "
                "before their children"
            )
