"""Print all deliveries and links of a small simulated network: `printed_run.py SYSTEM`."""

from __future__ import annotations

import sys
from itertools import pairwise

from shoal.overlays.registry import strategy_factory
from shoal.simulation.links.underlay import ConstantUnderlay
from shoal.simulation.world import World
from tests.broker.transcript import advertisement, publish, subscription
from tests.systems import eager, with_cycles

SECOND_US = 1_000_000
BROKERS = ("B1", "B2", "B3", "B4", "B5")


def main(system: str) -> None:
    links = with_cycles(system, BROKERS, pairwise(BROKERS))
    factory = strategy_factory(system, eager(system, 3, BROKERS))
    made = World(links, factory, ConstantUnderlay(5_000), brokers=BROKERS, seed=1)
    for name, broker in (("P", "B1"), ("Q", "B4")):
        made.add_publisher(name, broker, f"home of {name}")
        made.advertise(0, advertisement(f"a{name}", publisher=name))
    for broker in BROKERS:
        for number in range(3):
            asked = subscription(f"s{broker}{number}", client=f"C{broker}{number}")
            made.add_subscriber(asked.client, f"home of {asked.client}")
            made.subscribe(0, broker, asked)
    made.crash(20 * SECOND_US, "B3")
    made.restart(25 * SECOND_US, "B3")
    for number in range(40):
        made.request(
            (60 + number) * SECOND_US, (who := "PQ"[number % 2]), publish(number, publisher=who)
        )
    made.run(140 * SECOND_US)
    for row in made.trace.deliveries:
        print(row.delivered_us, row.client, row.broker, row.hops, row.publication.sequence)
    print(*made.links, *made.load_rows(), sep="\n")


if __name__ == "__main__":
    main(sys.argv[1])
