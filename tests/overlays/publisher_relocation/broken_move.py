"""A move of a publisher with a fault in it."""

from __future__ import annotations

from shoal.broker.effects import Requested
from shoal.broker.messages import Advertise
from shoal.clients.publisher import Publisher, PublisherEffect, ToBroker
from shoal.model import Advertisement
from tests.broker.transcript import advertisement, publish
from tests.overlays.publisher_relocation.one_publisher import (
    PATH,
    SUBSCRIBERS,
    WEB,
    A,
    interests,
    send_away,
    stage_with_publisher,
)

TIMER = ("migration", "P")
B = advertisement("b", "y >= 0")


class Move:
    """P with its client, told to move; its messages wait, by broker, until they are let through."""

    def __init__(self, *advertisements: Advertisement) -> None:
        self.stage = stage_with_publisher(*advertisements)
        self.client = Publisher("P", "B1")
        for row in advertisements or (A,):
            self.client.request(Advertise(row), 0)
        self.words: dict[str, list[ToBroker]] = {}
        self.heard = 0
        self.dead: set[str] = set()
        send_away(self.stage, "P", PATH)
        self.deliver_to_publisher()

    def deliver_to_publisher(self) -> None:
        """Deliver the brokers' messages to P."""
        notified = self.stage.notified[self.heard :]
        self.heard += len(notified)
        for broker, client, message in notified:
            if client == "P":
                self.do(self.client.notified(broker, message, self.stage.now_us))

    def do(self, effects: list[PublisherEffect]) -> None:
        for effect in effects:
            if isinstance(effect, ToBroker):
                self.words.setdefault(effect.broker, []).append(effect)

    def let_through(self, *brokers: str) -> None:
        """Deliver P's messages to these brokers; dead ones ignore them."""
        for broker in brokers or tuple(self.words):
            for effect in self.words.pop(broker, []):
                if broker not in self.dead:
                    self.stage.handle(broker, Requested("P", effect.request))

    def settle(self) -> None:
        """Deliver every message."""
        self.deliver_to_publisher()
        while self.words or any(self.stage.links.values()):
            self.let_through()
            self.stage.settle()
            self.deliver_to_publisher()

    def die(self, broker: str) -> None:
        """The broker's neighbours notice at once, P when it is told."""
        self.dead.add(broker)
        for left, right in WEB:
            if broker in (left, right):
                self.stage.break_link(left, right)

    def lose(self, broker: str) -> None:
        self.do(self.client.lost(broker, self.stage.now_us))

    def publish(self, number: int) -> list[str]:
        """The subscribers that receive a publication of P at its present broker."""
        before = len(self.stage.deliveries)
        self.do(self.client.request(publish(number), self.stage.now_us))
        self.settle()
        return sorted(client for _, client in self.stage.delivered()[before:])

    def hold_expires(self) -> None:
        for broker, key in list(self.stage.timers):
            self.stage.fire(broker, key)
        self.settle()

    def problems(self, edges: tuple[tuple[str, str], ...], home: str) -> list[str]:
        """Differences of living brokers' tables from the oracle's."""
        found = self.stage.problems([(A, home)], interests(), edges)
        return [row for row in found if row[:2] not in self.dead]

    def without_links(self, *brokers: str) -> tuple[tuple[str, str], ...]:
        return tuple(edge for edge in WEB if not set(brokers) & set(edge))


def all_but(*clients: str) -> list[str]:
    return sorted(SUBSCRIBERS.keys() - set(clients))


CUT = ("B1", "B2")
