"""A simulated tree of brokers in which publications go from broker to broker by a compiled loop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from shoal.broker.effects import Received
from shoal.broker.strategy import StrategyFactory
from shoal.matching import OutcomesFactory
from shoal.model import BrokerId, ClientId, SubscriptionId
from shoal.simulation.flows.flows import Flows, GivenBack
from shoal.simulation.flows.matches import Matches
from shoal.simulation.flows.nodes import FlowLink, FlowMeter, FlowNode
from shoal.simulation.flows.queue import FlowQueue
from shoal.simulation.flows.tables import FlowOutcomes
from shoal.simulation.link_factory import LinkFactory
from shoal.simulation.links.overlay_link import SimulatedLink
from shoal.simulation.links.underlay import Underlay
from shoal.simulation.nodes import BrokerNode
from shoal.simulation.service import ServiceCosts
from shoal.simulation.surroundings import Machine
from shoal.simulation.world import World


class FlowWorld(World):
    """A network without faults; `flows` has its deliveries, and its trace has none.

    matches        of all publications that will come
    keys           their publishers and sequences, by number
    subscribers    each subscription's broker, and the place of its client
    """

    def __init__(
        self,
        links: Iterable[tuple[BrokerId, BrokerId]],
        system: StrategyFactory,
        underlay: Underlay,
        *,
        brokers: Sequence[BrokerId],
        matches: Matches,
        keys: Sequence[tuple[ClientId, int]],
        subscribers: Mapping[SubscriptionId, tuple[BrokerId, str]],
        costs: ServiceCosts,
        own_costs: Mapping[BrokerId, ServiceCosts] | None = None,
        **options: Any,
    ) -> None:
        if costs.shared_outputs:
            raise ValueError("outputs of a world with flows are not shared")
        given = list(links)
        neighbours = Counter(end for ends in given for end in ends)
        self.flows = Flows(
            brokers,
            2 * len(given),
            max(neighbours.values(), default=1),
            matches,
            keys,
            {
                name: underlay.latency_us(broker, place)
                for name, (broker, place) in subscribers.items()
            },
        )
        super().__init__(
            given,
            system,
            underlay,
            brokers=brokers,
            costs=costs,
            own_costs=own_costs,
            **options,
        )
        strategies: dict[BrokerId, Any] = {
            name: node.machine.strategy for name, node in self.brokers.items()
        }
        notes = {name: each.forwarding.note for name, each in strategies.items()}
        tracing = (each for name, each in strategies.items() if notes[name] is not None)
        self.flows.trace_by(notes, is_late=all(each.only_notes for each in tracing))

    def _make_queue(self) -> FlowQueue:
        return FlowQueue(self.flows, self._arrive)

    def move(
        self, at_us: int, client: ClientId, broker: BrokerId, place: str | None = None
    ) -> None:
        """ValueError: only publishers move, by their system."""
        raise ValueError(f"{client} cannot move in a world with flows")

    def _arrive(self, given_back: GivenBack) -> None:
        source, target = self.flows.ends(given_back.link)
        received = Received(source, given_back.batch)
        self.brokers[target].receive_one(given_back.at_us, received)

    def _outcomes(self, broker: BrokerId) -> OutcomesFactory:
        flows = self.flows

        def outcomes(make: Any, size_of: Any) -> Any:
            return FlowOutcomes(make, size_of, flows, flows.brokers[broker])

        return outcomes

    def _node(self, broker: BrokerId, machine: Machine) -> BrokerNode:
        costs = self._costs_of(broker)
        assert isinstance(self.queue, FlowQueue)
        return FlowNode(
            self.flows,
            machine,
            self.queue,
            costs,
            self.trace,
            FlowMeter(self.flows, broker, costs, self._window_us),
            self._latency_us,
            self._publishers,
            self._subscribers,
            self,
            sizes=self._sizes,
        )

    def _link_maker(self, factory: LinkFactory) -> Callable[[BrokerId, BrokerId], SimulatedLink]:
        return self._make_link

    def _make_link(self, source: BrokerId, target: BrokerId) -> SimulatedLink:
        latency_us = self._broker_latency_us(source, target)
        node, transmission_us = self.brokers[target], self._costs_of(source).transmission_us
        number = self.flows.add_link(source, target, latency_us, transmission_us)
        assert isinstance(self.queue, FlowQueue)
        return FlowLink(
            self.flows,
            number,
            self.queue,
            node.receive,
            node.receive_one,
            latency_us,
            transmission_us,
        )
