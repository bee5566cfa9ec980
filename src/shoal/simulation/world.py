"""A simulated network: brokers, links, publishers and subscribers in virtual time.

The brokers and the publishers' side of relocation are the very machines that run live; the world
only carries their effects out: it queues, it delays, it counts.  Time is virtual, in integer
microseconds; with one seed two runs are equal to the byte.

A broker's queue is known when a message arrives, so arrival, service and departure are one event
instead of three: the message is handled at once, under the time at which its turn comes.
"""

from __future__ import annotations

import gc
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from random import Random
from typing import Any

from shoal.broker.effects import LinkChanged, Received, Requested, Started
from shoal.broker.machine import Broker
from shoal.broker.messages import Advertise, Message, Subscribe, Unadvertise, Unsubscribe
from shoal.broker.publisher import Publisher
from shoal.broker.strategy import StrategyFactory
from shoal.broker.trace_tables import LoadRow
from shoal.model import Advertisement, BrokerId, ClientId, Subscription, SubscriptionId
from shoal.simulation.event_queue import EventQueue
from shoal.simulation.faults import FaultyLink, LinkFaults
from shoal.simulation.links import ReliableBroker
from shoal.simulation.nodes import (
    DETECTION_US,
    BrokerNode,
    Link,
    Machine,
    PublisherNode,
    Trace,
)
from shoal.simulation.service import Meter, ServiceCosts
from shoal.simulation.underlay import Underlay

# How often the monitor beside each broker reports its delays.
MONITOR_INTERVAL_US = 1_000_000

Place = str
Ends = tuple[BrokerId, BrokerId]


class World:
    """One network and its clients.

    links         the overlay's links, each once
    system        builds each broker's system (see `shoal.overlays.registry`)
    underlay      latencies between places
    places        where each broker stands; a broker not named stands at a place of its own name
    costs         what work costs in a broker
    link_faults   makes links lossy, and brokers run behind reliable links
    is_patient    who is linked to a broker that crashes hears of it when that is back, and a broker
                  that is back waits for its neighbours' tables: as on the live network
    seed          all randomness comes from it
    window_us     width of the load counters' windows
    """

    def __init__(
        self,
        links: Iterable[tuple[BrokerId, BrokerId]],
        system: StrategyFactory,
        underlay: Underlay,
        *,
        brokers: Iterable[BrokerId] = (),
        places: Mapping[BrokerId, Place] | None = None,
        costs: ServiceCosts | None = None,
        link_faults: LinkFaults | None = None,
        is_patient: bool = False,
        seed: int = 0,
        window_us: int = 1_000_000,
    ) -> None:
        self.queue = EventQueue()
        self.trace = Trace()
        self._system = system
        self._underlay = underlay
        self._costs = costs or ServiceCosts()
        self._link_faults = link_faults or LinkFaults()
        self._is_patient = is_patient
        self._seed = seed
        self._places: dict[str, Place] = dict(places or {})
        self._latency_us = _ClientLatencies(underlay, self._places)
        self._neighbours: dict[BrokerId, list[BrokerId]] = {broker: [] for broker in brokers}
        for left, right in links:
            self._neighbours.setdefault(left, []).append(right)
            self._neighbours.setdefault(right, []).append(left)
        self._publishers: dict[ClientId, PublisherNode] = {}
        self._subscriptions: dict[BrokerId, dict[SubscriptionId, Subscription]] = {}
        self.brokers: dict[BrokerId, BrokerNode] = {}
        for broker, neighbours in self._neighbours.items():
            self.brokers[broker] = BrokerNode(
                self._machine(broker, tuple(neighbours)),
                self.queue,
                self._costs,
                self.trace,
                Meter(broker, window_us),
                self._latency_us,
                self._publishers,
                self._open,
            )
        for broker, neighbours in self._neighbours.items():
            for neighbour in neighbours:
                self._connect(broker, neighbour)
        self._next_report_us = MONITOR_INTERVAL_US
        self._cuts: set[Ends] = set()
        # How often each link went down or was about to come up: only the newest word counts.
        self._changes: Counter[Ends] = Counter()
        # When the ends of a broken link notice.
        self._noticed_us: dict[Ends, int] = {}
        for node in self.brokers.values():
            node.bring(0, Started())

    def _machine(
        self,
        broker: BrokerId,
        neighbours: tuple[BrokerId, ...],
        expected: tuple[BrokerId, ...] = (),
    ) -> Machine:
        machine = Broker(broker, neighbours, self._system, self._seed, expected)
        return ReliableBroker(machine) if self._link_faults else machine

    def _connect(self, source: BrokerId, target: BrokerId) -> None:
        latency_us = self._underlay.latency_us(self._place(source), self._place(target))
        node, transmission_us = self.brokers[target], self._costs.transmission_us
        close = partial(self._reset, source, target)
        if self._link_faults:
            random = Random(f"{self._seed}/{source}/{target}")
            link: Link = FaultyLink(
                self.queue, node, latency_us, transmission_us, close, self._link_faults, random
            )
        else:
            link = Link(self.queue, node, latency_us, transmission_us, close)
        self.brokers[source].links[target] = link

    def _place(self, broker: BrokerId) -> Place:
        return self._places.get(broker, broker)

    # --- clients ------------------------------------------------------------------------------

    def add_publisher(self, client: ClientId, broker: BrokerId, place: Place) -> None:
        """A publisher that stands at `place` and starts at `broker`."""
        self._places[client] = place
        self._publishers[client] = PublisherNode(
            Publisher(client, broker), self.queue, self.trace, self.brokers, self._latency_us
        )

    def add_subscriber(self, client: ClientId, place: Place) -> None:
        """A subscriber that stands at `place`; it may subscribe at any broker."""
        self._places[client] = place

    def publisher_broker(self, client: ClientId) -> BrokerId:
        """The broker the publisher is attached to (the source's, while it moves)."""
        return self._publishers[client].machine.broker

    def request(self, at_us: int, publisher: ClientId, request: Message) -> None:
        """The publisher's application asks: Advertise, Unadvertise or Publish."""
        self.queue.push(at_us, self._publishers[publisher].request, request)

    def advertise(self, at_us: int, advertisement: Advertisement) -> None:
        self.request(at_us, advertisement.publisher, Advertise(advertisement))

    def unadvertise(self, at_us: int, advertisement: Advertisement) -> None:
        self.request(at_us, advertisement.publisher, Unadvertise(advertisement.id))

    def leave(self, at_us: int, publisher: ClientId) -> None:
        """The publisher's client goes away for good, and with it what it holds back."""
        self.queue.push(at_us, self._leave, publisher)

    def _leave(self, now_us: int, publisher: ClientId) -> None:
        node = self._publishers[publisher]
        self.queue.drop(lambda action, argument: action == node.request)
        node.leave(now_us)

    def subscribe(self, at_us: int, broker: BrokerId, subscription: Subscription) -> None:
        self.queue.push(at_us, self._subscribe, (broker, subscription))

    def unsubscribe(self, at_us: int, broker: BrokerId, subscription: Subscription) -> None:
        self.queue.push(at_us, self._unsubscribe, (broker, subscription))

    def _subscribe(self, now_us: int, argument: tuple[BrokerId, Subscription]) -> None:
        broker, subscription = argument
        self._subscriptions.setdefault(broker, {})[subscription.id] = subscription
        self._ask(now_us, broker, subscription.client, Subscribe(subscription))

    def _unsubscribe(self, now_us: int, argument: tuple[BrokerId, Subscription]) -> None:
        broker, subscription = argument
        del self._subscriptions[broker][subscription.id]
        self._ask(now_us, broker, subscription.client, Unsubscribe(subscription.id))

    def _ask(self, now_us: int, broker: BrokerId, client: ClientId, request: Message) -> None:
        at_us = now_us + self._latency_us[broker, client]
        self.queue.push(at_us, self.brokers[broker].receive, Requested(client, request))

    # --- faults -------------------------------------------------------------------------------

    def cut(self, at_us: int, left: BrokerId, right: BrokerId) -> None:
        """Break a link: what is in it is lost, both ends notice a little later."""
        self.queue.push(at_us, self._cut, (left, right))

    def heal(self, at_us: int, left: BrokerId, right: BrokerId) -> None:
        """Bring a link up again, a little later; a crashed end brings it up when it is back."""
        self.queue.push(at_us, self._heal, (left, right))

    def crash(self, at_us: int, broker: BrokerId) -> None:
        """Stop a broker: its tables, its queue and all that is under way to it are lost."""
        self.queue.push(at_us, self._crash, broker)

    def restart(self, at_us: int, broker: BrokerId) -> None:
        """Start a broker with empty tables; its links come up, its clients come back."""
        self.queue.push(at_us, self._restart, broker)

    def _reset(self, left: BrokerId, right: BrokerId) -> None:
        now_us = self.queue.now_us
        self._sever(now_us, (left, right))
        self._join(now_us + DETECTION_US, (left, right))

    def _cut(self, now_us: int, ends: Ends) -> None:
        self._cuts.add(_either_way(ends))
        self._sever(now_us, ends)

    def _heal(self, now_us: int, ends: Ends) -> None:
        self._cuts.discard(_either_way(ends))
        self._join(now_us, ends)

    def _sever(self, now_us: int, ends: Ends, *, is_told: bool = True) -> None:
        self._changes[_either_way(ends)] += 1
        for source, target in (ends, ends[::-1]):
            if self.brokers[source].links.pop(target, None) is not None:
                self._drop_arrivals(target, partial(_is_from, source))
                if is_told:
                    change = LinkChanged(target, False)
                    self.queue.push(now_us + DETECTION_US, self.brokers[source].bring, change)
                self._noticed_us[_either_way(ends)] = now_us + DETECTION_US

    def _join(self, now_us: int, ends: Ends) -> None:
        self._changes[_either_way(ends)] += 1
        argument = ends, self._changes[_either_way(ends)]
        self.queue.push(now_us + DETECTION_US, self._come_up, argument)

    def _open(self, source: BrokerId, target: BrokerId) -> None:
        """A broker asks for a link: a round trip later it is there, or later it is not."""
        now_us, ends = self.queue.now_us, (source, target)
        node = self.brokers.get(target)
        if node is None or not node.running or _either_way(ends) in self._cuts:
            self.queue.push(now_us + DETECTION_US, self._say_missing, ends)
            return
        there_us = self._underlay.latency_us(self._place(source), self._place(target))
        up_us = max(now_us + 2 * there_us, self._noticed_us.get(_either_way(ends), 0) + 1)
        self._changes[_either_way(ends)] += 1
        self.queue.push(up_us, self._come_up, (ends, self._changes[_either_way(ends)]))

    def _say_missing(self, now_us: int, ends: Ends) -> None:
        """Tell a broker that the link it asked for is not there, unless it has come meanwhile."""
        source, target = ends
        if target not in self.brokers[source].links:
            self.brokers[source].bring(now_us, LinkChanged(target, False))

    def _come_up(self, now_us: int, argument: tuple[Ends, int]) -> None:
        """Both ends learn of it in one moment, so that nothing sent before is in the link."""
        ends, change = argument
        left, right = (self.brokers[end] for end in ends)
        if change != self._changes[_either_way(ends)] or _either_way(ends) in self._cuts:
            return  # it went down again meanwhile, or comes up later
        if not (left.running and right.running) or right.id in left.links:
            return
        for source, target in (ends, ends[::-1]):
            self._connect(source, target)
        for source, target in (ends, ends[::-1]):
            self.brokers[source].bring(now_us, LinkChanged(target, True))

    def _crash(self, now_us: int, broker: BrokerId) -> None:
        for neighbour in list(self.brokers[broker].links):
            self._sever(now_us, (broker, neighbour), is_told=not self._is_patient)
        self._drop_arrivals(broker, lambda input: True)
        for publisher in self._publishers.values():
            self.queue.push(now_us + DETECTION_US, publisher.lost, broker)
        self.brokers[broker].stop()

    def _restart(self, now_us: int, broker: BrokerId) -> None:
        node = self.brokers[broker]
        if node.running:
            self._crash(now_us, broker)
        expected = tuple(self._neighbours[broker]) if self._is_patient else ()
        node.start(self._machine(broker, (), expected))
        node.bring(now_us, Started())
        for neighbour in self._neighbours[broker]:
            self._join(now_us, (broker, neighbour))
        self.queue.push(now_us + DETECTION_US, self._reconnect_clients, broker)

    def _reconnect_clients(self, now_us: int, broker: BrokerId) -> None:
        for subscription in self._subscriptions.get(broker, {}).values():
            self._ask(now_us, broker, subscription.client, Subscribe(subscription))
        for publisher in self._publishers.values():
            publisher.reconnected(now_us, broker)

    def _drop_arrivals(self, broker: BrokerId, doomed: Callable[[Any], bool]) -> None:
        receive = self.brokers[broker].receive
        self.queue.drop(lambda action, argument: action == receive and doomed(argument))

    # --- running ------------------------------------------------------------------------------

    def run(
        self, until_us: int | None = None, progress: Callable[[int], None] | None = None
    ) -> None:
        """Run until nothing is left to happen, or until `until_us`.

        `progress` is told the virtual time now and then.
        """
        heap = self.queue.heap
        end_us = math.inf if until_us is None else until_us
        with _without_garbage_collection():
            while heap and heap[0][0] <= end_us:
                if heap[0][0] >= self._next_report_us:
                    self._report(heap[0][0], progress)
                self.queue.run_until(min(end_us, self._next_report_us - 1))

    def _report(self, at_us: int, progress: Callable[[int], None] | None) -> None:
        """The monitors' reports of the last full interval before the event at `at_us`."""
        now_us = at_us - at_us % MONITOR_INTERVAL_US
        self._next_report_us = now_us + MONITOR_INTERVAL_US
        for node in self.brokers.values():
            node.report(now_us)
        if progress is not None:
            progress(now_us)

    def load_rows(self) -> Iterator[LoadRow]:
        """The load counters of all brokers, by broker and window; closes the last window."""
        for node in self.brokers.values():
            node.meter.roll(node.meter.window_end_us)
            yield from node.meter.rows


class _ClientLatencies(dict[tuple[BrokerId, ClientId], int]):
    """(broker, client) → one-way latency, asked of the underlay once."""

    def __init__(self, underlay: Underlay, places: Mapping[str, Place]) -> None:
        super().__init__()
        self._underlay = underlay
        self._places = places

    def __missing__(self, key: tuple[BrokerId, ClientId]) -> int:
        broker, client = key
        place = self._places.get(broker, broker)
        latency_us = self._underlay.latency_us(place, self._places[client])
        self[key] = latency_us
        return latency_us


def _either_way(ends: Ends) -> Ends:
    return min(ends, ends[::-1])


def _is_from(neighbour: BrokerId, input: object) -> bool:
    return isinstance(input, Received) and input.neighbour == neighbour


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """A run makes millions of objects and no cycles; the collector would walk them in vain."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
