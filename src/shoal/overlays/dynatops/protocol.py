"""DYNATOPS at one broker: topic trees on a structured overlay, whoever stands where.

    publisher -> entry -> ... -> root of the topic -> ... -> homes -> subscribers

Brokers agree on a view, who stands at which position of a structure (`members/`), and open the
links that its tables ask for.  A topic's root knows which homes want what (`topics/interests.py`)
and names those that a publication goes to (`topics/routing.py`).  The entry keeps it until all
have it (`topics/outbox.py`).  Bayeux and GeoPS are the same over other structures.

Beyond the paper: conditions on the content, filters for any topic, order per publisher, and that
nothing is lost, doubled or overtaken when brokers come, go or die: what is under way in one view is
sent again in the next.

Source: Zhao, Kim and Venkatasubramanian, DYNATOPS, section 3.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from typing import Any

from shoal.broker.effects import Effect, TimerKey
from shoal.broker.onward import Asked, Onward
from shoal.broker.strategy import BrokerContext, unexpected
from shoal.model import BrokerId, ClientId
from shoal.overlays.dynatops.clients import Clients
from shoal.overlays.dynatops.in_views import InViews
from shoal.overlays.dynatops.messages import (
    Between,
    Bound,
    Counted,
    HomeTurn,
    OfView,
    Summary,
    ToHomes,
    TopicCount,
    ToRoot,
)
from shoal.overlays.dynatops.parameters import Managed, Order, Parameters
from shoal.overlays.dynatops.reconfiguration.counting import Counting
from shoal.overlays.dynatops.reconfiguration.manager import Manager
from shoal.overlays.dynatops.reconfiguration.orders import Orders
from shoal.overlays.dynatops.reconfiguration.pairs import Pairs
from shoal.overlays.dynatops.topics.interests import Interests
from shoal.overlays.dynatops.topics.keys import key_of, keys_of
from shoal.overlays.dynatops.topics.outbox import Outbox
from shoal.overlays.dynatops.topics.routing import Routing
from shoal.overlays.dynatops.users.placing import Placing
from shoal.overlays.dynatops.view import MakeStructure, Places, View


class Dynatops(InViews):
    """One broker."""

    routing: Routing

    def __init__(
        self, context: BrokerContext, parameters: Parameters, make_structure: MakeStructure
    ) -> None:
        super().__init__(context, parameters, partial(Places, make_structure=make_structure))
        self.parameters = parameters
        topics_of = partial(keys_of, attribute=parameters.topic, most=parameters.keys)
        self.interests = Interests(self.membership, topics_of, self.ways.spread)
        self.routing = Routing(self.membership, parameters, self.interests, self.ways, self)
        is_by_topic = parameters.order is Order.TOPIC
        self.outbox = Outbox(
            parameters.topic, is_by_topic, self._root_of, self.routing.publish, self
        )
        self._placing: Placing | None = None
        if parameters.places_users:
            self._placing = Placing(self.membership, parameters, self.ways.answer)
        self.clients = Clients(self.broker, self.interests, self.outbox, self._placing)
        self._orders = Orders(self.membership, parameters)
        self._counting: Counting | None = None
        self._manager: Manager | Pairs | None = None
        if parameters.reconfigure_us:
            self._counting = Counting(parameters.reconfigure_us)
            if parameters.manager is Managed.CENTRAL:
                self._manager = Manager(self.membership, parameters)
            else:
                self._manager = Pairs(
                    self.membership, parameters, self._between, lambda: self.routing.relayed
                )

    # --- what it says of itself ---------------------------------------------------------------

    @property
    def keeps_order(self) -> bool:
        return self.parameters.order is Order.PUBLISHER

    @property
    def ordered_by(self) -> str | None:
        return None if self.keeps_order else self.parameters.topic

    def onward(self, asked: Asked) -> Onward:
        key = key_of(asked.attributes, self.parameters.topic)
        return self.routing.onward(asked, self._root_of(key))

    @property
    def survey(self) -> Mapping[str, Any] | None:
        """Who stands where, and `rates`: publications a second of topics, as expected here.

        The manager expects some of all topics; without a manager each broker of those that are
        wanted there.
        """
        view, parameters = self.membership.view, self.parameters
        if view is None:
            return None
        rates: Mapping[str, float] = {}
        knows = isinstance(self._manager, Pairs) or self.membership.is_manager
        if self._manager is not None and knows:
            period_s = parameters.reconfigure_us / 1e6
            rates = {topic: each / period_s for topic, each in self._manager.expected.items()}
        return {
            "version": view.version,
            "members": list(view.members),
            "pinned": list(parameters.pinned),
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
            case Bound():
                self.bound(message, out)
            case HomeTurn():
                self.routing.turn(message, out)
            case Counted():
                self._counted(message, out)
            case Between():
                self._between(message.target, message, out)
            case Summary():
                if message.target != self.broker:
                    self.ways.answer(message.target, message, out)
                elif self._placing is not None:
                    self._placing.hear(message, self._now_us, out)
            case _:
                raise unexpected(message, "a neighbour")

    def look(self, out: list[Effect]) -> None:
        self.routing.look(out)

    def begin_routing(self, view: View, out: list[Effect]) -> None:
        self.routing.begin(view.lives)
        if isinstance(self._manager, Pairs):
            self._manager.began(self._now_us, out)
        elif self._manager is not None:
            self._manager.began()
        if self._placing is not None:
            self._placing.began(self._now_us, out)

    def _root_of(self, key: str | None) -> BrokerId:
        """Who is responsible for a topic; of what has none its own broker is."""
        places = self.membership.places
        if places is None:
            return ""
        return self.broker if key is None else places.root(key)

    # --- order over several roots -------------------------------------------------------------

    @property
    def take_turns(self) -> bool:
        return self.interests.is_complete

    def say_turn(
        self, home: BrokerId, publisher: ClientId, numbers: tuple[int, ...], out: list[Effect]
    ) -> None:
        view, life = self.membership.view, self.membership.life
        assert view is not None
        self.routing.turn(HomeTurn(view.age, self.broker, life, home, publisher, numbers), out)

    def bound(self, message: Bound, out: list[Effect]) -> None:
        if message.entry == self.broker:
            self.outbox.bound(message, out)
        else:
            self.ways.answer(message.entry, message, out)

    # --- who should stand where ---------------------------------------------------------------

    def rooted(self, topic: str, homes: Collection[BrokerId], out: list[Effect]) -> None:
        if self._counting is not None:
            self._counting.count(topic, homes, self._now_us, out)

    def _report(self, now_us: int, out: list[Effect]) -> None:
        """Tell the manager what was counted here, or the homes of each topic."""
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
        for target, some in told.items():
            self._counted(Counted(view.age, target, tuple(some)), out)

    def _counted(self, message: Counted, out: list[Effect]) -> None:
        if message.manager != self.broker:
            self.ways.answer(message.manager, message, out)
        elif self._manager is not None:
            self._manager.hear(message.topics, self._now_us, out)

    def _between(self, target: BrokerId, message: Between, out: list[Effect]) -> None:
        if target != self.broker:
            self.ways.answer(target, message, out)
        elif isinstance(self._manager, Pairs):
            self._manager.take(message, self._now_us, out)
