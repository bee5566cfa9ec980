"""The publishers of one broker's MQTT clients: the publishers move, the connections stay.

An advertising client is a publisher of its own, and a system may move publishers to other brokers.
The MQTT client does not notice: the front end of its edge broker keeps its connection, runs the
`Publisher` machine for it, and sends its requests to the broker where it publishes.

Pure: effects name the broker to ask, the front end's own or another.

>>> from shoal.broker.messages import Advertise
>>> from shoal.clients.messages import Relocate
>>> from shoal.language import parse
>>> from shoal.model import Advertisement
>>> publishers = FrontEndPublishers("B1")
>>> promise = Advertise(Advertisement(id="a", publisher="c", filter=parse("x > 0")))
>>> [asked.broker for asked in publishers.request("c", promise, now_us=1)]
['B1']
>>> to_b3 = publishers.notified("B1", "c", Relocate(("B1", "B2", "B3")), now_us=2)
>>> [(asked.broker, type(asked.request).__name__) for asked in to_b3]
[('B1', 'Paused'), ('B3', 'MigrationAdvertisement')]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from shoal.broker.ack_tracker import marked
from shoal.broker.effects import Record
from shoal.broker.messages import Advertise, Message, Publish, Unadvertise
from shoal.clients.forwarding_channel_messages import ClientRequest
from shoal.clients.publisher import Publisher, PublisherEffect, ToBroker, WakeUp
from shoal.model import AdvertisementId, BrokerId, ClientId

# Held requests of one client before its connection is not read any more; each request comes from
# one read.
MAX_HELD_BACK = 200


class AskBroker(msgspec.Struct, frozen=True):
    """Effect: send a client's request to this broker, after all its earlier ones."""

    broker: BrokerId
    client: ClientId
    request: Message


FrontEndEffect = AskBroker | Record


class FrontEndPublishers:
    """The publishers with the edge broker `home`."""

    def __init__(self, home: BrokerId) -> None:
        self._home = home
        self._publishers: dict[ClientId, Publisher] = {}
        self._advertised: dict[ClientId, set[AdvertisementId]] = {}
        # The brokers of each publisher: its own, those it moves from and to; and the reverse.
        self._brokers: dict[ClientId, tuple[BrokerId, ...]] = {}
        self._clients: dict[BrokerId, dict[ClientId, None]] = {}
        # Brokers that do not answer; and brokers to which the forwarding channel is full.
        self._lost: set[BrokerId] = set()
        self._full: set[BrokerId] = set()
        # When moving publishers must be woken.
        self._wake_us: dict[ClientId, int] = {}

    # --- for the driver -----------------------------------------------------------------------

    def __contains__(self, client: object) -> bool:
        return client in self._publishers

    def __iter__(self) -> Iterator[Publisher]:
        return iter(tuple(self._publishers.values()))

    @property
    def deadline_us(self) -> int | None:
        """The next time at which `advance` is due."""
        return min(self._wake_us.values(), default=None)

    def uses(self, broker: BrokerId) -> bool:
        """Whether a client publishes at a broker, or is moving from or to it."""
        return broker in self._clients

    def those_at(self, broker: BrokerId) -> tuple[ClientId, ...]:
        """The clients that publish at a broker, or are moving from or to it."""
        return tuple(self._clients.get(broker, ()))

    def is_at(self, client: ClientId, broker: BrokerId) -> bool:
        """Whether a client publishes at a broker, and the broker answers."""
        publisher = self._publishers.get(client)
        return publisher is not None and publisher.brokers == (broker,) and broker not in self._lost

    def must_wait(self, client: ClientId) -> bool:
        """Whether the client's connection should not be read."""
        publisher = self._publishers.get(client)
        if publisher is None:
            return False
        if publisher.moving:
            return publisher.held_back >= MAX_HELD_BACK
        return publisher.broker in self._full

    # --- the clients' side --------------------------------------------------------------------

    def request(self, client: ClientId, request: Message, now_us: int) -> list[FrontEndEffect]:
        """Handle a client's request; the first advertisement creates a publisher, the last
        withdrawal ends it.

        A publisher counts its moves from `now_us` on, so that brokers prefer it to an earlier
        publisher of the same name.
        """
        publisher = self._publishers.get(client)
        if publisher is None:
            publisher = self._publishers[client] = Publisher(client, self._home, moves=now_us)
        advertised = self._advertised.setdefault(client, set())
        match request:
            case Advertise(advertisement):
                advertised.add(advertisement.id)
            case Unadvertise(advertisement_id):
                advertised.discard(advertisement_id)
                if not advertised:
                    return self._told(publisher, [])
        return self._told(publisher, publisher.request(request, now_us))

    # --- the brokers' side --------------------------------------------------------------------

    def notified(
        self, broker: BrokerId, client: ClientId, message: Message, now_us: int
    ) -> list[FrontEndEffect]:
        """Handle a broker's message to a client."""
        publisher = self._publishers.get(client)
        if publisher is None:
            return []
        return self._told(publisher, publisher.notified(broker, message, now_us))

    def lost(self, broker: BrokerId, now_us: int) -> list[FrontEndEffect]:
        """Handle a broker that does not answer: clients that move to it go back."""
        self._lost.add(broker)
        effects: list[FrontEndEffect] = []
        for client in self.those_at(broker):
            publisher = self._publishers[client]
            effects += self._told(publisher, publisher.lost(broker, now_us))
        return effects

    def found(self, broker: BrokerId) -> None:
        """Handle a broker that answers again and has kept its state."""
        self._lost.discard(broker)

    def forgotten(
        self, broker: BrokerId, requests: Sequence[ClientRequest], now_us: int
    ) -> list[FrontEndEffect]:
        """Handle a broker that is back without its state, and has not handled these requests.

        Its publishers return to the edge broker, which still has the subscriptions.
        """
        self._lost.discard(broker)
        effects: list[FrontEndEffect] = []
        for publisher, asked in self._concerned(broker, requests):
            if publisher.brokers == (broker,):
                effects += self._told(publisher, publisher.come_home(self._home, asked, now_us))
            else:
                effects += self._told(publisher, publisher.reconnected(broker, now_us))
                effects += self._told(publisher, publisher.again(asked, now_us))
        return effects

    def stranded(
        self, broker: BrokerId, requests: Sequence[ClientRequest], now_us: int
    ) -> list[FrontEndEffect]:
        """Handle a broker that counts as dead, with open requests: its publishers return.

        So do publishers that move from it or to it: the rest of their path may hang for much
        longer.
        """
        self._lost.add(broker)
        effects: list[FrontEndEffect] = []
        for publisher, asked in self._concerned(broker, requests):
            if broker in publisher.brokers:
                effects += self._told(publisher, publisher.come_home(self._home, asked, now_us))
            else:
                effects += self._told(publisher, publisher.again(asked, now_us))
        return effects

    def filled(self, broker: BrokerId, full: bool) -> None:
        """The forwarding channel to a broker is full, or has room again."""
        if full:
            self._full.add(broker)
        else:
            self._full.discard(broker)

    def advance(self, now_us: int) -> list[FrontEndEffect]:
        """Handle the timers that are due."""
        effects: list[FrontEndEffect] = []
        for client, at_us in list(self._wake_us.items()):
            if at_us <= now_us:
                del self._wake_us[client]
                publisher = self._publishers[client]
                effects += self._told(publisher, publisher.woken(now_us))
        return effects

    def _concerned(
        self, broker: BrokerId, requests: Sequence[ClientRequest]
    ) -> list[tuple[Publisher, list[Publish]]]:
        """The publishers at a broker, or with one of these requests, and the requests to repeat.

        These are publications, marked as repeated; a publisher renews all other requests by itself.
        """
        asked: dict[ClientId, list[Publish]] = {client: [] for client in self.those_at(broker)}
        for each in requests:
            if each.client in self._publishers and isinstance(each.request, Publish):
                again = Publish(tuple(map(marked, each.request.publications)))
                asked.setdefault(each.client, []).append(again)
        return [(self._publishers[client], again) for client, again in asked.items()]

    def _told(self, publisher: Publisher, effects: list[PublisherEffect]) -> list[FrontEndEffect]:
        """Turn a publisher's effects into effects of the front end.

        A publisher without advertisements leaves, as soon as none of its requests is held.
        """
        client = publisher.client
        if not self._advertised[client] and not publisher.moving:
            effects = [*effects, *publisher.leave()]
            del self._publishers[client], self._advertised[client]
            self._wake_us.pop(client, None)
        self._file(client, publisher.brokers if client in self._publishers else ())
        found: list[FrontEndEffect] = []
        for effect in effects:
            match effect:
                case ToBroker(broker, request):
                    found.append(AskBroker(broker, client, request))
                case WakeUp(at_us):
                    self._wake_us[client] = at_us
                case Record():
                    found.append(effect)
        return found

    def _file(self, client: ClientId, brokers: tuple[BrokerId, ...]) -> None:
        """Record the brokers at which a client publishes."""
        before = self._brokers.get(client, ())
        if brokers == before:
            return
        for broker in dict.fromkeys(before):
            del self._clients[broker][client]
            if not self._clients[broker]:
                del self._clients[broker]
        for broker in brokers:
            self._clients.setdefault(broker, {})[client] = None
        if brokers:
            self._brokers[client] = brokers
        else:
            del self._brokers[client]
