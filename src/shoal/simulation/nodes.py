"""The brokers of a simulated world, with their queues and links.

These are drivers: they bring inputs to the pure machines, in order and at the right virtual time,
and carry their effects out. Most messages of brokers are one publication by itself: its way
(`BrokerNode.receive_one`, `SimulatedLink.send_one`) is the simulator's inner loop and written for
speed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from shoal.broker.effects import (
    Answered,
    CancelTimer,
    Deliver,
    DropLink,
    Effect,
    EndBroker,
    EndLink,
    Hold,
    Input,
    LeaveNetwork,
    Left,
    LinkLoad,
    Loads,
    MoveClient,
    Notify,
    OpenLink,
    Received,
    Record,
    Release,
    Remember,
    Requested,
    ResetLink,
    Send,
    SetTimer,
    StartBroker,
    Stays,
    TimerFired,
    TimerKey,
    WatchCosts,
    WatchDelays,
    WatchLoads,
)
from shoal.broker.holding import Holding
from shoal.broker.messages import Message, PublicationBatch, Rejected
from shoal.model import BrokerId, ClientId, SubscriptionId
from shoal.simulation.carried import publications_of
from shoal.simulation.clocks import ahead
from shoal.simulation.event_queue import EventQueue
from shoal.simulation.links.overlay_link import SimulatedLink
from shoal.simulation.links.reliable import ReliableBroker
from shoal.simulation.links.shared_outputs import SharedOutputs
from shoal.simulation.processes import follow_order
from shoal.simulation.service import Meter, ServiceCosts, ServiceMonitor
from shoal.simulation.sizes import MessageSizes
from shoal.simulation.subscribers import SimulatedSubscribers
from shoal.simulation.surroundings import Hearer, Machine, SimulatedNetwork
from shoal.simulation.trace import DeliveryEvent, RefusedEvent, Trace

NO_TRAFFIC = LinkLoad(0, 0, 0)
# Time until a neighbour, or a client, detects that a broker is gone or back.
DETECTION_US = 1_000_000


class BrokerNode:
    """A broker machine with its input queue, its links and its clients' output queue."""

    # Else it has too many attributes for Python to find them fast.
    __slots__ = (
        "_ahead_us",
        "_at_rest",
        "_brought",
        "_client_free_us",
        "_client_latency_us",
        "_client_transmission_us",
        "_conflated",
        "_costs",
        "_free_us",
        "_handle",
        "_holding",
        "_is_shut",
        "_matching_us",
        "_monitor",
        "_movers",
        "_network",
        "_one_us",
        "_outputs",
        "_processing_us",
        "_publication_bytes",
        "_publishers",
        "_queue",
        "_reported_us",
        "_search_ns",
        "_sizes",
        "_subscribers",
        "_subscriptions",
        "_timers",
        "_trace",
        "_watches_costs",
        "facts",
        "id",
        "links",
        "machine",
        "meter",
        "running",
        "window_us",
    )

    def __init__(
        self,
        machine: Machine,
        queue: EventQueue,
        costs: ServiceCosts,
        trace: Trace,
        meter: Meter,
        client_latency_us: Mapping[tuple[BrokerId, ClientId], int],
        publishers: Mapping[ClientId, Hearer],
        subscribers: SimulatedSubscribers,
        network: SimulatedNetwork,
        ahead_us: int = 0,
        sizes: MessageSizes | None = None,
    ) -> None:
        """Its clock is so far ahead of the world's; with `sizes`, bytes of control messages
        count.
        """
        self.id = machine.id
        self._ahead_us = ahead_us
        self.links: dict[BrokerId, SimulatedLink] = {}
        self.meter = meter
        self._queue = queue
        self._costs = costs
        self._outputs = SharedOutputs(queue) if costs.shared_outputs else None
        self._processing_us = costs.processing_us
        self._matching_us = costs.matching_us
        self._one_us = costs.processing_us + costs.matching_us
        self._search_ns = costs.matching_per_subscription_ns
        self._client_transmission_us = costs.client_transmission_us
        self._sizes = sizes
        self._publication_bytes = costs.publication_bytes
        self._trace = trace
        self._monitor: ServiceMonitor | None = None
        self._reported_us = 0
        self.window_us: int | None = None
        self._watches_costs = False
        # held input, if any, and the part that is being brought. Such a broker, and one that does
        # not run, is shut.
        self._holding: Holding[None] | None = None
        self._brought: Input | None = None
        self._client_latency_us = client_latency_us
        self._publishers = publishers
        self._subscribers = subscribers
        self._movers = subscribers.movers
        self._conflated = subscribers.conflation.clients
        self._network = network
        # durable facts of its machine, which survive a crash
        self.facts: Mapping[str, Any] = {}
        self._free_us = 0
        self._client_free_us = 0
        self._timers: dict[TimerKey, int] = {}
        self.start(machine)

    def start(self, machine: Machine) -> None:
        """Run this machine from now on (at first, and after a crash)."""
        self.running = True
        self._is_shut = False
        # The links at the last report, if it had no traffic.
        self._at_rest: dict[BrokerId, SimulatedLink] | None = None
        self._stir()
        self.machine = machine
        self._handle = ahead(machine.handle, self._ahead_us)
        self._subscriptions = machine.strategy.searched

    def stop(self) -> None:
        """Crash: take no more input, and forget the timers and held input."""
        self.running = False
        self._is_shut = True
        self._watches_costs = False
        self._holding = None
        self._timers.clear()

    # --- links --------------------------------------------------------------------------------

    def connect(self, neighbour: BrokerId, link: SimulatedLink) -> None:
        """There is a link to this neighbour from now on."""
        self.links[neighbour] = link
        self._stir()
        if self._outputs is not None:
            link.turn = self._outputs.turn()
        if self.window_us is not None:
            link.watch_loads(self._stir)

    def disconnect(self, neighbour: BrokerId) -> bool:
        """Drop the link and its unhandled messages; return whether there was one."""
        if self._holding is not None:
            self._holding.drop(neighbour)
        link = self.links.pop(neighbour, None)
        if link is not None:
            link.close()
            self._stir()
        return link is not None

    def owes(self, neighbour: BrokerId) -> bool:
        """Return whether there is something to be settled over a link with nothing on the way."""
        machine, holding = self.machine, self._holding
        if isinstance(machine, ReliableBroker) and machine.owes(neighbour):
            return True
        return holding is not None and holding.keeps_of(neighbour)

    def behind_us(self, now_us: int) -> int:
        """Return how long arrived messages, that have not left, keep it busy."""
        return max(0, self._free_us - now_us)

    # --- inputs -------------------------------------------------------------------------------

    def receive(self, now_us: int, input: Any) -> None:
        """A message or request arrives: wait for its turn, serve it, handle it."""
        if self._is_shut and not self._admits(input):
            return
        units = publications_of(input.message if type(input) is Received else input.request)
        start_us = self._free_us
        if start_us < now_us:
            start_us = now_us
        meter = self.meter
        if start_us >= meter.window_end_us:
            meter.roll(start_us)
        service_us = self._processing_us
        if units is None:
            meter.control_in += 1
            if self._publication_bytes:
                service_us = self._sized_us(input, service_us)
                meter.sized_in_us += service_us - self._processing_us
        else:
            meter.carriers_in += 1
            meter.carried_in += units
            service_us += units * self._matching_us
            if self._search_ns:
                searched_us = units * (self._search_ns * len(self._subscriptions) // 1_000)
                meter.searched_us += searched_us
                service_us += searched_us
            if start_us > now_us and self._monitor is not None:
                self._monitor.input_queue_us += start_us - now_us
        self._free_us = done_us = start_us + service_us
        self._carry_out(self._handle(input, done_us), done_us)

    def receive_one(self, now_us: int, input: Received) -> None:
        """As `receive`, of a neighbour's batch with one publication."""
        if self._is_shut and not self._admits(input):
            return
        start_us = self._free_us
        if start_us < now_us:
            start_us = now_us
        elif self._monitor is not None:
            self._monitor.input_queue_us += start_us - now_us
        meter = self.meter
        if start_us >= meter.window_end_us:
            meter.roll(start_us)
        meter.ones_in += 1
        done_us = start_us + self._one_us
        if self._search_ns:
            searched_us = self._search_ns * len(self._subscriptions) // 1_000
            meter.searched_us += searched_us
            done_us += searched_us
        self._free_us = done_us
        handle = self._handle  # local lookups are faster than attribute lookups
        self._carry_out(handle(input, done_us), done_us)

    def _sized_us(self, input: Received | Requested, publication_us: int) -> int:
        """Cost of a control message by its size; one without a size, as a client's request, costs
        as a publication.
        """
        size = 0
        if isinstance(input, Received) and self._sizes is not None:
            size = self._sizes(input.message)
        if not size:
            return publication_us
        return max(1, round(publication_us * (size / self._publication_bytes)))

    def _admits(self, input: Input) -> bool:
        """Return whether input is served now: a stopped or holding broker does not serve it."""
        if not self.running or self._holding is None:
            return self.running
        return input is self._brought or not self._holding.keep(input, None)

    def bring(self, now_us: int, input: Input) -> None:
        """An input that costs no service: a link's change, the monitor's report."""
        if not self.running:
            return
        now_us = max(now_us, self._free_us)
        if now_us >= self.meter.window_end_us:
            self.meter.roll(now_us)
        self._carry_out(self._handle(input, now_us), now_us)

    def _bring_held(self, now_us: int, _: None) -> None:
        """Bring held input that need not wait any longer."""
        while (holding := self._holding) is not None:
            released = holding.next()
            if released is not None:
                self._brought, _ = released
                self.receive(now_us, self._brought)
                continue
            if holding.is_over:
                self._holding = None
                self._is_shut = False
            return

    def _fire(self, now_us: int, argument: tuple[TimerKey, int]) -> None:
        key, number = argument
        if self._timers.get(key) == number:
            del self._timers[key]
            self.bring(now_us, TimerFired(key))

    def report(self, now_us: int) -> None:
        """Tell the machine its recent delays, if it watches them, as a monitor beside it would."""
        if self._monitor is not None:
            output_us = {name: link.measure_us() for name, link in self.links.items()}
            passed_us, self._reported_us = now_us - self._reported_us, now_us
            self.bring(now_us, self._monitor.report(output_us, passed_us))

    def _stir(self) -> None:
        """There may be something to report about its links."""
        self._network.load_windows.stir(self)

    @property
    def _knows_of_rest(self) -> bool:
        """Whether its machine knows its links, and that they have no traffic."""
        links = self.links
        return links == self._at_rest and not any(each.has_traffic for each in links.values())

    @property
    def may_sleep(self) -> bool:
        """Whether there is nothing to report until it stirs; shared outputs do not stir it."""
        return self._outputs is None and self._knows_of_rest

    def report_loads(self, now_us: int) -> None:
        """Report to the machine its links' traffic in the window that ends now.

        Of windows without any traffic one is reported, until there is traffic or another link.
        """
        if self._knows_of_rest:
            return
        loads = {name: link.load(now_us) for name, link in self.links.items()}
        is_at_rest = all(load == NO_TRAFFIC for load in loads.values())
        self._at_rest = dict(self.links) if is_at_rest else None
        self.bring(now_us, Loads(loads))

    def report_costs(self, now_us: int, _: None = None) -> None:
        """Report to the machine the costs of messages, if it watches them."""
        if self._watches_costs:
            self.bring(now_us, self._network.message_costs(self.id))

    # --- effects ------------------------------------------------------------------------------

    def _carry_out(self, effects: list[Effect], now_us: int) -> None:
        for effect in effects:
            if type(effect) is Send:
                message: Any = effect.message
                link = self.links.get(effect.neighbour)
                if (
                    type(message) is PublicationBatch
                    and len(message.publications) == 1
                    and link is not None
                ):
                    self.meter.publications_out += 1
                    link.send_one(Received(self.id, message), now_us)
                else:
                    self._send_over(link, message, now_us)
            elif type(effect) is Deliver:
                if effect.client in self._conflated and effect.client not in self._movers:
                    self._conflate(effect, now_us)
                else:
                    self._deliver(effect, now_us)
            else:
                self._control(effect, now_us)

    def _conflate(self, effect: Deliver, now_us: int) -> None:
        """Deliver for those subscriptions of the client that let the publication pass; others may
        follow later, when the client may be elsewhere."""

        def hand_out(names: tuple[SubscriptionId, ...], at_us: int) -> None:
            passed = msgspec.structs.replace(effect, subscriptions=names)
            self._deliver(passed, at_us, is_decided=True)

        self._subscribers.conflation.take(
            effect.routed.publication, effect.subscriptions, now_us, hand_out
        )

    def _deliver(self, effect: Deliver, now_us: int, *, is_decided: bool = False) -> None:
        """Deliver a publication; `is_decided` if the client's conflation has let it pass."""
        client = effect.client
        start_us = self._client_free_us
        if start_us < now_us:
            start_us = now_us
        self._client_free_us = end_us = start_us + self._client_transmission_us
        delivered_us = end_us + self._client_latency_us[self.id, client]
        self.meter.delivered += 1
        if self._monitor is not None:
            self._monitor.client_output_us += delivered_us - now_us
        if client in self._movers and not is_decided:
            self._queue.push(delivered_us, self._subscribers.delivered, (self.id, effect))
            return
        self._trace.deliveries.append(
            DeliveryEvent(
                effect.routed.publication,
                effect.subscriptions,
                client,
                self.id,
                delivered_us,
                effect.hops,
            )
        )

    def _send_over(self, link: SimulatedLink | None, message: Message, now_us: int) -> None:
        units = publications_of(message)
        busy_us: int | None = None
        input = Received(self.id, message)
        if units is None:
            units = 1
            self.meter.count_control(message, self._sizes(message) if self._sizes else 0)
            if self._publication_bytes and link is not None:
                transmission_us = self._costs.transmission_us
                busy_us = self._sized_us(input, transmission_us)
                self.meter.sized_out_us += busy_us - transmission_us
        else:
            self.meter.publications_out += units
        if link is not None and busy_us is not None:
            link.send(input, units, now_us, busy_us)
        elif link is not None:
            link.send(input, units, now_us)
        else:  # a broker may still send while it learns that a link is down
            self.meter.unsent += units

    def _control(self, effect: Effect, now_us: int) -> None:
        match effect:
            case Notify(client, message):
                self.meter.notified += 1
                self._notify(client, message, now_us)
            case SetTimer(key, at_us, work):
                self._timers[key] = number = self._queue.made + 1
                due_us = max(at_us, now_us)
                if work is not None:
                    due_us += self._costs.work_us(work)
                    self.meter.roll(now_us)
                    self.meter.worked_us += due_us - now_us
                self._queue.push(due_us, self._fire, (key, number))
            case CancelTimer(key):
                self._timers.pop(key, None)
            case Record(record):
                self._trace.records.append(record)
            case OpenLink(neighbour, is_lasting=is_lasting):
                self._network.open_link(self.id, neighbour, is_lasting=is_lasting)
            case EndLink(neighbour) | DropLink(neighbour):
                self._network.end_link(self.id, neighbour)
            case ResetLink(neighbour):
                self._network.reset_link(self.id, neighbour)
            case Hold(but):
                self._holding = self._holding or Holding()
                self._holding.hold(but)
                self._is_shut = True
                self._queue.push(self._queue.now_us, self._bring_held, None)
            case Release() if self._holding is not None:
                self._holding.release()
                self._queue.push(self._queue.now_us, self._bring_held, None)
            case WatchDelays():
                if self._monitor is None:
                    self._monitor = ServiceMonitor(self.meter)
                    self._reported_us = now_us
                    for link in self.links.values():
                        link.measure_us()  # from now on
            case WatchLoads(window_us):
                self.window_us = window_us
                self._network.load_windows.watch(window_us)
                self._stir()
                for link in self.links.values():
                    link.watch_loads(self._stir)
            case WatchCosts():
                self._watches_costs = True
                self._queue.push(self._queue.now_us, self.report_costs, None)
            case StartBroker() | EndBroker() | LeaveNetwork():
                if answer := follow_order(effect, self.id, self._network, now_us):
                    self._queue.push(self._queue.now_us, self.bring, answer)
            case MoveClient(client, broker):
                self._network.move_client(client, broker)
            case Left():
                self._network.left(self.id)
            case Remember(facts):
                self.facts = facts
            case Stays(reason) | Answered(reason) if reason:
                self._trace.refused.append(RefusedEvent(self.id, reason, now_us))

    def _notify(self, client: ClientId, message: Message, now_us: int) -> None:
        at_us = now_us + self._client_latency_us[self.id, client]
        if isinstance(message, Rejected):
            self._trace.refused.append(RefusedEvent(client, message.reason, at_us))
        publisher = self._publishers.get(client)
        if publisher is not None:
            self._queue.push(at_us, publisher.notified, (self.id, message))
        elif client in self._subscribers:
            self._queue.push(at_us, self._subscribers.notified, (client, self.id, message))
