"""Brokers and links of a world with flows: those of `World`, with their figures in `Flows`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shoal.broker.effects import Deliver, Effect, Hold, Input, Received, WatchDelays, WatchLoads
from shoal.model import BrokerId, ClientId
from shoal.simulation.event_queue import Action
from shoal.simulation.flows import places
from shoal.simulation.flows.flows import Flows
from shoal.simulation.flows.places import kept
from shoal.simulation.flows.queue import FlowQueue
from shoal.simulation.links.overlay_link import SimulatedLink
from shoal.simulation.nodes import BrokerNode
from shoal.simulation.service import Meter, ServiceCosts, ServiceMonitor
from shoal.simulation.sizes import MessageSizes
from shoal.simulation.subscribers import SimulatedSubscribers
from shoal.simulation.surroundings import Hearer, Machine, SimulatedNetwork
from shoal.simulation.trace import Trace


class FlowMeter(Meter):
    """A meter whose counts of publications the loop raises, too."""

    __slots__ = ("base", "figures")

    ones_in = kept(places.ONES_IN)
    searched_us = kept(places.SEARCHED_US)
    publications_out = kept(places.PUBLICATIONS_OUT)
    delivered = kept(places.DELIVERED)
    window_end_us = kept(places.WINDOW_END_US)

    def __init__(self, flows: Flows, broker: BrokerId, costs: ServiceCosts, window_us: int) -> None:
        self.figures = flows.broker_figures
        self.base = flows.brokers[broker] * places.BROKER_FIGURES
        super().__init__(broker, costs, window_us)


class FlowMonitor(ServiceMonitor):
    """A monitor whose waiting times the loop adds to, too."""

    __slots__ = ("base", "figures")

    input_queue_us = kept(places.INPUT_QUEUE_US)
    client_output_us = kept(places.CLIENT_OUTPUT_US)

    def __init__(self, meter: FlowMeter) -> None:
        self.figures, self.base = meter.figures, meter.base
        super().__init__(meter)


class FlowNode(BrokerNode):
    """A broker for which the loop handles publications between the inputs of its machine."""

    __slots__ = ("_flows", "base", "figures")

    _free_us = kept(places.FREE_US)
    _client_free_us = kept(places.CLIENT_FREE_US)

    def __init__(
        self,
        flows: Flows,
        machine: Machine,
        queue: FlowQueue,
        costs: ServiceCosts,
        trace: Trace,
        meter: FlowMeter,
        client_latency_us: Mapping[tuple[BrokerId, ClientId], int],
        publishers: Mapping[ClientId, Hearer],
        subscribers: SimulatedSubscribers,
        network: SimulatedNetwork,
        sizes: MessageSizes | None = None,
    ) -> None:
        self._flows = flows
        self.figures, self.base = meter.figures, meter.base
        figures, base = self.figures, self.base
        figures[base + places.ONE_US] = costs.processing_us + costs.matching_us
        figures[base + places.SEARCH_NS] = costs.matching_per_subscription_ns
        figures[base + places.CLIENT_TRANSMISSION_US] = costs.client_transmission_us
        super().__init__(
            machine,
            queue,
            costs,
            trace,
            meter,
            client_latency_us,
            publishers,
            subscribers,
            network,
            sizes=sizes,
        )

    def start(self, machine: Machine) -> None:
        super().start(machine)
        flows, handle, rows = self._flows, machine.handle, machine.strategy.searched
        figures, table_rows = self.figures, self.base + places.TABLE_ROWS

        def handle_after_notes(input: Input, now_us: int) -> list[Effect]:
            flows.make_notes()
            effects = handle(input, now_us)
            figures[table_rows] = len(rows)
            return effects

        self._handle = handle_after_notes

    def _deliver(self, effect: Deliver, now_us: int, *, is_decided: bool = False) -> None:
        client, flows = effect.client, self._flows
        end_us = max(self._client_free_us, now_us) + self._client_transmission_us
        self._client_free_us = end_us
        delivered_us = end_us + self._client_latency_us[self.id, client]
        self.meter.delivered += 1
        if self._monitor is not None:
            self._monitor.client_output_us += delivered_us - now_us
        row = flows.rows[effect.routed.publication.key]
        for name in effect.subscriptions:
            flows.deliver(row, flows.subscriptions[name], delivered_us, effect.hops)

    def _control(self, effect: Effect, now_us: int) -> None:
        if type(effect) is WatchDelays and self._monitor is None:
            super()._control(effect, now_us)
            assert isinstance(self.meter, FlowMeter)
            self._monitor = FlowMonitor(self.meter)
            self.figures[self.base + places.IS_MONITORED] = 1
            return
        if type(effect) in (Hold, WatchLoads):
            # The loop knows neither; it leaves all publications to the machine.
            self.figures[self.base + places.IS_SHUT] = 1
        super()._control(effect, now_us)


class FlowLink(SimulatedLink):
    """One direction of a link; a publication by itself is an event of the loop."""

    _free_us = kept(places.LINK_FREE_US)
    _waited_us = kept(places.WAITED_US)
    _sent = kept(places.SENT)

    def __init__(
        self,
        flows: Flows,
        number: int,
        queue: FlowQueue,
        arrive: Action,
        arrive_one: Action,
        latency_us: int,
        transmission_us: int,
    ) -> None:
        self._flows = flows
        self._number = number
        self.figures = flows.link_figures
        self.base = number * places.LINK_FIGURES
        super().__init__(queue, arrive, arrive_one, latency_us, transmission_us)

    def send_one(self, input: Received, ready_us: int) -> None:
        batch: Any = input.message
        row = self._flows.row_of(batch.publications[0])
        if row is None:
            super().send_one(input, ready_us)
            return
        start_us = self._free_us
        if start_us > ready_us:
            self._waited_us += start_us - ready_us
        else:
            start_us = ready_us
        self._sent += 1
        self._free_us = out_us = start_us + self._transmission_us
        queue = self._queue
        queue.made = made = queue.made + 1
        self._flows.push(out_us + self.latency_us, made, self._number, row, batch.hops)
