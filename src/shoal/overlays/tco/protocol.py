"""A topic-connected overlay at one broker: publications pass between their subscribers only.

    publisher -> entry -> subscriber -> ... -> subscriber -> clients

Brokers agree on a view, and send each other their clients' filters. The view's hub computes links
from these, just enough for the subscribers of each topic to reach each other (`linking.py`), and
publications go along them (`routing.py`). All other messages go over the hub. A broker with a
filter that names no topic subscribes to all topics; such brokers forward publications without a
topic.

Beyond the source: conditions on the content, filters for any topic, publishers at brokers that do
not subscribe, order, and no loss, duplicate or reordering when brokers join, leave or die: the
views are those of `shoal.overlays.dynatops`.

Source: Zhao, Kim and Venkatasubramanian, DYNATOPS, section 6.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from shoal.broker.effects import Effect, LinkState, TimerKey
from shoal.broker.routing_decision import RoutingDecision, RoutingQuery
from shoal.broker.strategy import BrokerContext, ProtocolError, unexpected
from shoal.model import BrokerId
from shoal.overlays.dynatops.clients import TopicClients
from shoal.overlays.dynatops.in_views import InViews
from shoal.overlays.dynatops.messages import OfView
from shoal.overlays.dynatops.topics.arrivals import TopicArrivals
from shoal.overlays.dynatops.topics.interests import Interests
from shoal.overlays.dynatops.topics.keys import keys_of
from shoal.overlays.dynatops.topics.outbox import TopicOutbox
from shoal.overlays.dynatops.view import View, ViewPlaces
from shoal.overlays.tco.linking import MAKE, STEP, Linking
from shoal.overlays.tco.messages import AlongPath, LinksSaid, named
from shoal.overlays.tco.parameters import TcoParameters
from shoal.overlays.tco.routing import TcoRouting
from shoal.overlays.tco.star import TcoStar, hub_of
from shoal.overlays.tco.subscribers import TcoSubscribers


class Tco(InViews):
    """One broker."""

    routing: TcoRouting

    def __init__(self, context: BrokerContext, parameters: TcoParameters) -> None:
        super().__init__(context, parameters, _around_hub)
        self.parameters = parameters
        topics_of = partial(keys_of, attribute=parameters.topic, most=parameters.keys)
        self.subscribers = TcoSubscribers(topics_of)
        self.interests = Interests(
            self.membership, lambda filter: None, self.ways, self.subscribers.on_filter
        )
        self.linking = Linking(self.membership, parameters, self.subscribers, self.ways.send)
        self.routing = TcoRouting(
            self.membership,
            parameters.topic,
            self.interests,
            self.subscribers,
            lambda: self.linking.neighbours,
            self.ways,
            TopicArrivals(self.membership, parameters.topic, False, self),
        )
        self.outbox = TopicOutbox(parameters.topic, False, self._root_of, self.routing.publish)
        self.clients = TopicClients(self.broker, self.interests, self.outbox, None)
        self._has_heard_all = False

    # --- own status ---------------------------------------------------------------------------

    @property
    def description(self) -> Mapping[str, int]:
        return {
            **super().description,
            "overlay_links": len(self.linking.neighbours.get(self.broker, ())),
            "changed_links": self.linking.changes,
        }

    @property
    def keeps_order(self) -> bool:
        return True

    def routing_decision(self, asked: RoutingQuery) -> RoutingDecision:
        return self.routing.routing_decision(asked)

    # --- inputs -------------------------------------------------------------------------------

    def timer(self, key: TimerKey, now_us: int, out: list[Effect]) -> None:
        super().timer(key, now_us, out)
        if key == MAKE:
            self.linking.make(self.interests.is_complete, now_us, out)
        elif key == STEP and self.linking.step(now_us, out):
            self.routing.links_changed(out)
        self._look(now_us, out)

    def link(self, neighbour: BrokerId, state: LinkState, now_us: int, out: list[Effect]) -> None:
        self.routing.forget_trees()
        super().link(neighbour, state, now_us, out)
        self._look(now_us, out)

    def take(self, message: OfView, out: list[Effect]) -> None:
        places = self.membership.places
        assert places is not None
        if not isinstance(message, AlongPath | LinksSaid):
            raise unexpected(message, "a neighbour")
        for broker in named(message):
            if broker not in places:
                raise ProtocolError(f"{broker} is not in the view")
        if isinstance(message, AlongPath):
            self.routing.along(message, out)
        elif self.linking.on_links(message.links, self._now_us, out):
            self.routing.links_changed(out)

    def look(self, out: list[Effect]) -> None:
        if self.interests.is_complete and not self._has_heard_all:
            self._has_heard_all = True
            self.outbox.look(out)

    def begin_routing(self, view: View, out: list[Effect]) -> None:
        self._has_heard_all = False
        self.subscribers.clear()
        self.linking.begin()
        self.routing.begin(view.lives)

    def _look(self, now_us: int, out: list[Effect]) -> None:
        super()._look(now_us, out)
        self.linking.look(self.interests.is_complete, now_us, out)

    def _root_of(self, topic: str | None) -> BrokerId:
        """This broker, as soon as it knows all subscriptions."""
        return self.broker if self.interests.is_complete else ""


def _around_hub(view: View) -> ViewPlaces:
    hub = view.members.index(hub_of(view))
    return ViewPlaces(view, lambda size: TcoStar(size, hub))
