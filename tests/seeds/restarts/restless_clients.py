"""Clients of brokers that are killed and restarted, in virtual time, and the promises to them.

Each broker has a publisher, and a subscriber of everything unless given a filter. Deliveries and
subscriptions survive the broker, as on its disk. A settled publication must be with every
subscriber, whichever broker is dead at that moment; once, and in order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import MappingProxyType

from shoal.broker.ack_tracker import AckTracker
from shoal.broker.effects import Deliver
from shoal.broker.messages import Advertise, Publish, Subscribe
from shoal.matching.semantics import matches
from shoal.model import EVERYTHING, Advertisement, BrokerId, Filter, Publication, Subscription
from shoal.mqtt.front_end.deduplication import OrderedDeduplication
from shoal.runtime.node import Node

Key = tuple[str, int]
# Publications have these topics in turn, and x below this.
TOPICS, X_LIMIT = 5, 100


class Subscriber:
    """The subscriber of one broker; `got` has its deliveries in order."""

    def __init__(self, home: BrokerId, wanted: Filter = EVERYTHING) -> None:
        self.home = home
        self.wanted = wanted
        self.got: dict[Key, None] = {}
        self.problems: list[str] = []
        self._repeats = OrderedDeduplication({})
        self._last: dict[str, int] = {}

    def deliver(self, delivery: Deliver) -> None:
        publication = delivery.routed.publication
        publisher, number = publication.key
        if not self._repeats.take(publication):
            return
        if publication.key in self.got:
            self.problems.append(f"{self.home} got {publication.key} twice")
        elif number < self._last.get(publisher, -1):
            self.problems.append(f"{self.home} got {publication.key} out of order")
        self._last[publisher] = max(number, self._last.get(publisher, -1))
        self.got[publication.key] = None

    def notify(self, message: object) -> None: ...


class RestlessClients:
    """All clients; `now_us` gives the time."""

    def __init__(
        self,
        brokers: Iterable[BrokerId],
        now_us: Callable[[], int],
        wanted: Mapping[BrokerId, Filter] = MappingProxyType({}),
    ) -> None:
        self.subscribers = {
            name: Subscriber(name, wanted.get(name, EVERYTHING)) for name in brokers
        }
        self.unsettled: dict[Key, Publication] = {}
        self.settled = 0
        self.problems: list[str] = []
        self._now_us = now_us
        self._count = 0

    def start(self, node: Node) -> None:
        """A broker has started: its clients connect."""
        client = f"s/{node.id}"
        subscriber = self.subscribers[node.id]
        node.attach(client, subscriber)
        wanted = Subscription(id=client, client=client, filter=subscriber.wanted)
        node.request(client, Subscribe(wanted))
        publisher = f"p/{node.id}"
        node.request(
            publisher,
            Advertise(Advertisement(id=publisher, publisher=publisher, filter=EVERYTHING)),
        )

    def killed(self, broker: BrokerId) -> None:
        """A broker is killed: its pending requests get no answer."""
        gone = f"p/{broker}"
        self.unsettled = {key: one for key, one in self.unsettled.items() if key[0] != gone}

    def publish(self, node: Node) -> None:
        """One publication of this broker's publisher, unless it must wait."""
        if not node.is_ready or node.is_holding:
            return
        self._count += 1
        publication = Publication(
            publisher=f"p/{node.id}",
            sequence=self._count,
            published_us=self._now_us(),
            attributes={
                "x": self._count % X_LIMIT,
                "class": f"t{self._count % TOPICS}",
            },
            assured=True,
        )
        self.unsettled[publication.key] = publication
        ack_tracker = AckTracker(partial(self._settled, node, publication))
        node.request(publication.publisher, Publish((publication,)), ack_tracker=ack_tracker)

    def _settled(self, node: Node, publication: Publication) -> None:
        if self.unsettled.pop(publication.key, None) is None:
            return  # the settlement of a dead broker
        self.settled += 1
        self.problems += [
            f"{(self._now_us() - 1_000_000_000) / 1e6:.2f}: {each.home} lacks {publication.key}"
            for each in self.subscribers.values()
            if publication.key not in each.got and matches(each.wanted, publication.attributes)
        ]

    def judge(self) -> list[str]:
        """Violations; call it when everything that can be settled is."""
        owed = [f"{key} is never settled" for key in self.unsettled]
        found = (problem for each in self.subscribers.values() for problem in each.problems)
        return [*self.problems, *found, *owed]
