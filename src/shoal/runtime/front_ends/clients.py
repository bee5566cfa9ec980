"""Clients in a broker's own process, for embedding and tests.

A local client publishes, subscribes and follows its publisher's relocations like any other, by
the same machine (`shoal.clients.publisher`); its requests are checked as the wire would.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import msgspec

from shoal.broker.effects import Deliver, Record
from shoal.broker.messages import (
    Advertise,
    Message,
    Publish,
    Rejected,
    Subscribe,
    Unadvertise,
    Unsubscribe,
)
from shoal.broker.wire import COMMON, Codec
from shoal.clients.messages import MESSAGES
from shoal.clients.publisher import Publisher, PublisherEffect, ToBroker, WakeUp
from shoal.language import parse
from shoal.model import (
    Advertisement,
    AdvertisementId,
    Attributes,
    BrokerId,
    ClientId,
    Publication,
    Subscription,
    SubscriptionId,
    check_attributes,
)
from shoal.runtime.node import Node

_CODEC = Codec(COMMON + MESSAGES)


class LocalClient:
    """A client of `broker`; of the brokers that its publisher may be moved to, `nodes` has some.

    `deliveries` is the queue of its publications, `rejections` that of refusals; `notices` is given
    all that brokers tell it.
    """

    def __init__(
        self,
        name: ClientId,
        broker: BrokerId,
        nodes: Mapping[BrokerId, Node],
        records: Callable[[msgspec.Struct], None] | None = None,
        notices: Callable[[Message], None] | None = None,
    ) -> None:
        self.name = name
        self.deliveries: asyncio.Queue[Deliver] = asyncio.Queue()
        self.rejections: list[str] = []
        self._publisher = Publisher(name, broker)
        self._nodes = nodes
        self._records = records
        self._notices = notices
        self._sequence = 0
        for node in nodes.values():
            node.attach(name, _ClientPort(self, node))

    @property
    def broker(self) -> BrokerId:
        """Return the broker at which the client publishes."""
        return self._publisher.broker

    def close(self) -> None:
        """Leave; its advertisements and subscriptions stay until they are withdrawn."""
        for node in self._nodes.values():
            node.detach(self.name)

    # --- the application's requests ----------------------------------------------------------

    def subscribe(self, subscription_id: SubscriptionId, where: str) -> None:
        """Subscribe to the matches of a filter in SQL; FilterSyntaxError, WireError."""
        subscription = Subscription(id=subscription_id, client=self.name, filter=parse(where))
        self._send_client_request(Subscribe(subscription))

    def unsubscribe(self, subscription_id: SubscriptionId) -> None:
        self._send_client_request(Unsubscribe(subscription_id))

    def advertise(self, advertisement_id: AdvertisementId, where: str) -> None:
        """Promise that each publication matches a filter in SQL; FilterSyntaxError, WireError."""
        promise = Advertisement(id=advertisement_id, publisher=self.name, filter=parse(where))
        self._send_client_request(Advertise(promise))

    def unadvertise(self, advertisement_id: AdvertisementId) -> None:
        self._send_client_request(Unadvertise(advertisement_id))

    async def publish(self, *attributes: Attributes) -> None:
        """Publish, when the broker has room; ValueError for attributes that cannot be."""
        for each in attributes:
            check_attributes(each)
        await self._node.room()
        now_us = self._node.clock.now_us()
        first = self._sequence
        self._sequence += len(attributes)
        self._send_client_request(
            Publish(
                tuple(
                    Publication(
                        publisher=self.name, sequence=number, published_us=now_us, attributes=each
                    )
                    for number, each in enumerate(attributes, first)
                )
            )
        )

    # --- the broker's side --------------------------------------------------------------------

    @property
    def _node(self) -> Node:
        return self._nodes[self._publisher.broker]

    def _send_client_request(self, request: Message) -> None:
        _CODEC.encode(request)  # raises for requests that no broker could forward
        self._carry_out(self._publisher.request(request, self._node.clock.now_us()))

    def _carry_out(self, effects: list[PublisherEffect]) -> None:
        for effect in effects:
            match effect:
                case ToBroker(broker, request) if broker in self._nodes:
                    self._nodes[broker].request(self.name, request)
                case WakeUp(at_us):
                    delay_s = max(0, at_us - self._node.clock.now_us()) / 1_000_000
                    self._node.loop.call_later(delay_s, self._wake)
                case Record(record) if self._records is not None:
                    self._records(record)

    def _wake(self) -> None:
        self._carry_out(self._publisher.woken(self._node.clock.now_us()))

    def notified(self, broker: BrokerId, message: Message) -> None:
        """Take a broker's notice; handled once the broker is done with its present input."""
        if isinstance(message, Rejected):
            self.rejections.append(message.reason)
        if self._notices is not None:
            self._notices(message)
        now_us = self._nodes[broker].clock.now_us()
        self._carry_out(self._publisher.notified(broker, message, now_us))


class _ClientPort:
    """A client as one of the nodes sees it."""

    def __init__(self, client: LocalClient, node: Node) -> None:
        self._client = client
        self._node = node

    def deliver(self, delivery: Deliver) -> None:
        self._client.deliveries.put_nowait(delivery)

    def notify(self, message: Message) -> None:
        self._node.loop.call_soon(self._client.notified, self._node.id, message)
