"""Clients of brokers that are killed and start again, in virtual time: what they are promised.

Each broker has a client that publishes, and one that has subscribed, to everything unless it is
said.  What clients have been delivered, and that they subscribed, outlives their broker, as on its
disk.  Whatever is said to be settled everybody who wants it must have, whoever is dead at that
moment; once, and in order.
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
# Publications have one of so many topics each, by turns, and x below this.
TOPICS, X_LIMIT = 5, 100


class Subscriber:
    """One broker's; `got` is what it was delivered, in its order."""

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
    """All of them; `now_us` says the time."""

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
        """A broker has started: its clients are there again."""
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
        """Nobody will hear what became of what it was asked."""
        gone = f"p/{broker}"
        self.unsettled = {key: one for key, one in self.unsettled.items() if key[0] != gone}

    def publish(self, node: Node) -> None:
        """One publication of the client of this broker, unless that must wait."""
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
            return  # what a dead broker would have said
        self.settled += 1
        self.problems += [
            f"{(self._now_us() - 1_000_000_000) / 1e6:.2f}: {each.home} lacks {publication.key}"
            for each in self.subscribers.values()
            if publication.key not in each.got and matches(each.wanted, publication.attributes)
        ]

    def judge(self) -> list[str]:
        """What was wrong; to be asked when all is settled that can be."""
        owed = [f"{key} is never settled" for key in self.unsettled]
        found = (problem for each in self.subscribers.values() for problem in each.problems)
        return [*self.problems, *found, *owed]
