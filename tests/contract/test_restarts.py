"""A broker starts again in the middle of a network, with cycles where a system allows any."""

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
# Each broker has so long: all systems have noticed by half of it that it is there again.
EACH_US = 120 * SECOND_US


def problems(
    links: Iterable[tuple[BrokerId, BrokerId]],
    factory: StrategyFactory,
    killed: Sequence[BrokerId] = BROKERS,
) -> list[str]:
    """What is wrong after these were killed, each in its turn; something is published behind it.

    Everybody has to get that, once, by no more hops than there are brokers, and then there is rest.
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
def test_all_get_what_is_published_then_and_nothing_goes_round(system: str) -> None:
    links = () if SYSTEMS[system].shape.opens_links else with_cycles(system, BROKERS, LINE)
    assert problems(links, strategy_factory(system, eager(system, 20, BROKERS))) == []


class Endless(Flooding):
    """Passes on what it has passed on before."""

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


def test_the_judge_notices_what_goes_round() -> None:
    """Clients get all of it once: at brokers nobody sees it."""
    ring = (*LINE, ("B5", "B1"))
    found = problems(ring, lambda context: Endless(context, Parameters()), BROKERS[:1])
    assert found == ["2 copies are still under way"]
