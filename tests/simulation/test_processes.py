"""A simulated cluster starts a spare when its matchers are busy, and ends it when they are not."""

from __future__ import annotations

from shoal.broker.messages import Publish
from shoal.language import parse
from shoal.matching.segments import Dimension
from shoal.model import Publication, Subscription
from shoal.overlays.bluedove.cluster.planner import Elasticity
from shoal.overlays.bluedove.parameters import BlueDoveParameters
from shoal.overlays.bluedove.records import ScaleRecord
from shoal.overlays.registry import strategy_factory
from shoal.simulation.links.underlay import ConstantUnderlay
from shoal.simulation.service import ServiceCosts
from shoal.simulation.world import World

SECOND_US = 1_000_000
BUSY_S, QUIET_S = 20, 30
DAYS = 2


def test_a_spare_comes_with_the_load_and_goes_with_it_twice() -> None:
    parameters = BlueDoveParameters(
        dispatchers=("D1",),
        matchers=("M1",),
        dimensions=(Dimension(attribute="x"),),
        cores=1,
        elastic=True,
        elasticity=Elasticity(spares=("M2",), settle_us=5 * SECOND_US),
    )
    system = strategy_factory("bluedove", parameters, ["D1", "M1"])
    # One matcher takes 100 publications a second.
    costs = ServiceCosts(matching_us=10_000)
    world = World((), system, ConstantUnderlay(1_000), brokers=("D1", "M1"), costs=costs)
    world.add_publisher("P", "D1", "home of P")
    world.add_subscriber("C", "home of C")
    world.subscribe(0, "D1", Subscription(id="s", client="C", filter=parse("x >= 0")))
    sequence = 0
    day_s = BUSY_S + QUIET_S
    rates = [
        (day * day_s + first_s, day * day_s + last_s, rate)
        for day in range(DAYS)
        for first_s, last_s, rate in ((2, BUSY_S, 95), (BUSY_S, day_s, 5))
    ]
    for first_s, last_s, rate in rates:
        for number in range((last_s - first_s) * rate):
            at_us = first_s * SECOND_US + number * SECOND_US // rate
            sequence += 1
            publication = Publication(
                publisher="P",
                sequence=sequence,
                published_us=at_us,
                attributes={"x": sequence * 37 % 1_000},
            )
            world.request(at_us, "P", Publish((publication,)))
    world.run((DAYS * day_s + 10) * SECOND_US)
    steps = [
        (row.action, row.matcher, row.step)
        for row in world.trace.records
        if isinstance(row, ScaleRecord)
    ]
    assert (
        steps
        == [
            ("add", "M2", "begun"),
            ("add", "M2", "done"),
            ("remove", "M2", "begun"),
            ("remove", "M2", "done"),
        ]
        * DAYS
    )
    assert [*world.departures] == ["M2"]
    assert world.departures["M2"] > (day_s + BUSY_S) * SECOND_US
    assert "M2" not in world.brokers
    delivered = [row.publication.sequence for row in world.trace.deliveries]
    assert delivered == [*range(1, sequence + 1)]
