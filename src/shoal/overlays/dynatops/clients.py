"""The clients of one broker: their subscriptions, advertisements and publications."""

from __future__ import annotations

from shoal.broker.effects import Deliver, Effect
from shoal.broker.messages import (
    Advertise,
    Goodbye,
    Message,
    Publish,
    RoutedPublication,
    Subscribe,
    Unadvertise,
    Unsubscribe,
)
from shoal.broker.strategy import ProtocolError, unexpected
from shoal.groups import Groups
from shoal.matching import MatchIndex
from shoal.model import (
    Advertisement,
    AdvertisementId,
    BrokerId,
    ClientId,
    Subscription,
    SubscriptionId,
)
from shoal.overlays.dynatops.topics.interests import Interests
from shoal.overlays.dynatops.topics.outbox import TopicOutbox
from shoal.overlays.dynatops.users.placing import Placing
from shoal.overlays.publishers import LocalPublishers
from shoal.overlays.requests import check_advertisement, check_subscription


class TopicClients:
    """At one broker."""

    def __init__(
        self, broker: BrokerId, interests: Interests, outbox: TopicOutbox, placing: Placing | None
    ) -> None:
        self._publishers = LocalPublishers(broker)
        self._interests = interests
        self._outbox = outbox
        self._placing = placing
        self._now_us = 0
        self._index = MatchIndex()
        self.advertisements: dict[AdvertisementId, Advertisement] = {}
        self.subscriptions: dict[SubscriptionId, Subscription] = {}
        self._promised: Groups[ClientId, AdvertisementId] = Groups()
        self._wanted: Groups[ClientId, SubscriptionId] = Groups()

    def request(self, client: ClientId, request: Message, now_us: int, out: list[Effect]) -> None:
        self._now_us = now_us
        match request:
            case Publish(publications):
                self._outbox.publish(self._publishers.accept(client, publications, out), out)
            case Advertise(advertisement):
                known = self.advertisements.get(advertisement.id)
                check_advertisement(client, advertisement, known)
                self.advertisements[advertisement.id] = advertisement
                self._promised.add(client, advertisement.id)
                self._publishers.attach(client, [advertisement])
            case Unadvertise(id):
                self._publishers.take_back(client, id)
                if self.advertisements.pop(id, None) is not None:
                    self._promised.remove(client, id)
            case Subscribe(subscription):
                self._subscribe(client, subscription, out)
            case Unsubscribe(id):
                known_row = self.subscriptions.get(id)
                if known_row is None or known_row.client != client:
                    raise ProtocolError(f"{client} has no subscription {id} here")
                self._unsubscribe(id, out)
            case Goodbye():
                self._goodbye(client, out)
            case _ if self._placing is not None:
                self._placing.request(client, request, now_us, out)
            case _:
                raise unexpected(request, f"client {client}")

    def _subscribe(self, client: ClientId, subscription: Subscription, out: list[Effect]) -> None:
        known = self.subscriptions.get(subscription.id)
        check_subscription(client, subscription, known)
        # New filters first: a filter that is still wanted is never retracted.
        self._interests.add(subscription.filter, out)
        if known is not None:
            self._unsubscribe(known.id, out)
        self.subscriptions[subscription.id] = subscription
        self._wanted.add(client, subscription.id)
        self._index.add(subscription.id, subscription.filter)
        if self._placing is not None:
            self._placing.add(subscription, self._now_us, out)

    def _unsubscribe(self, id: SubscriptionId, out: list[Effect]) -> None:
        subscription = self.subscriptions.pop(id)
        self._wanted.remove(subscription.client, id)
        self._index.remove(id)
        self._interests.remove(subscription.filter, out)
        if self._placing is not None:
            self._placing.remove(subscription, self._now_us, out)

    def _goodbye(self, client: ClientId, out: list[Effect]) -> None:
        self._publishers.detach(client)
        for promised in self._promised.of(client):
            del self.advertisements[promised]
            self._promised.remove(client, promised)
        for wanted in self._wanted.of(client):
            self._unsubscribe(wanted, out)

    def deliver(self, routed: RoutedPublication, hops: int, out: list[Effect]) -> None:
        """Deliver to each client with a match, once."""
        found: dict[ClientId, list[SubscriptionId]] = {}
        for id in self._index.match(routed.publication.attributes):
            found.setdefault(self.subscriptions[id].client, []).append(id)
        for client, ids in found.items():
            out.append(Deliver(client, routed, tuple(ids), hops))
