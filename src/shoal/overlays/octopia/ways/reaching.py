"""Reachability of edge brokers of the own cluster, and of other clusters, over the present
links.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from shoal.model import BrokerId
from shoal.overlays.octopia.known.tables import Tables
from shoal.overlays.octopia.places.labels import Position, Product
from shoal.overlays.octopia.ways.copies import clusters_of

# Cached sets of edge brokers with their paths: some MB.
MAX_REACHES = 10_000


class Reach(NamedTuple):
    """Paths to some edge brokers from here.

    inner       the regions of each neighbour that leads to some of them
    unreached   those without a path now
    is_local    this broker is one of them
    """

    inner: Mapping[BrokerId, tuple[int, ...]]
    unreached: tuple[int, ...]
    is_local: bool


class Reaching:
    """At one broker; `entry_of` and `is_usable` as `OctopiaRouting` has them."""

    def __init__(
        self,
        product: Product,
        broker: BrokerId,
        tables: Tables,
        entry_of: Callable[[int], BrokerId | None],
        is_usable: Callable[[BrokerId], bool],
    ) -> None:
        self._product = product
        self._region, self._cluster = product.position(broker)
        self._tables = tables
        self._entry_of = entry_of
        self._is_usable = is_usable
        self._reaches: dict[tuple[object, ...], Reach] = {}

    def clear(self) -> None:
        """Links, tables or places have changed."""
        self._reaches.clear()

    def reach(
        self, wanted: tuple[int, ...], source: BrokerId | None, regions: frozenset[int] | None
    ) -> Reach:
        """The paths to the wanted regions, or only to `regions` of them."""
        found = self._reaches.get((wanted, source, regions))
        if found is None:
            if len(self._reaches) > MAX_REACHES:
                self._reaches.clear()
            found = self._reaches[wanted, source, regions] = self._look_up_reach(
                wanted, source, regions
            )
        return found

    def _look_up_reach(
        self, wanted: tuple[int, ...], source: BrokerId | None, regions: frozenset[int] | None
    ) -> Reach:
        tables, product = self._tables, self._product
        sender: int | None = None
        if source is not None:
            position = product.position(source)
            sender = position.region if position.cluster == self._cluster else None
        is_from_above = sender is not None and self._is_above(sender)
        inner: dict[BrokerId, list[int]] = {}
        unreached = []
        for region in wanted if regions is None else [each for each in wanted if each in regions]:
            if region == self._region:
                continue
            next_region = tables.next_region(region)
            if regions is None and sender is not None:
                if is_from_above and not tables.is_below(region):
                    continue
                if not is_from_above and next_region == sender:
                    continue
            if next_region is not None and next_region != sender:
                neighbour = product.at(Position(next_region, self._cluster))
                if neighbour is not None and self._is_usable(neighbour):
                    inner.setdefault(neighbour, []).append(region)
                    continue
            unreached.append(region)
        is_local = self._region in wanted and (regions is None or self._region in regions)
        ways = {neighbour: tuple(found) for neighbour, found in inner.items()}
        return Reach(ways, tuple(unreached), is_local)

    def _is_above(self, region: int) -> bool:
        """Whether publications from a region of this cluster come from above."""
        return self._product.is_above(region, self._region, self._cluster)

    def entries(self, owed: int) -> tuple[dict[int, BrokerId], int]:
        """The entry brokers of the owed clusters, and the bits of those without one."""
        found: dict[int, BrokerId] = {}
        missing = 0
        for cluster in clusters_of(owed) if owed else ():
            entry = self._entry_of(cluster)
            if entry is None or not self._is_usable(entry):
                missing |= 1 << cluster
            else:
                found[cluster] = entry
        return found, missing
