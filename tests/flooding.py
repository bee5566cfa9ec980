"""A user's system in some 200 lines: flooding on any connected graph, cycles allowed.

The worked example of docs/tutorials/write-an-overlay.md. Named in `SHOAL_SYSTEMS`, it is simulated,
run live, judged and reported without further changes. Every publication goes over every link;
second copies are dropped.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sized

import msgspec

from shoal.broker.effects import (
    Deliver,
    Effect,
    LinkState,
    Send,
    Started,
    TimerKey,
)
from shoal.broker.messages import (
    Advertise,
    Carrier,
    Goodbye,
    Message,
    PublicationBatch,
    Publish,
    RoutedPublication,
    Subscribe,
    Unadvertise,
    Unsubscribe,
)
from shoal.broker.routing_decision import Hop, RoutingDecision, RoutingQuery
from shoal.broker.strategy import BrokerContext, unexpected
from shoal.matching import MatchIndex
from shoal.model import BrokerId, ClientId, Subscription, SubscriptionId
from shoal.overlays.graph import MESSAGES, GraphStrategy
from shoal.overlays.link_admission import TIMER, LinkAdmission, ReadyToRoute
from shoal.overlays.publishers import LocalPublishers
from shoal.overlays.shapes import CONNECTED
from shoal.overlays.system import Picture, System

Wave = tuple[ClientId, int, bool]


class Parameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`remembered`: the number of publications whose duplicates are recognised."""

    remembered: int = 100_000


class Flooding(GraphStrategy):
    """One broker: it knows its own clients, and sends every new publication to all its neighbours.

    A returned publication was sent everywhere else already, so it needs no check. A starting broker
    lets publications in when it has its links: before, it could send them nowhere.
    """

    keeps_order = True  # a link carries each publication at most once, in the publisher's order

    def __init__(self, context: BrokerContext, parameters: Parameters) -> None:
        super().__init__(context)
        self._parameters = parameters
        self._publishers = LocalPublishers(context.broker)
        self._index = MatchIndex()
        self._admission = LinkAdmission(context)
        self._seen: dict[Wave, None] = {}
        self.subscriptions: dict[SubscriptionId, Subscription] = {}

    @property
    def is_ready(self) -> bool:
        return self._admission.is_ready

    @property
    def awaited(self) -> Collection[BrokerId]:
        return self._admission.awaited

    @property
    def description(self) -> Mapping[str, int]:
        return {"subscriptions": len(self.subscriptions), "seen": len(self._seen)}

    @property
    def searched(self) -> Sized:
        return self.subscriptions

    @property
    def has_clients(self) -> bool:
        return bool(self.subscriptions or self._publishers.clients)

    def routing_decision(self, asked: RoutingQuery) -> RoutingDecision:
        hops = tuple(Hop(each) for each in self._neighbours if each != asked.source)
        return RoutingDecision(hops, is_local=bool(self._index.match(asked.attributes)))

    def on_link(
        self, neighbour: BrokerId, state: LinkState, now_us: int, out: list[Effect]
    ) -> None:
        self._admission.link(neighbour, state, out)

    def start(self, started: Started, now_us: int, out: list[Effect]) -> None:
        super().start(started, now_us, out)
        self._admission.start(started, now_us, out)

    def timer(self, key: TimerKey, now_us: int, out: list[Effect]) -> None:
        super().timer(key, now_us, out)
        if key == TIMER:
            self._admission.timer(now_us, out)

    def departed(self, broker: BrokerId, now_us: int, out: list[Effect]) -> None:
        super().departed(broker, now_us, out)
        self._admission.dismiss(broker, out)

    def returned(
        self, neighbour: BrokerId, carrier: Carrier, now_us: int, out: list[Effect]
    ) -> None:
        """Flood it again: brokers that dropped a second copy settled it, and the first copy may be
        lost.
        """
        assert isinstance(carrier, PublicationBatch)
        self._flood(carrier.publications, carrier.hops - 1, None, out)

    def on_message(
        self, neighbour: BrokerId, message: Message, now_us: int, out: list[Effect]
    ) -> None:
        match message:
            case ReadyToRoute():
                self._admission.receive(neighbour, out)
            case PublicationBatch(publications, hops=hops):
                self._flood(publications, hops, neighbour, out)
            case _:
                raise unexpected(message, f"neighbour {neighbour}")

    def request(self, client: ClientId, request: Message, now_us: int, out: list[Effect]) -> None:
        match request:
            case Publish(publications):
                self._flood(self._publishers.accept(client, publications, out), 0, None, out)
            case Advertise(advertisement):
                self._publishers.attach(client, [advertisement])
            case Unadvertise(advertisement_id):
                self._publishers.take_back(client, advertisement_id)
            case Subscribe(subscription):
                self._remove(subscription.id)
                self.subscriptions[subscription.id] = subscription
                self._index.add(subscription.id, subscription.filter)
            case Unsubscribe(subscription_id):
                self._remove(subscription_id)
            case Goodbye():
                self._publishers.detach(client)
                mine = [row.id for row in self.subscriptions.values() if row.client == client]
                for subscription_id in mine:
                    self._remove(subscription_id)
            case _:
                raise unexpected(request, f"client {client}")

    def _remove(self, subscription_id: SubscriptionId) -> None:
        if self.subscriptions.pop(subscription_id, None) is not None:
            self._index.remove(subscription_id)

    def _flood(
        self,
        publications: tuple[RoutedPublication, ...],
        hops: int,
        source: BrokerId | None,
        out: list[Effect],
    ) -> None:
        """Deliver new publications here, and forward them to every neighbour but their source."""
        new = tuple(each for each in publications if _wave(each) not in self._seen)
        for routed in new:
            self._seen[_wave(routed)] = None
            wanted: dict[ClientId, list[SubscriptionId]] = {}
            for subscription_id in self._index.match(routed.publication.attributes):
                client = self.subscriptions[subscription_id].client
                wanted.setdefault(client, []).append(subscription_id)
            for client, found in wanted.items():
                out.append(Deliver(client, routed, tuple(found), hops))
        while len(self._seen) > self._parameters.remembered:
            del self._seen[next(iter(self._seen))]
        if new:
            batch = PublicationBatch(new, hops + 1)
            out += [Send(each, batch) for each in self._neighbours if each != source]


def _wave(routed: RoutedPublication) -> Wave:
    """A retransmission is new to every broker again; front ends drop duplicates."""
    return (*routed.publication.key, routed.publication.again)


def problems(picture: Picture, brokers: Mapping[BrokerId, Flooding]) -> list[str]:
    """A broker must know exactly the subscriptions of its clients."""
    there = sorted((home, subscription.id) for subscription, home in picture.subscriptions)
    known = sorted((name, id) for name, broker in brokers.items() for id in broker.subscriptions)
    return [] if known == there else [f"{known} should be {there}"]


SYSTEM = System(
    name="flooding",
    strategy=Flooding,
    shape=CONNECTED,
    parameters=Parameters,
    messages=(*MESSAGES, ReadyToRoute),
    oracle=problems,
)
