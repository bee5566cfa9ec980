"""A broadcast's way through the model's tree: brokers that it reaches, and links that pay there.

Each broker has a `Neighbourhood`, as brokers have, and asks `planner.evaluate`.

Source: Cost and Interest, sections 4.1 (Eq. 4 to 7) and 4.2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple, cast

from shoal.experiments.self_organising.modelling.delivery import DeliveryTree
from shoal.experiments.self_organising.modelling.sharing import SharedInterest, SharingInterval
from shoal.experiments.self_organising.modelling.workload import ModelLinkCosts
from shoal.model import BrokerId
from shoal.overlays.self_organising.deciding.interest import Cache
from shoal.overlays.self_organising.deciding.neighbourhood import Neighbourhood
from shoal.overlays.self_organising.deciding.planner import (
    Cycle,
    UnknownBrokerError,
    cost_vector,
    evaluate,
)
from shoal.overlays.self_organising.parameters import Heuristic, ThreeWay


class Spread(NamedTuple):
    """Results of a broadcast.

    heard    brokers that received it
    cost     of its messages
    cycles   closed by the links that pay, as their first brokers see them, in order of distance
    """

    heard: int
    cost: float
    cycles: list[Cycle]


class Walk:
    """The brokers' knowledge of each other, and broadcasts that refresh it."""

    def __init__(
        self, interests: Sequence[SharedInterest], heuristic: Heuristic, three_way: ThreeWay
    ) -> None:
        self._heuristic = heuristic
        self._around = [Neighbourhood(cast(Cache, each), three_way) for each in interests]

    def vectors(self, cycle: Cycle) -> Callable[[int], Sequence[float] | None]:
        """Return the judgement (Eq. 8) of the broker at each place of a cycle, by its place; None
        if that one does not know another of them.
        """
        return partial(self._vector, cycle)

    def _vector(self, cycle: Cycle, place: int) -> Sequence[float] | None:
        broker = cycle.brokers[place]
        with suppress(UnknownBrokerError):
            return cost_vector(self._around[cast(int, broker)], cycle, broker)
        return None

    def spread(
        self, interval: SharingInterval, tree: DeliveryTree, costs: ModelLinkCosts, hops: int
    ) -> Spread:
        """End an interval of a broker, and send its broadcast as far as it may go."""
        origin = interval.origin
        self._around[origin].turn()
        cycles: list[Cycle] = []
        # Reached brokers, their predecessors, and the route back to the origin.
        start = _Way((origin,), (costs.brokers[origin],), (), ())
        reached: list[tuple[int, int, _Way]] = [(origin, -1, start)]
        heard, cost = 0, 0.0
        for away in range(hops):
            further: list[tuple[int, int, _Way]] = []
            for sender, before, way in reached:
                for broker in tree.neighbours[sender]:
                    if broker == before:
                        continue
                    link = costs.links[sender][broker]
                    heard += 1
                    cost += link + costs.brokers[broker]
                    around = self._around[broker]
                    around.on_broadcast(origin, interval)  # type: ignore[arg-type]
                    found = _Way(
                        (broker, *way.brokers),
                        (costs.brokers[broker], *way.processing),
                        (link, *way.links),
                        (around.shared(cast(BrokerId, sender)), *way.shared),
                    )
                    further.append((broker, sender, found))
                    if away and (cycle := self._paying(found, around, costs)):
                        cycles.append(cycle)
            reached = further
        return Spread(heard, cost, cycles)

    def _paying(self, way: _Way, around: Neighbourhood, costs: ModelLinkCosts) -> Cycle | None:
        """The cycle that a link to the origin closes, if the link pays for this broker."""
        shared: tuple[int, ...] = ()
        if self._heuristic is Heuristic.INTEREST:
            if None in way.shared:
                return None
            last = around.shared(cast(BrokerId, way.brokers[-1])) or 0
            shared = (*cast(tuple[int, ...], way.shared), last)
        cycle = Cycle(
            brokers=way.brokers,  # type: ignore[arg-type]  # numbers are as good as names
            processing=way.processing,
            costs=(*way.links, costs.links[way.brokers[0]][way.brokers[-1]]),
            shared=shared,
        )
        try:
            evaluation = evaluate(self._heuristic, around, cycle)
        except UnknownBrokerError:
            return None
        return cycle if evaluation is not None and evaluation.pays else None


class _Way(NamedTuple):
    """From the broker that a broadcast has come to, back to its origin."""

    brokers: tuple[int, ...]
    processing: tuple[float, ...]
    links: tuple[float, ...]
    shared: tuple[int | None, ...]
