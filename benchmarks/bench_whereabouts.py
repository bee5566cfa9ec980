"""The cost of the session directory: messages over links per event.

Run `python benchmarks/bench_whereabouts.py`. Brokers' machines and MQTT sides in memory, in a tree
of 100 (each linked to a random earlier one) and a star of 40. Events happen at brokers in turn, one
at a time and a second apart, except for those "at once", which are 100 at one broker. Each
publication of the brokers' MQTT sides counts on each link that it passes. The output has medians.
"Join" is a new broker without any state, with 1,000 lasting sessions in the network. Then comes a
second in which 100 clients connect at each of the 100 brokers, each for the first time, ten at a
time. Then the cost of a SUBACK in the tree, with and without suppression of covered subscriptions.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.mqtt.broker_api import Client
from tests.mqtt.network_broker_api import Network

from shoal.mqtt.broker_clients import BrokerClients
from shoal.mqtt.codec.packets import Subscribe, SubscriptionRequest, Unsubscribe
from shoal.mqtt.codec.properties import Properties

EVENTS = 20
AT_ONCE = 100
SESSIONS = 1_000
STEPS = 10
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
    """One network, and the cost of events in it."""

    def __init__(self, links: list[tuple[str, str]]) -> None:
        self.names = [f"B{number}" for number in range(len(links) + 1)]
        self.network = Network(*self.names, tree=links, maximum_connections=10**6)
        self.network.after(15)

    def begin(self, name: str) -> None:
        """Restart a broker's MQTT side without memory."""
        site = self.network[name]
        site.clients = BrokerClients(name, site.now_us, limits=site.clients.limits, networked=True)
        site.carry_out(site.clients.take_effects())
        site.after(1)

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


def subscribing(costs: Costs) -> Iterator[tuple[str, float]]:
    """The cost of SUBACKs at brokers in turn, and of the end of a subscription."""
    network, places = costs.network, costs.names[:: len(costs.names) // EVENTS]
    clients = {name: network[name].connect(f"s{name}") for name in places}
    wide = {name: network[name].connect(f"w{name}") for name in places}
    network.after(1)

    def each_asks(what: str, asking: dict[str, Client]) -> float:
        return statistics.median(
            [costs.of(lambda n=n: asking[n].subscribe(what.format(n=n))) for n in places]
        )

    def some_at_once(what: str) -> float:
        def ask(name: str) -> None:
            # While they come, messages are under way.
            network.is_slow, network.is_settling = True, False
            for number in range(EVENTS):
                request = SubscriptionRequest(what.format(n=name, k=number))
                clients[name].send(Subscribe(number + 1, (request,)))
            network.is_slow, network.is_settling = False, True
            network.settle()
            for _ in range(2):
                publications, network[name].unsettled = network[name].unsettled, []
                network[name].settle(publications)

        return statistics.median([costs.of(lambda n=n: ask(n)) for n in places]) / EVENTS

    yield "a new filter", each_asks("one/{n}", clients)
    yield f"{EVENTS} new filters at a time", some_at_once("more/{n}/{k}")
    yield "the same again", each_asks("one/{n}", wide)
    yield "one with wildcards", each_asks("wide/{n}/#", wide)
    yield "one under that", each_asks("wide/{n}/x", clients)
    yield f"{EVENTS} under that at a time", some_at_once("wide/{n}/{k}")
    goes = [costs.of(lambda n=n: wide[n].send(Unsubscribe(3, (f"wide/{n}/#",)))) for n in places]
    yield f"it goes, {EVENTS + 1} were under it", statistics.median(goes)


def crowd(costs: Costs, **terms: Any) -> int:
    """AT_ONCE clients at each broker within a second, each for the first time: the messages."""
    network = costs.network
    network.carried = 0
    for step in range(STEPS):
        for name in costs.names:
            for number in range(AT_ONCE // STEPS):
                network[name].connect(f"{name}/{step}/{number}", **terms)
        network.after(1 / STEPS)
    network.after(1)
    return network.carried


def show(name: str, old: float, new: float) -> None:
    print(f"  {name:28}{old:10,.1f}{new:10,.1f}{new / old if old else 1:10.3f}", flush=True)


def main() -> None:
    print("messages over links")
    for title, links in (("tree of 100", tree(100)), ("star of 40", star(40))):
        print(title)
        for name, messages in Costs(links).measure():
            print(f"  {name:28}{messages:10,.1f}", flush=True)
    count = 100 * AT_ONCE
    print(f"\n{count:,} first connects in one second, tree of 100: messages, and for each connect")
    for name, terms in (("connect", {}), ("connect, kept", KEPT)):
        messages = crowd(Costs(tree(100)), **terms)
        print(f"  {name:28}{messages:10,}{messages / count:10.1f}", flush=True)
    print(f"\n{'messages for each SUBACK':30}{'asks all':>10}{'covers':>10}{'ratio':>10}")
    before, now = Costs(tree(100)), Costs(tree(100))
    for site in before.network.sites.values():
        site.clients.front_end.asking.ask_for_all()
    for (name, old), (_, new) in zip(subscribing(before), subscribing(now), strict=True):
        show(name, old, new)


if __name__ == "__main__":
    main()
