"""When another broker is used to enter a cluster: not before all that went by the former is there.

What goes by the new entry might overtake what is still on its way from the former one, so a probe
is sent behind that (`ordering.py`), and what is for the cluster is kept until the probe has been
everywhere.
"""

from __future__ import annotations

from shoal.broker.effects import Effect
from shoal.model import BrokerId
from shoal.overlays.octopia.ordering import Ordering, ProbeName


class Sweeps:
    """The clusters of which the entry changes, and the probes by the former entries."""

    def __init__(self, ordering: Ordering) -> None:
        self._ordering = ordering
        self._under_way: dict[int, dict[ProbeName, BrokerId]] = {}

    def __bool__(self) -> bool:
        return bool(self._under_way)

    def __contains__(self, cluster: int) -> bool:
        """Whether a cluster's entry changes."""
        return cluster in self._under_way

    def begin(self, cluster: int, before: BrokerId, out: list[Effect]) -> None:
        """A cluster was entered by this broker, which is still there, and is so no more."""
        self._under_way.setdefault(cluster, {})[self._ordering.sweep(before, out)] = before

    def over(self) -> list[BrokerId]:
        """The former entries from which all has arrived since this was asked last."""
        found = []
        for cluster, probes in list(self._under_way.items()):
            for name, before in list(probes.items()):
                if not self._ordering.is_under_way(name):
                    found.append(before)
                    del probes[name]
            if not probes:
                del self._under_way[cluster]
        return found
