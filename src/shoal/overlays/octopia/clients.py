"""The clients of a broker at its place: publications, advertisements and subscriptions."""

from __future__ import annotations

from shoal.broker.effects import Effect, Send
from shoal.broker.messages import (
    Advertise,
    Goodbye,
    Message,
    Publish,
    Subscribe,
    Unadvertise,
    Unsubscribe,
)
from shoal.broker.strategy import ProtocolError, unexpected
from shoal.model import Advertisement, AdvertisementId, ClientId, Subscription, SubscriptionId
from shoal.overlays.octopia.resident import Resident
from shoal.overlays.publishers import LocalPublishers
from shoal.overlays.requests import check_advertisement, check_subscription


class OctopiaClients:
    """The clients of one broker, and the announcements of their subscriptions."""

    def __init__(self, publishers: LocalPublishers, resident: Resident) -> None:
        self._publishers = publishers
        self._region = resident.region
        self._tables = resident.tables
        self._hosted = resident.hosted
        self._routing = resident.routing
        self._cluster_tables = resident.cluster_tables
        self._bits = resident.bits
        self._advertised_to = resident.ties.advertised_to

    def request(self, client: ClientId, request: Message, now_us: int, out: list[Effect]) -> None:
        match request:
            case Publish(publications):
                accepted = self._publishers.accept(client, publications, out)
                self._routing.publish(client, accepted, now_us, out)
            case Advertise(advertisement):
                self._advertise(client, advertisement, out)
            case Unadvertise(id):
                self._publishers.take_back(client, id)
                self._unadvertise(id, out)
            case Subscribe(subscription):
                self._subscribe(client, subscription, now_us, out)
            case Unsubscribe(id):
                entry = self._tables.own.entries.get(id)
                if entry is None or entry.subscription.client != client:
                    raise ProtocolError(f"{client} has no subscription {id} here")
                self._unsubscribe([id], now_us, out)
            case Goodbye():
                self._publishers.detach(client)
                self._routing.giving_back.left(client)
                self._routing.numbering.end(client, now_us, out)
                for advertisement in self._hosted.of(client):
                    self._unadvertise(advertisement.id, out)
                self._unsubscribe(self._tables.owned.of(client), now_us, out)
            case _:
                raise unexpected(request, f"client {client}")

    def _advertise(self, client: ClientId, advertisement: Advertisement, out: list[Effect]) -> None:
        row = self._hosted.rows.get(advertisement.id)
        known = None if row is None else row.advertisement
        check_advertisement(client, advertisement, known)
        if known == advertisement:
            return
        self._publishers.attach(client, [advertisement])
        self._hosted.add(advertisement)
        # The publisher's acknowledgement waits for the bits: until then they are off.
        message = Advertise(advertisement, is_awaited=True)
        out += [Send(each, message) for each in sorted(self._advertised_to)]

    def _unadvertise(self, id: AdvertisementId, out: list[Effect]) -> None:
        self._hosted.remove(id)
        out += [Send(each, Unadvertise(id)) for each in sorted(self._advertised_to)]

    def _subscribe(
        self, client: ClientId, subscription: Subscription, now_us: int, out: list[Effect]
    ) -> None:
        entry = self._tables.own.entries.get(subscription.id)
        known = None if entry is None else entry.subscription
        check_subscription(client, subscription, known)
        if known == subscription:
            return
        gone = self._tables.remove(self._region, [subscription.id])
        new = [self._tables.add(self._region, subscription)]
        self._bits.changed(gone, new, now_us, out)
        self._cluster_tables.subscribed(subscription, out)

    def _unsubscribe(self, ids: list[SubscriptionId], now_us: int, out: list[Effect]) -> None:
        self._bits.changed(self._tables.remove(self._region, ids), (), now_us, out)
        self._cluster_tables.unsubscribed(ids, out)
