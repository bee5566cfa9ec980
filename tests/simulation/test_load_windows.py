"""Idle brokers are not asked for loads; brokers with traffic are, in the order they were made."""

from __future__ import annotations

from shoal.overlays.registry import SYSTEMS, strategy_factory
from shoal.simulation.links.underlay import ConstantUnderlay
from shoal.simulation.world import World
from tests.broker.transcript import advertisement, publish, subscription

SECOND_US = 1_000_000
BROKERS = tuple(f"B{number:02}" for number in range(24))


def test_idle_brokers_are_not_asked_until_a_link_has_traffic() -> None:
    octopia = SYSTEMS["octopia"]
    parameters = octopia.complete(octopia.parameters(), BROKERS)
    world = World(
        octopia.make_links(parameters, BROKERS),
        strategy_factory("octopia", parameters),
        ConstantUnderlay(5_000),
        brokers=BROKERS,
    )
    world.add_publisher("P", "B00", "B00")
    world.add_subscriber("C", "B00")
    world.advertise(0, advertisement("a"))
    world.subscribe(SECOND_US, "B23", subscription("s"))
    for second in range(2, 20):  # the world reports when something happens
        world.queue.push(second * SECOND_US, lambda now_us, _: None, None)
    world.run(19 * SECOND_US)
    asked = world.load_windows.reports(19 * SECOND_US + 50_000)
    assert asked == []
    world.request(20 * SECOND_US, "P", publish(1))
    world.run(20 * SECOND_US + 30_000)
    asked = world.load_windows.reports(20 * SECOND_US + 50_000)
    names = [report.__self__.id for _, report in asked]  # type: ignore[attr-defined]
    assert names[0] == "B00"
    assert names == sorted(names)
    assert 1 < len(names) < len(BROKERS) // 2
    world.run(21 * SECOND_US)
    assert [row.client for row in world.trace.deliveries] == ["C"]
