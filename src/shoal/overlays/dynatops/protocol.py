"""DYNATOPS at one broker: topic trees on a structured overlay.

    publisher -> entry -> ... -> root of the topic -> ... -> homes -> subscribers

Brokers agree on a view, the positions of brokers in a structure (`members/`), and open the links of
its tables. A topic's root knows the homes' filters (`topics/interests.py`) and names the homes of a
publication (`topics/routing.py`). The entry keeps it until all have it (`topics/outbox.py`). Bayeux
and GeoPS are the same over other structures.

Beyond the paper: conditions on the content, filters for any topic, order per publisher, and no
loss, duplicate or reordering when brokers join, leave or die: publications in transit in one view
are retransmitted in the next.

Source: Zhao, Kim and Venkatasubramanian, DYNATOPS, section 3.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from typing import Any

from shoal.broker.effects import Effect, TimerKey
from shoal.broker.routing_decision import RoutingDecision, RoutingQuery
from shoal.broker.strategy import BrokerContext, unexpected
from shoal.model import BrokerId, ClientId
from shoal.overlays.dynatops.clients import TopicClients
from shoal.overlays.dynatops.in_views import InViews
from shoal.overlays.dynatops.messages import (
    Between,
    CountsReported,
    EntryBound,
    HomeTurn,
    OfView,
    ToHomes,
    TopicCount,
    TopicSummary,
    ToRoot,
)
from shoal.overlays.dynatops.parameters import DynatopsParameters, Managed, TopicOrder
from shoal.overlays.dynatops.reconfiguration.counting import Counting
from shoal.overlays.dynatops.reconfiguration.manager import Manager
from shoal.overlays.dynatops.reconfiguration.orders import Orders
from shoal.overlays.dynatops.reconfiguration.pairs import BrokerPairs
from shoal.overlays.dynatops.topics.interests import Interests
from shoal.overlays.dynatops.topics.keys import key_of, keys_of
from shoal.overlays.dynatops.topics.outbox import TopicOutbox
from shoal.overlays.dynatops.topics.routing import TopicRouting
from shoal.overlays.dynatops.users.placing import Placing
from shoal.overlays.dynatops.view import MakeOnEarth, MakeStructure, View, ViewPlaces


class Dynatops(InViews):
    """One broker."""

    routing: TopicRouting

    def __init__(
        self,
        context: BrokerContext,
        parameters: DynatopsParameters,
        make_structure: MakeStructure,
        make_on_earth: MakeOnEarth | None = None,
    ) -> None:
        place = partial(ViewPlaces, make_structure=make_structure, make_on_earth=make_on_earth)
        super().__init__(context, parameters, place)
        self.parameters = parameters
        topics_of = partial(keys_of, attribute=parameters.topic, most=parameters.keys)
        self.interests = Interests(self.membership, topics_of, self.ways)
        self.routing = TopicRouting(self.membership, parameters, self.interests, self.ways, self)
        is_by_topic = parameters.order is TopicOrder.TOPIC
        self.outbox = TopicOutbox(
            parameters.topic, is_by_topic, self._root_of, self.routing.publish, self
        )
        self._placing: Placing | None = None
        if parameters.places_users:
            self._placing = Placing(self.membership, parameters, self.ways.answer)
        self.clients = TopicClients(self.broker, self.interests, self.outbox, self._placing)
        self._orders = Orders(self.membership, parameters)
        self._counting: Counting | None = None
        self._manager: Manager | BrokerPairs | None = None
        if parameters.reconfigure_us:
            self._counting = Counting(parameters.reconfigure_us)
            if parameters.manager is Managed.CENTRAL:
                self._manager = Manager(self.membership, parameters)
            else:
                self._manager = BrokerPairs(
                    self.membership, parameters, self._between, lambda: self.routing.relayed
                )

    # --- own status ---------------------------------------------------------------------------

    @property
    def keeps_order(self) -> bool:
        return self.parameters.order is TopicOrder.PUBLISHER

    @property
    def ordered_by(self) -> str | None:
        return None if self.keeps_order else self.parameters.topic

    def routing_decision(self, asked: RoutingQuery) -> RoutingDecision:
        key = key_of(asked.attributes, self.parameters.topic)
        return self.routing.routing_decision(asked, self._root_of(key))

    @property
    def survey(self) -> Mapping[str, Any] | None:
        """Positions, and `rates`: publications a second of topics, as expected here.

        The manager has those of all topics; without a manager each broker has those of its own
        topics.
        """
        view, parameters = self.membership.view, self.parameters
        if view is None:
            return None
        rates: Mapping[str, float] = {}
        knows = isinstance(self._manager, BrokerPairs) or self.membership.is_manager
        if self._manager is not None and knows:
            period_s = parameters.reconfigure_us / 1e6
            rates = {topic: each / period_s for topic, each in self._manager.expected.items()}
        places = self.membership.places
        is_on_earth = places is not None and places.is_on_earth
        return {
            "version": view.version,
            "members": list(view.members),
            # Brokers on earth keep their places.
            "pinned": list(view.members if is_on_earth else parameters.pinned),
            "regions": [list(row) for row in parameters.regions],
            "is_manager": self.membership.is_manager,
            "rates": rates,
            "per_gateway": view.per_gateway,
            "is_held": view.is_held,
            "is_planning": self._manager is not None,
        }

    # --- inputs -------------------------------------------------------------------------------

    def timer(self, key: TimerKey, now_us: int, out: list[Effect]) -> None:
        super().timer(key, now_us, out)
        match key:
            case ("reconfiguration", "report"):
                self._report(now_us, out)
            case ("users", name) if self._placing is not None:
                self._placing.timer(name, now_us, out)
            case ("reconfiguration", name) if self._manager is not None:
                self._manager.timer(name, now_us, out)

    def order(self, name: str, said: Mapping[str, str], now_us: int, out: list[Effect]) -> None:
        self._now_us = now_us
        self._orders.follow(name, said, now_us, out)

    def take(self, message: OfView, out: list[Effect]) -> None:
        match message:
            case ToHomes():
                self.routing.to_homes(message, out)
            case ToRoot():
                self.routing.to_root(message, out)
            case EntryBound():
                self.bound(message, out)
            case HomeTurn():
                self.routing.turn(message, out)
            case CountsReported():
                self._counted(message, out)
            case Between():
                self._between(message.target, message, out)
            case TopicSummary():
                if message.target != self.broker:
                    self.ways.answer(message.target, message, out)
                elif self._placing is not None:
                    self._placing.on_summary(message, self._now_us, out)
            case _:
                raise unexpected(message, "a neighbour")

    def look(self, out: list[Effect]) -> None:
        self.routing.look(out)

    def begin_routing(self, view: View, out: list[Effect]) -> None:
        self.routing.begin(view.lives)
        if isinstance(self._manager, BrokerPairs):
            self._manager.began(self._now_us, out)
        elif self._manager is not None:
            self._manager.began()
        if self._placing is not None:
            self._placing.began(self._now_us, out)

    def _root_of(self, key: str | None) -> BrokerId:
        """The broker responsible for a topic; for none its own broker."""
        places = self.membership.places
        if places is None:
            return ""
        return self.broker if key is None else places.root(key)

    # --- order over several roots -------------------------------------------------------------

    @property
    def take_turns(self) -> bool:
        return self.interests.is_complete

    def send_turn(
        self, home: BrokerId, publisher: ClientId, numbers: tuple[int, ...], out: list[Effect]
    ) -> None:
        view, life = self.membership.view, self.membership.life
        assert view is not None
        self.routing.turn(HomeTurn(view.age, self.broker, life, home, publisher, numbers), out)

    def bound(self, message: EntryBound, out: list[Effect]) -> None:
        if message.entry == self.broker:
            self.outbox.bound(message, out)
        else:
            self.ways.answer(message.entry, message, out)

    # --- changes of places --------------------------------------------------------------------

    def rooted(self, topic: str, homes: Collection[BrokerId], out: list[Effect]) -> None:
        if self._counting is not None:
            self._counting.count(topic, homes, self._now_us, out)

    def _report(self, now_us: int, out: list[Effect]) -> None:
        """Send the manager the counts of this root, or send the homes of each topic theirs."""
        view = self.membership.view
        assert self._counting is not None
        if view is None:
            return
        counts = self._counting.take(view.members)
        told: dict[BrokerId, list[TopicCount]] = {}
        for count in counts:
            is_pairwise = self.parameters.manager is Managed.PAIRWISE
            for target in count.homes if is_pairwise else (self.membership.manager,):
                told.setdefault(target, []).append(count)
        is_central = self.parameters.manager is Managed.CENTRAL
        spent = self.membership.take_spent() if is_central and told else 0
        for target, some in told.items():
            self._counted(CountsReported(view.age, target, tuple(some), spent), out)

    def _counted(self, message: CountsReported, out: list[Effect]) -> None:
        if message.manager != self.broker:
            self.ways.answer(message.manager, message, out)
        elif self._manager is not None:
            self._manager.on_counts(message.topics, self._now_us, out, message.spent)

    def _between(self, target: BrokerId, message: Between, out: list[Effect]) -> None:
        if target != self.broker:
            self.ways.answer(target, message, out)
        elif isinstance(self._manager, BrokerPairs):
            self._manager.take(message, self._now_us, out)
