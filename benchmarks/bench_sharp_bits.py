"""Savings and costs of sharp bits in OctopiA: copies, messages and bytes, on quotes and flights.

Brokers are a product of three clusters, all in this process; workloads are those of
`bench_covering_routing.py`. Publishers advertise their symbol or airline; or everything, as MQTT
clients without advertisements. First all subscribe, then clients come and go, some twenty changes a
second, then publications travel. Deliveries must be equal for every value of `sharp_bits`.

    python benchmarks/bench_sharp_bits.py [--brokers N] [--subscriptions N] [--publications N]

For each number of filters it prints: copies of a publication that enter other clusters, and how
many of them a subscriber there wants; messages about subscriptions between brokers while all
subscribe, how many of them are bits, and their KB; messages for each change; the slowest input
then; and publications per second. The exit code is 1 if deliveries differ.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from random import Random
from typing import Any

import msgspec

from bench_covering_routing import Network, Workload, flights, quotes, workload
from shoal.broker.effects import Deliver, Input, Received, Send, SetTimer, TimerFired
from shoal.broker.messages import Advertise, Publish, Subscribe, Unsubscribe
from shoal.broker.wire import COMMON, Codec
from shoal.language import parse
from shoal.model import Publication
from shoal.overlays.octopia.known.bits import TIMER
from shoal.overlays.octopia.messages import (
    MESSAGES,
    BitCleared,
    BitSet,
    HomeChange,
    Notification,
)

FILTERS = (0, 2, 4, 8, 16, 32, 64, 128, 256)
# Changes until bits are narrowed.
CHANGES = 20
CODEC = Codec((*COMMON, *MESSAGES))


class Sharp(Network):
    """A product with counted messages, whose bits are narrowed on request."""

    def __init__(self, brokers: list[str], filters: int) -> None:
        self.words = self.bits = self.bytes = 0
        self.entered = self.useful = 0
        self._timers: dict[str, None] = {}
        super().__init__("octopia", brokers, {"sharp_bits": filters})  # type: ignore[dict-item]
        strategy: Any = self.brokers[brokers[0]].strategy
        self._cluster = {each: strategy.product.position(each).cluster for each in brokers}
        self._reached: set[tuple[tuple[str, int], int]] = set()

    def bring(self, broker: str, input: Input) -> None:
        self.waiting.append((broker, input))
        while self.waiting:
            name, next_input = self.waiting.popleft()
            self.now_us += 1
            started = time.thread_time()
            effects = self.brokers[name].handle(next_input, self.now_us)
            self.slowest_s = max(self.slowest_s, time.thread_time() - started)
            for effect in effects:
                match effect:
                    case Send(neighbour, message):
                        self._count(name, neighbour, message)
                        self.waiting.append((neighbour, Received(name, message)))
                    case Deliver(routed=routed, subscriptions=subscriptions):
                        key = routed.publication.key
                        self.delivered.setdefault(key, set()).update(subscriptions)
                        self._reached.add((key, self._cluster[name]))
                    case SetTimer(key, _) if key == TIMER:
                        self._timers[name] = None

    def _count(self, name: str, neighbour: str, message: object) -> None:
        if isinstance(message, Notification):
            self.entered += self._cluster[name] != self._cluster[neighbour]
        elif isinstance(message, HomeChange | BitSet | BitCleared):
            self.words += 1
            self.bits += not isinstance(message, HomeChange)
            self.bytes += len(CODEC.encode(message))

    def narrow(self) -> None:
        """A second has passed."""
        due, self._timers = self._timers, {}
        for broker in due:
            self.bring(broker, TimerFired(TIMER))

    def useful_copies(self, home_of: dict[str, str]) -> int:
        """Clusters other than the publisher's in which a subscriber received a publication."""
        return sum(
            self._cluster[home_of[publisher]] != cluster
            for (publisher, _), cluster in self._reached
        )


class Row(msgspec.Struct, kw_only=True):
    entered: float
    useful: float
    words: int
    bits: int
    kilobytes: float
    again: float
    slowest_ms: float
    per_s: float
    delivered: dict[tuple[str, int], set[str]]


def measure(brokers: list[str], made: Workload, publications: int, filters: int) -> Row:
    # All brokers' garbage is in one process here, so its collection belongs to no input.
    gc.collect()
    gc.disable()
    network = Sharp(brokers, filters)
    for promise, home in made.advertisements:
        network.ask(home, promise.publisher, Advertise(promise))
    network.slowest_s = 0.0
    for number, (interest, home) in enumerate(made.subscriptions):
        network.ask(home, interest.client, Subscribe(interest))
        if number % CHANGES == 0:
            network.narrow()
    words, bits, kilobytes = network.words, network.bits, network.bytes / 1e3
    chance, changes = Random(2), len(made.subscriptions)
    for number in range(changes // 2):
        interest, home = chance.choice(made.subscriptions)
        network.ask(home, interest.client, Unsubscribe(interest.id))
        if 2 * number % CHANGES == 0:
            network.narrow()
        network.ask(home, interest.client, Subscribe(interest))
    network.narrow()
    again, slowest_ms = (network.words - words) / changes, 1e3 * network.slowest_s
    published = [
        (home, Publication(publisher=publisher, sequence=at, published_us=0, attributes=attributes))
        for at, (publisher, home, attributes) in enumerate(made.events[:publications])
    ]
    started = time.thread_time()
    for home, publication in published:
        network.ask(home, publication.publisher, Publish((publication,)))
    return Row(
        entered=network.entered / len(published),
        useful=network.useful_copies({publisher: home for publisher, home, _ in made.events})
        / len(published),
        words=words,
        bits=bits,
        kilobytes=kilobytes,
        again=again,
        slowest_ms=slowest_ms,
        per_s=len(published) / (time.thread_time() - started),
        delivered=network.delivered,
    )


def promising_nothing(made: Workload) -> Workload:
    """The same with publishers that advertise everything, as a front end does for its clients."""
    everything = parse("TRUE")
    promises = [
        (msgspec.structs.replace(each, filter=everything), home)
        for each, home in made.advertisements
    ]
    return made._replace(advertisements=promises)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--brokers", type=int, default=21)
    parser.add_argument(
        "--subscriptions", type=int, nargs="*", default=[10, 100], help="of each publisher"
    )
    parser.add_argument("--publications", type=int, default=2_000)
    parser.add_argument("--filters", type=int, nargs="*", default=FILTERS)
    options = parser.parse_args()
    brokers = [f"B{number}" for number in range(options.brokers)]
    same = True
    for name, source in (("quotes", quotes), ("flights", flights)):
        for subscriptions in options.subscriptions:
            made = workload(source(), brokers, subscriptions)
            for promises, its in (("promised", made), ("everything", promising_nothing(made))):
                print(f"{name}, {promises}: {len(made.subscriptions):,} subscriptions")
                found = []
                for filters in options.filters:
                    row = measure(brokers, its, options.publications, filters)
                    found.append(row.delivered)
                    print(
                        f"  {filters:>4}: {row.entered:5.2f} copies, {row.useful:5.2f} of use; "
                        f"{row.words:>7,} words, {row.bits:>7,} bits, {row.kilobytes:>8,.0f} KB; "
                        f"{row.again:5.1f} a change, slowest {row.slowest_ms:5.1f} ms; "
                        f"{row.per_s:,.0f} publications/s",
                        flush=True,
                    )
                same &= all(each == found[0] for each in found)
    print(f"deliveries: {'the same' if same else 'DIFFERENT'}")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
