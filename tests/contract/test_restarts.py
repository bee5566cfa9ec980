"""Restarts of single brokers in a running network, with cycles where the system allows them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import pytest

from shoal.broker.effects import Effect, Send
from shoal.broker.messages import PublicationBatch, RoutedPublication
from shoal.broker.strategy import StrategyFactory
from shoal.model import BrokerId
from shoal.overlays.registry import SYSTEMS, strategy_factory
from shoal.simulation.links.underlay import ConstantUnderlay
from shoal.simulation.world import World
from tests.broker.transcript import advertisement, publish, subscription
from tests.flooding import Flooding, Parameters
from tests.systems import eager, with_cycles

SECOND_US = 1_000_000
BROKERS = ("B1", "B2", "B3", "B4", "B5")
LINE = tuple(pairwise(BROKERS))
# Time for each broker; by half of it every system has noticed that the broker is back.
EACH_US = 120 * SECOND_US


def problems(
    links: Iterable[tuple[BrokerId, BrokerId]],
    factory: StrategyFactory,
    killed: Sequence[BrokerId] = BROKERS,
) -> list[str]:
    """Kill these brokers in turn and publish after each; return the faults found.

    Every subscriber must receive the publication once, over at most as many hops as there are
    brokers, and no copies may remain under way.
    """
    made = World(links, factory, ConstantUnderlay(5_000), brokers=BROKERS, seed=1)
    made.add_publisher("P", "B1", "home of P")
    made.advertise(0, advertisement("a"))
    clients = []
    for broker in BROKERS:
        asked = subscription(f"s{broker}", client=f"C{broker}")
        made.add_subscriber(asked.client, f"home of {asked.client}")
        made.subscribe(0, broker, asked)
        clients.append(asked.client)
    for turn, broker in enumerate(killed):
        at_us = turn * EACH_US + 10 * SECOND_US
        made.crash(at_us, broker)
        made.restart(at_us + 5 * SECOND_US, broker)
        made.request(at_us + EACH_US // 2, "P", publish(turn))
    made.run(len(killed) * EACH_US)
    found = []
    for turn, broker in enumerate(killed):
        rows = [each for each in made.trace.deliveries if each.publication.sequence == turn]
        got = sorted(each.client for each in rows)
        if got != clients:
            found.append(f"after {broker} was killed {got} got it")
        found += [f"{row.client}: {row.hops} hops" for row in rows if row.hops > len(BROKERS)]
    if made.under_way:
        found.append(f"{made.under_way} copies are still under way")
    return found


@pytest.mark.parametrize("system", SYSTEMS)
def test_after_a_restart_every_subscriber_receives_once_and_nothing_circulates(system: str) -> None:
    links = () if SYSTEMS[system].shape.opens_links else with_cycles(system, BROKERS, LINE)
    assert problems(links, strategy_factory(system, eager(system, 20, BROKERS))) == []


class FloodingWithoutDuplicateCheck(Flooding):
    """A flooding system without the check for duplicates."""

    def _flood(
        self,
        publications: tuple[RoutedPublication, ...],
        hops: int,
        source: BrokerId | None,
        out: list[Effect],
    ) -> None:
        count = len(out)
        super()._flood(publications, hops, source, out)
        if not any(isinstance(each, Send) for each in out[count:]):
            batch = PublicationBatch(publications, hops + 1)
            out += [Send(each, batch) for each in self._neighbours if each != source]


def test_the_checker_reports_circulating_copies() -> None:
    """Copies circulate, although each client receives each publication once."""
    ring = (*LINE, ("B5", "B1"))
    found = problems(
        ring, lambda context: FloodingWithoutDuplicateCheck(context, Parameters()), BROKERS[:1]
    )
    assert found == ["2 copies are still under way"]
