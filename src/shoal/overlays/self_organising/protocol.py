"""The strategy of brokers that choose their links: a tree, link exchanges, and decisions on them.

Notifications of local clients (or all that pass) go into the decisions' cache; decisions go to the
overlay, which exchanges links, or are only recommended. Publishers stay at their edge brokers, or
move by GRAPE.

Source: Cost and Interest, section 4.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from shoal.broker.effects import (
    Costs,
    Deliver,
    Effect,
    LinkState,
    MeasuredDelays,
    Send,
    Started,
    TimerKey,
)
from shoal.broker.messages import Carrier, Message, PublicationBatch, Publish, RoutedPublication
from shoal.broker.strategy import BrokerContext
from shoal.model import BrokerId, ClientId
from shoal.overlays.publisher_relocation.grape.protocol import Grape
from shoal.overlays.self_organising.deciding.trails import HERE
from shoal.overlays.self_organising.decisions import TIMER, Decisions
from shoal.overlays.self_organising.exchanges import LinkExchange
from shoal.overlays.self_organising.links.cycles import CycleRound, Cycles
from shoal.overlays.self_organising.links.overlay import TreeOverlay
from shoal.overlays.self_organising.messages import Broadcast, ExchangeProposal
from shoal.overlays.self_organising.moves.moving_publishers import MovingPublishers
from shoal.overlays.self_organising.parameters import (
    InterestMeasure,
    Mode,
    PublisherPolicy,
    SelfOrganisingParameters,
)
from shoal.overlays.self_organising.rules import ExchangeRules
from shoal.overlays.tree.around import AroundTree
from shoal.overlays.tree.routing import TreeRouting


class SelfOrganising(AroundTree):
    """One broker of such a tree: connects overlay, decisions and caches."""

    def __init__(self, context: BrokerContext, parameters: SelfOrganisingParameters) -> None:
        super().__init__(TreeRouting(context, covering=parameters.covering))
        self.broker = context.broker
        self._notes_all = parameters.interest is InterestMeasure.PASSING
        rules = ExchangeRules(parameters)
        heals = parameters.mode is Mode.EXCHANGE and not parameters.frozen
        self.routing = self._routing(context, parameters)
        self.overlay = TreeOverlay(
            context,
            self,
            self.tree,
            self.routing,
            may_link=(lambda other: not rules.against_link(context.broker, other))
            if heals
            else None,
        )
        self._cycles = Cycles(
            context.broker,
            self.overlay,
            lambda left, right: heals and not rules.against_removal(left, right),
        )
        self.decisions = Decisions(
            context.broker,
            self.tree.propagation.neighbours,
            parameters,
            rules,
            context.random,
            self.overlay if parameters.mode is Mode.EXCHANGE else None,
        )

    def _routing(
        self, context: BrokerContext, parameters: SelfOrganisingParameters
    ) -> TreeRouting | MovingPublishers:
        """The system that routes over the tree."""
        if parameters.publishers is PublisherPolicy.STAY:
            return self.tree
        return MovingPublishers(
            self.tree,
            lambda send_away: Grape(context, parameters.grape, send_away),
            lambda: self.overlay.exchanging,
        )

    @property
    def description(self) -> Mapping[str, int]:
        decisions = self.decisions
        return {
            **self.tree.description,
            "known_brokers": decisions.known,
            "remembered": decisions.remembered,
        }

    # --- the strategy's inputs ----------------------------------------------------------------

    def start(self, started: Started, now_us: int, out: list[Effect]) -> None:
        self.overlay.start(started, now_us, out)
        self.decisions.start(now_us, out)

    def receive(
        self, neighbour: BrokerId, message: Message, now_us: int, out: list[Effect]
    ) -> None:
        if type(message) is PublicationBatch:
            if self._notes_all:
                for routed in message.publications:
                    self.decisions.note(routed.publication.key)
            before = len(out)
            self.routing.receive(neighbour, message, now_us, out)
            self._note_deliveries(out, before)
            if self.decisions.counts:
                self._trace(message.publications, neighbour, now_us, out[before:])
            return
        match message:
            case Broadcast():
                self.tree.check_neighbour(neighbour)
                self.decisions.on_broadcast(neighbour, message, now_us, out)
                way = [hop.broker for hop in message.way]
                self.overlay.healing.on_broadcast(way)
                self._cycles.on_broadcast(way, out)
            case CycleRound():
                self.tree.check_neighbour(neighbour)
                self._cycles.receive(neighbour, message, now_us, out)
            case ExchangeProposal():
                self.tree.check_neighbour(neighbour)
                self.decisions.proposed(neighbour, message, now_us, out)
            case _:
                self.overlay.receive(neighbour, message, now_us, out)

    def departed(self, broker: BrokerId, now_us: int, out: list[Effect]) -> None:
        self.overlay.departed(broker, now_us, out)

    def request(self, client: ClientId, request: Message, now_us: int, out: list[Effect]) -> None:
        if type(request) is not Publish:
            self.routing.request(client, request, now_us, out)
            return
        accepted = self.tree.publishers.accept(client, request.publications, out)
        for routed in accepted:
            self.decisions.note(routed.publication.key)
            self.decisions.note_local(routed.publication.key)
        before = len(out)
        self.routing.publish(client, accepted, now_us, out)
        self._note_deliveries(out, before)
        if self.decisions.counts:
            self._trace(accepted, HERE, now_us, out[before:])

    def _note_deliveries(self, out: list[Effect], before: int) -> None:
        for effect in out[before:]:
            if type(effect) is Deliver:
                self.decisions.note(effect.routed.publication.key)
                self.decisions.note_local(effect.routed.publication.key)

    def _trace(
        self,
        publications: Iterable[RoutedPublication],
        came_from: BrokerId,
        now_us: int,
        effects: Iterable[Effect],
    ) -> None:
        """Note where these have come from, and where effects have them go."""
        sides = {routed.publication.key: {came_from} for routed in publications}
        for effect in effects:
            if type(effect) is Deliver:
                sides.setdefault(effect.routed.publication.key, {HERE}).add(HERE)
            elif type(effect) is Send and type(effect.message) is PublicationBatch:
                for routed in effect.message.publications:
                    sides.setdefault(routed.publication.key, set()).add(effect.neighbour)
        for key, found in sides.items():
            self.decisions.trace(key, frozenset(found), now_us)

    def timer(self, key: TimerKey, now_us: int, out: list[Effect]) -> None:
        if key == TIMER:
            self._cycles.turn()
            self.decisions.interval(now_us, out)
        else:
            self.overlay.timer(key, now_us, out)

    def link(self, neighbour: BrokerId, state: LinkState, now_us: int, out: list[Effect]) -> None:
        self.overlay.link(neighbour, state, now_us, out)
        self.decisions.linked(now_us)

    def returned(
        self, neighbour: BrokerId, carrier: Carrier, now_us: int, out: list[Effect]
    ) -> None:
        self.overlay.returned(neighbour, carrier, now_us, out)

    def measured(self, measured: MeasuredDelays) -> None:
        self.routing.measured(measured)

    def costs(self, costs: Costs, now_us: int, out: list[Effect]) -> None:
        self.decisions.costs(costs)

    # --- outcomes of exchanges ----------------------------------------------------------------

    def done(self, exchange: LinkExchange, now_us: int, out: list[Effect]) -> None:
        self.decisions.done(exchange, now_us, out)

    def refused(self, exchange: LinkExchange, reason: str, now_us: int, out: list[Effect]) -> None:
        self.decisions.refused(exchange, reason, now_us, out)
