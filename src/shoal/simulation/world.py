"""A simulated network: brokers, links, publishers and subscribers in virtual time.

The brokers and the publishers' side of relocation are the very machines that run live; the world
only carries their effects out: it queues, it delays, it counts.  Time is virtual, in integer
microseconds; with one seed two runs are equal to the byte.

A broker's queue is known when a message arrives, so arrival, service and departure are one event
instead of three: the message is handled at once, under the time at which its turn comes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain

from shoal.broker.effects import Costs, Dead, Requested, Started
from shoal.broker.machine import Broker
from shoal.broker.messages import Advertise, Message, Unadvertise
from shoal.broker.strategy import StrategyFactory
from shoal.clients.publisher import Publisher
from shoal.matching import Classes, OutcomesFactory
from shoal.model import Advertisement, BrokerId, ClientId, Subscription
from shoal.overlays.trace_rows import ControlRow, LoadRow
from shoal.simulation.carried import publications_in
from shoal.simulation.collection import without_garbage_collection
from shoal.simulation.conflation import SimulatedConflation
from shoal.simulation.event_queue import EventQueue
from shoal.simulation.faults import LinkFaults
from shoal.simulation.leaves import Leaves
from shoal.simulation.limited_link import Bandwidths
from shoal.simulation.link_factory import LinkFactory
from shoal.simulation.links.overlay_link import SimulatedLink
from shoal.simulation.links.reliable import ReliableBroker
from shoal.simulation.links.underlay import ClientLatencies, Underlay
from shoal.simulation.load_windows import LoadWindows
from shoal.simulation.nodes import DETECTION_US, BrokerNode
from shoal.simulation.publishers import PublisherNode
from shoal.simulation.refuge import Refuge
from shoal.simulation.service import Meter, ServiceCosts
from shoal.simulation.sizes import MessageSizes
from shoal.simulation.subscribers import SimulatedSubscribers
from shoal.simulation.surroundings import Machine
from shoal.simulation.trace import Trace
from shoal.simulation.wiring import Ends, Wiring

# Interval at which the monitor beside each broker reports its delays.
MONITOR_INTERVAL_US = 1_000_000

Place = str


class World:
    """One network and its clients.

    links         the overlay's links, each once
    system        builds each broker's system (see `shoal.overlays.registry`)
    underlay      latencies between places
    places        each broker's place; a broker not named stands at a place of its own name
    costs         costs of work in a broker
    own_costs     of single brokers, in the place of `costs`
    link_faults   makes links lossy, and brokers run behind reliable links
    own_faults    of single links, by their two ends, in the place of `link_faults`
    is_patient    neighbours of a crashed broker learn of it when it is back, and a restarted broker
                  waits for its neighbours' tables: as on the live network
    clocks_us     offsets of brokers' clocks from the world's; 0 for those not named
    message_costs costs of messages that brokers are told, broker by broker
    seed          all randomness comes from it
    window_us     width of the load counters' windows
    sizes         bytes of messages; without, those of control messages are not counted, and each
                  costs as much as a publication
    bandwidths    of the overlay links; they need `sizes`
    takes_clients whether clients of a leaving broker may go to a broker
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
        own_costs: Mapping[BrokerId, ServiceCosts] | None = None,
        link_faults: LinkFaults | None = None,
        own_faults: Mapping[frozenset[BrokerId], LinkFaults] | None = None,
        is_patient: bool = False,
        clocks_us: Mapping[BrokerId, int] | None = None,
        message_costs: Mapping[BrokerId, Costs] | None = None,
        seed: int = 0,
        window_us: int = 1_000_000,
        sizes: MessageSizes | None = None,
        bandwidths: Bandwidths | None = None,
        takes_clients: Callable[[BrokerId], bool] = lambda broker: True,
    ) -> None:
        self.queue = self._make_queue()
        self.trace = Trace()
        self._system = system
        self._classes = Classes()
        self._underlay = underlay
        self._costs = costs or ServiceCosts()
        self._own_costs = own_costs or {}
        self._is_patient = is_patient
        self._clocks_us = clocks_us or {}
        self._seed = seed
        self._places: dict[str, Place] = dict(places or {})
        self._latency_us = ClientLatencies(underlay, self._places)
        self._publishers: dict[ClientId, PublisherNode] = {}
        self.brokers: dict[BrokerId, BrokerNode] = {}
        self.departures: dict[BrokerId, int] = {}
        # Clients whose requests came when their broker had left.
        self.too_late: list[tuple[ClientId, BrokerId]] = []
        self._joined: set[BrokerId] = set()
        self._meters: list[Meter] = []
        self._message_costs = message_costs
        self._window_us = window_us
        self._sizes = sizes
        factory = LinkFactory(
            self.queue,
            self.brokers,
            self._broker_latency_us,
            self._costs_of,
            faults=link_faults,
            own_faults=own_faults,
            bandwidths=bandwidths,
            sizes=sizes,
            seed=seed,
        )
        self._is_lossy = factory.is_lossy
        make = self._link_maker(factory)
        self._wiring = Wiring(self.queue, self.brokers, make, self._broker_latency_us)
        self.conflation = SimulatedConflation(self.queue)
        self.load_windows = LoadWindows()
        self._subscribers = SimulatedSubscribers(
            self.queue, self.trace, self._deliver_request, self.conflation
        )
        self._refuge = Refuge(
            self.queue,
            self._publishers,
            self._subscribers,
            self.brokers,
            self._wiring.neighbours,
            self._deliver_request,
            self._latency_us,
            takes_clients,
        )
        self._leaves = Leaves(
            self.queue, self.brokers, self._wiring.neighbours, self._refuge, self.trace
        )
        given = list(links)
        for ends in given:
            self._wiring.make_lasting(ends)
        for broker in dict.fromkeys([*brokers, *chain.from_iterable(given)]):
            machine = self._machine(broker, self._wiring.neighbours(broker))
            self.brokers[broker] = self._node(broker, machine)
        for ends in given:
            self._wiring.connect(ends)
        self._next_report_us = MONITOR_INTERVAL_US
        for node in self.brokers.values():
            node.bring(0, Started())

    def _make_queue(self) -> EventQueue:
        return EventQueue()

    def _link_maker(self, factory: LinkFactory) -> Callable[[BrokerId, BrokerId], SimulatedLink]:
        return factory.make

    def _outcomes(self, broker: BrokerId) -> OutcomesFactory:
        return self._classes.outcomes

    def _node(self, broker: BrokerId, machine: Machine) -> BrokerNode:
        costs = self._costs_of(broker)
        return BrokerNode(
            machine,
            self.queue,
            costs,
            self.trace,
            Meter(broker, costs, self._window_us),
            self._latency_us,
            self._publishers,
            self._subscribers,
            self,
            self._clocks_us.get(broker, 0),
            self._sizes,
        )

    def _machine(
        self,
        broker: BrokerId,
        neighbours: tuple[BrokerId, ...],
        expected: tuple[BrokerId, ...] = (),
    ) -> Machine:
        machine = Broker(
            broker,
            neighbours,
            self._system,
            self._seed,
            expected,
            self._outcomes(broker),
            is_founder=broker not in self._joined,
        )
        return ReliableBroker(machine) if self._is_lossy else machine

    def _costs_of(self, broker: BrokerId) -> ServiceCosts:
        return self._own_costs.get(broker, self._costs)

    def _broker_latency_us(self, source: BrokerId, target: BrokerId) -> int:
        place = self._places.get
        return self._underlay.latency_us(place(source, source), place(target, target))

    # --- requests of brokers ------------------------------------------------------------------

    def open_link(self, source: BrokerId, target: BrokerId, *, is_lasting: bool = False) -> None:
        self._wiring.open(source, target, is_lasting=is_lasting)

    def reset_link(self, source: BrokerId, target: BrokerId) -> None:
        self._wiring.reset(source, target)

    def end_link(self, source: BrokerId, target: BrokerId) -> None:
        self._wiring.end(source, target)

    def message_costs(self, broker: BrokerId) -> Costs:
        """As the table says; without one processing and the way to every broker, in µs."""
        if self._message_costs is not None:
            return self._message_costs[broker]
        others = [name for name in self.brokers if name != broker]
        ways = {name: float(self._broker_latency_us(broker, name)) for name in others}
        return Costs(float(self._costs_of(broker).processing_us), ways)

    def change_costs(self, at_us: int, table: Mapping[BrokerId, Costs]) -> None:
        """From then on messages cost this, and brokers that watch it hear so."""
        self.queue.push(at_us, self._change_costs, table)

    def _change_costs(self, now_us: int, table: Mapping[BrokerId, Costs]) -> None:
        self._message_costs = table
        for node in self.brokers.values():
            node.report_costs(now_us)

    # --- brokers that join and leave ----------------------------------------------------------

    @property
    def links(self) -> list[Ends]:
        """The overlay as it is now: its lasting links, each once."""
        return self._wiring.lasting

    def add_broker(
        self, at_us: int, broker: BrokerId, links: Iterable[BrokerId], place: Place | None = None
    ) -> None:
        """Start a new broker, which knows these brokers and opens lasting links to them."""
        if place is not None:
            self._places[broker] = place
        self.queue.push(at_us, self._add_broker, (broker, tuple(links)))

    def _add_broker(self, now_us: int, argument: tuple[BrokerId, tuple[BrokerId, ...]]) -> None:
        broker, links = argument
        self._joined.add(broker)
        self.departures.pop(broker, None)
        self.brokers[broker] = node = self._node(broker, self._machine(broker, (), links))
        node.bring(now_us, Started())
        for link in links:
            self._wiring.open(broker, link, is_lasting=True)

    def start_broker(self, at_us: int, broker: BrokerId) -> None:
        """Start a broker without links, unless it runs."""
        if broker not in self.brokers:
            self.add_broker(at_us, broker, ())

    def remove_broker(self, at_us: int, broker: BrokerId) -> None:
        """Send a broker's clients elsewhere, and ask it to leave; see `departures`."""
        self.queue.push(at_us, self._leaves.begin, broker)

    def drain_broker(self, at_us: int, broker: BrokerId) -> None:
        """As `remove_broker`, but its clients lose nothing: it leaves when all have moved."""
        self.queue.push(at_us, self._refuge.drain, (broker, self._leaves.begin))

    def declare_dead(self, at_us: int, dead: BrokerId, broker: BrokerId) -> None:
        """An operator declares a broker dead at this neighbour, or, if links have changed since, at
        another one.
        """
        self.queue.push(at_us, self._declare_dead, (dead, broker))

    def _declare_dead(self, now_us: int, argument: tuple[BrokerId, BrokerId]) -> None:
        dead, broker = argument
        neighbours = sorted(self._wiring.neighbours(dead))
        if neighbours:
            decider = broker if broker in neighbours else neighbours[0]
            others = tuple(each for each in neighbours if each != decider)
            self.brokers[decider].bring(now_us, Dead(dead, others))

    def keep_broker(self, at_us: int, broker: BrokerId) -> None:
        """Cancel a leave; clients may come again. A refusal is in the trace."""
        self.queue.push(at_us, self._leaves.cancel, broker)

    def left(self, broker: BrokerId) -> None:
        self.queue.push(self.queue.now_us, self._left, broker)

    def _left(self, now_us: int, broker: BrokerId) -> None:
        if broker in self.departures or broker not in self.brokers:
            return
        linked = list(self.brokers[broker].links)
        self._stop(now_us, broker, is_told=True)
        self._wiring.forget(broker, linked)
        self._meters.append(self.brokers.pop(broker).meter)
        self.departures[broker] = now_us

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
        """The publisher's broker (the source, while it moves)."""
        return self._publishers[client].machine.broker

    @property
    def refuges(self) -> Mapping[BrokerId, BrokerId]:
        """The refuges of leaving brokers' clients."""
        return self._refuge.chosen

    @property
    def former_refuges(self) -> Mapping[BrokerId, BrokerId]:
        """Return the refuges of brokers that cancelled their leaves."""
        return self._refuge.former

    def broker_for(self, broker: BrokerId) -> BrokerId:
        """Return the broker of this broker's subscribers: itself, unless it leaves."""
        return self._refuge.refuge_for(broker)

    def request(self, at_us: int, publisher: ClientId, request: Message) -> None:
        """The publisher's application asks: Advertise, Unadvertise or Publish."""
        self.queue.push(at_us, self._publishers[publisher].request, request)

    def advertise(self, at_us: int, advertisement: Advertisement) -> None:
        self.request(at_us, advertisement.publisher, Advertise(advertisement))

    def unadvertise(self, at_us: int, advertisement: Advertisement) -> None:
        self.request(at_us, advertisement.publisher, Unadvertise(advertisement.id))

    def leave(self, at_us: int, publisher: ClientId) -> None:
        """The publisher's client leaves for good, and with it all that it holds back."""
        self.queue.push(at_us, self._end_publisher, publisher)

    def _end_publisher(self, now_us: int, publisher: ClientId) -> None:
        node = self._publishers[publisher]
        self.queue.drop(lambda action, argument: action == node.request)
        node.leave(now_us)

    def subscribe(self, at_us: int, broker: BrokerId, subscription: Subscription) -> None:
        self.queue.push(at_us, self._refuge.subscribe, (broker, subscription))

    def unsubscribe(self, at_us: int, broker: BrokerId, subscription: Subscription) -> None:
        """Take a subscription back, wherever it is by then."""
        self.queue.push(at_us, self._subscribers.unsubscribe, subscription)

    @property
    def subscriptions(self) -> list[tuple[Subscription, BrokerId]]:
        """Those there are, as brokers know them: one that has moved has another name."""
        return list(self._subscribers)

    def move(
        self, at_us: int, client: ClientId, broker: BrokerId, place: Place | None = None
    ) -> None:
        """Send a client to another broker, and to a place, with its requests so far.

        It stays if that broker does not run, or leaves. A subscriber misses nothing; a publisher
        holds its publications back.
        """
        self.queue.push(at_us, self._refuge.move, (client, broker, place))

    def move_client(self, client: ClientId, broker: BrokerId) -> None:
        """As `move`, now: a broker wants it."""
        self.move(self.queue.now_us, client, broker)

    def _deliver_request(
        self, now_us: int, broker: BrokerId, client: ClientId, request: Message
    ) -> None:
        if broker in self.departures:
            self.too_late.append((client, broker))
            return
        at_us = now_us + self._latency_us[broker, client]
        self.queue.push(at_us, self.brokers[broker].receive, Requested(client, request))

    @property
    def behind_us(self) -> int:
        """Return how long arrived messages keep the busiest broker busy."""
        now_us = self.queue.now_us
        return max((node.behind_us(now_us) for node in self.brokers.values()), default=0)

    @property
    def under_way(self) -> int:
        """Copies of publications that have not come to the next broker, or not been handled."""
        links = (link for node in self.brokers.values() for link in node.links.values())
        waiting = chain.from_iterable(link.waiting for link in links)
        return sum(map(publications_in, chain(self.queue, waiting)))

    # --- faults -------------------------------------------------------------------------------

    def cut(self, at_us: int, left: BrokerId, right: BrokerId) -> None:
        """Break a link: messages in it are lost, both ends detect it a little later."""
        self.queue.push(at_us, self._wiring.cut, (left, right))

    def heal(self, at_us: int, left: BrokerId, right: BrokerId) -> None:
        """Bring a link up again, a little later; a crashed end brings it up when it is back."""
        self.queue.push(at_us, self._wiring.heal, (left, right))

    def crash(self, at_us: int, broker: BrokerId) -> None:
        """Stop a broker: its tables, its queue and all that is under way to it are lost."""
        self.queue.push(at_us, self._crash, broker)

    def restart(self, at_us: int, broker: BrokerId) -> None:
        """Start a broker with empty tables; its links come up, its clients come back."""
        self.queue.push(at_us, self._restart, broker)

    def _crash(self, now_us: int, broker: BrokerId) -> None:
        if broker in self.brokers:
            self._stop(now_us, broker, is_told=not self._is_patient)

    def _stop(self, now_us: int, broker: BrokerId, *, is_told: bool) -> None:
        self._wiring.crash(broker, is_told=is_told)
        for publisher in self._publishers.values():
            self.queue.push(now_us + DETECTION_US, publisher.lost, broker)
        self.queue.push(now_us + DETECTION_US, self._subscribers.lost, broker)
        self.brokers[broker].stop()

    def _restart(self, now_us: int, broker: BrokerId) -> None:
        node = self.brokers.get(broker)
        if node is None:
            return
        if node.running:
            self._crash(now_us, broker)
        expected = self._wiring.neighbours(broker) if self._is_patient else ()
        node.start(self._machine(broker, (), expected))
        node.bring(now_us, Started(facts=node.facts))
        self._wiring.restart(now_us, broker, is_told=not self._is_patient)
        self.queue.push(now_us + DETECTION_US, self._reconnect_clients, broker)

    def _reconnect_clients(self, now_us: int, broker: BrokerId) -> None:
        self._subscribers.reconnected(now_us, broker)
        for publisher in self._publishers.values():
            publisher.reconnected(now_us, broker)

    # --- running ------------------------------------------------------------------------------

    def run(
        self, until_us: int | None = None, progress: Callable[[int], None] | None = None
    ) -> None:
        """Run to rest, or until then; `progress` is told the virtual time now and then."""
        end_us = math.inf if until_us is None else until_us
        with without_garbage_collection():
            while (at_us := self.queue.next_us) is not None and at_us <= end_us:
                self._report(at_us, progress)
                next_us = min(self._next_report_us, self.load_windows.next_us, end_us + 1)
                self.queue.run_until(next_us - 1)

    @property
    def next_report_us(self) -> float:
        """Return when the next reports are due; they precede the first event from then on."""
        return min(self._next_report_us, self.load_windows.next_us)

    def report_before(self, at_us: int) -> None:
        """Run the reports that are due before an event at `at_us`, by a driver of its own."""
        self._report(at_us, None)

    def _report(self, at_us: int, progress: Callable[[int], None] | None) -> None:
        """Run the monitors' reports that end before the event at `at_us`, in order."""
        reports = self.load_windows.reports(at_us)
        now_us = at_us - at_us % MONITOR_INTERVAL_US
        if at_us >= self._next_report_us:
            self._next_report_us = now_us + MONITOR_INTERVAL_US
            reports += [(now_us, node.report) for node in self.brokers.values()]
            if progress is not None:
                reports.append((now_us, progress))
        for ended_us, report in sorted(reports, key=lambda entry: entry[0]):
            report(ended_us)

    @property
    def meters(self) -> list[Meter]:
        """The counters of all brokers, also of those that have left."""
        return [*self._meters, *(node.meter for node in self.brokers.values())]

    def load_rows(self) -> Iterator[LoadRow]:
        """The load counters of all brokers, by broker and window; closes the last window."""
        for meter in self._closed_meters():
            yield from meter.rows

    def control_rows(self) -> Iterator[ControlRow]:
        """Control messages by broker, window and type."""
        for meter in self._closed_meters():
            yield from meter.control_rows

    def _closed_meters(self) -> Iterator[Meter]:
        for meter in self.meters:
            meter.roll(meter.window_end_us)
            yield meter
