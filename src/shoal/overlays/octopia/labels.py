"""Where each broker stands in a product of a tree and a complete graph (OctopiA paper, III and IV).

A broker (v, i) is in region v, with one broker of every cluster, and in cluster i, which is a copy
of the tree.  Two brokers of one cluster are linked where their regions are in the tree (aLinks),
any two of one region are linked (iLinks).  Parents come before their children, so that whoever
links only to brokers of lower regions of its cluster closes no cycle.

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

# A cluster is a bit of what a publication still owes; that travels as one integer.
MAX_CLUSTERS = 32


class Position(NamedTuple):
    """A broker's label."""

    region: int
    cluster: int


class Product:
    """An overlay: `rows` are its regions, each with its broker of every cluster.

    `parents` has the parent of each region but the first; without it the tree is balanced, with a
    fan-out of 2.  TopologyError says which row or parent is wrong.
    """

    def __init__(self, rows: Sequence[Sequence[BrokerId]], parents: Sequence[int] = ()) -> None:
        check_brokers([name for row in rows for name in row])
        self.rows = tuple(tuple(row) for row in rows)
        self.clusters = len(self.rows[0])
        self.regions = len(self.rows)
        _check_rows(self.rows)
        regions = range(1, self.regions)
        self.parents = tuple(parents) or tuple((region - 1) // 2 for region in regions)
        _check_parents(self.parents, self.regions)
        self._positions = {
            name: Position(region, cluster)
            for region, row in enumerate(self.rows)
            for cluster, name in enumerate(row)
        }

    @property
    def brokers(self) -> tuple[BrokerId, ...]:
        return tuple(self._positions)

    @property
    def links(self) -> list[Link]:
        """All aLinks, cluster by cluster, then all iLinks, region by region."""
        inner = [
            (self.rows[parent][cluster], self.rows[region][cluster])
            for cluster in range(self.clusters)
            for region, parent in enumerate(self.parents, 1)
        ]
        return inner + [pair for row in self.rows for pair in combinations(row, 2)]

    def position(self, broker: BrokerId) -> Position:
        """KeyError when it is no broker of this overlay."""
        return self._positions[broker]

    def __contains__(self, broker: BrokerId) -> bool:
        return broker in self._positions

    def broker(self, region: int, cluster: int) -> BrokerId:
        return self.rows[region][cluster]

    def parent(self, region: int) -> int | None:
        return self.parents[region - 1] if region else None

    def ancestors(self, region: int) -> Iterator[int]:
        """The regions above this one, nearest first."""
        above = self.parent(region)
        while above is not None:
            yield above
            above = self.parent(above)

    def above(self, region: int) -> list[int]:
        """Whom a broker of this region may link up to in its cluster, the best first.

        Its ancestors, nearest first, then all other lower regions: whatever has died, the living
        whose links up are their best living ones are one tree.
        """
        ancestors = list(self.ancestors(region))
        return ancestors + [lower for lower in range(region) if lower not in ancestors]

    def entries(self, region: int) -> list[int]:
        """By which of another cluster's brokers this region enters it, the best first."""
        above = self.above(region)
        return [region, *above, *range(region + 1, self.regions)]


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
    """3 clusters where so many brokers make them, else 2, else one."""
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
