"""What it costs a network that brokers know where clients are: messages over links per event.

Run `python benchmarks/bench_whereabouts.py`.  Brokers' machines and MQTT sides in memory, in a tree
of 100 (each linked to a random earlier one) and a star of 40; each event at brokers by turns, one
at a time and a second apart, but for those "at once", which are 100 at one broker.  Beside it what
the same costs where one broker of an earlier version is among them, so that all are told of all,
one by one.  Each publication of the brokers' MQTT sides counts on each link that it goes over.
Prints the medians, and the ratio.  "Join" is a broker that begins, and has missed all, with 1,000
kept sessions in the network.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.mqtt.network_house import Network

from shoal.mqtt.broker_clients import BrokerClients
from shoal.mqtt.codec.properties import Properties
from shoal.mqtt.federation import joining
from shoal.mqtt.federation.controls import FEATURES

EVENTS = 20
AT_ONCE = 100
SESSIONS = 1_000
KEPT: dict[str, Any] = {
    "clean_start": False,
    "properties": Properties(session_expiry_interval_s=1_000_000),
}


def tree(count: int) -> list[tuple[str, str]]:
    random = Random(1)
    return [(f"B{random.randrange(number)}", f"B{number}") for number in range(1, count)]


def star(count: int) -> list[tuple[str, str]]:
    return [("B0", f"B{number}") for number in range(1, count)]


class Costs:
    """One network, and what events cost in it."""

    def __init__(self, links: list[tuple[str, str]], features: tuple[str, ...]) -> None:
        self.names = [f"B{number}" for number in range(len(links) + 1)]
        self.network = Network(*self.names, tree=links, maximum_connections=10**6)
        # The last one speaks for a version.
        self.features = features
        self.network.after(15)
        self.begin(self.names[-1])
        self.network.after(15)

    def begin(self, name: str) -> None:
        """A broker's MQTT side begins without memory."""
        site = self.network[name]
        site.clients = BrokerClients(name, site.now_us, limits=site.clients.limits, networked=True)
        joining.FEATURES = self.features  # type: ignore[misc]
        site.carry_out(site.clients.take_effects())
        site.after(1)
        joining.FEATURES = FEATURES  # type: ignore[misc]

    def of(self, event: Callable[[], object], seconds: float = 1) -> int:
        self.network.carried = 0
        event()
        self.network.after(seconds)
        return self.network.carried

    def measure(self) -> Iterator[tuple[str, float]]:
        network, places = self.network, self.names[:: len(self.names) // EVENTS]
        clients = {}

        def go(client: str, name: str, **terms: Any) -> None:
            clients[client] = network[name].connect(client, **terms)

        def median(costs: list[int], events: int = 1) -> float:
            return statistics.median(costs) / events

        yield "connect", median([self.of(lambda n=n: go(n, n)) for n in places])
        yield (
            "... elsewhere",
            median(
                [
                    self.of(lambda a=a, b=b: go(a, b))
                    for a, b in zip(places, places[::-1], strict=True)
                ]
            ),
        )
        yield "disconnect", median([self.of(clients[n].lose) for n in places])
        yield (
            f"connect, {AT_ONCE} at once",
            self.of(lambda: [go(f"x{k}", "B1") for k in range(AT_ONCE)]) / AT_ONCE,
        )
        kept = [self.of(lambda n=n: go(f"k{n}", n, **KEPT)) for n in places]
        yield "connect, kept", median(kept)
        yield "disconnect, kept", median([self.of(clients[f"k{n}"].lose) for n in places])
        back = [self.of(lambda n=n: go(f"k{n}", n, **KEPT)) for n in places]
        yield "connect again, kept", median(back)
        elsewhere = [
            self.of(lambda a=a, b=b: go(f"k{a}", b, **KEPT), 5)
            for a, b in zip(places, places[::-1], strict=True)
        ]
        yield "... elsewhere, kept", median(elsewhere)
        yield (
            f"connect, kept, {AT_ONCE} at once",
            self.of(lambda: [go(f"y{k}", "B1", **KEPT) for k in range(AT_ONCE)]) / AT_ONCE,
        )
        for place in places:
            for number in range(SESSIONS // EVENTS):
                network[place].connect(f"{place}/{number}", **KEPT)
            network[place].after(1)
        yield f"join, {SESSIONS:,} kept", self.of(lambda: self.begin(self.names[-2]), 1)
        yield "connect after it", median([self.of(lambda n=n: go(n, n), 0.2) for n in places])


def main() -> None:
    print(f"{'messages over links':30}{'to all':>10}{'now':>10}{'ratio':>10}")
    for title, links in (("tree of 100", tree(100)), ("star of 40", star(40))):
        print(title)
        before, now = Costs(links, ()), Costs(links, FEATURES)
        for (name, old), (_, new) in zip(before.measure(), now.measure(), strict=True):
            print(f"  {name:28}{old:10,.1f}{new:10,.1f}{new / old if old else 1:10.3f}", flush=True)


if __name__ == "__main__":
    main()
