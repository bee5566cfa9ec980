"""The publishers of one broker's MQTT clients: they move, their clients stay.

A client that advertises is a publisher of its own, and whatever moves publishers moves it to
another broker.  An MQTT client knows nothing of that: its first broker, the door, keeps its
connection, runs the `Publisher` machine for it, and asks the broker where it now publishes.

Pure: effects say which broker to ask, the door's own or a distant one.

>>> from shoal.broker.messages import Advertise
>>> from shoal.clients.messages import Relocate
>>> from shoal.language import parse
>>> from shoal.model import Advertisement
>>> publishers = Publishers("B1")
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

from shoal.broker.custody import marked
from shoal.broker.effects import Record
from shoal.broker.messages import Advertise, Message, Publish, Unadvertise
from shoal.clients.courier_messages import ClientRequest
from shoal.clients.publisher import Publisher, PublisherEffect, ToBroker, WakeUp
from shoal.model import AdvertisementId, BrokerId, ClientId

# Requests that are held back for one client before no more is read from it; each is what one
# read of its connection brought.
MAX_HELD_BACK = 200


class AskBroker(msgspec.Struct, frozen=True):
    """Effect: a client asks this broker, behind all it has asked it before."""

    broker: BrokerId
    client: ClientId
    request: Message


DoorEffect = AskBroker | Record


class Publishers:
    """The publishers whose door `home` is."""

    def __init__(self, home: BrokerId) -> None:
        self._home = home
        self._publishers: dict[ClientId, Publisher] = {}
        self._advertised: dict[ClientId, set[AdvertisementId]] = {}
        # Where each publishes, from where it comes and where it goes; and who does there.
        self._brokers: dict[ClientId, tuple[BrokerId, ...]] = {}
        self._clients: dict[BrokerId, dict[ClientId, None]] = {}
        # Brokers that do not answer; and brokers that may not be sent more just now.
        self._lost: set[BrokerId] = set()
        self._full: set[BrokerId] = set()
        # When publishers that move must be woken.
        self._wake_us: dict[ClientId, int] = {}

    # --- what a driver asks -------------------------------------------------------------------

    def __contains__(self, client: object) -> bool:
        return client in self._publishers

    def __iter__(self) -> Iterator[Publisher]:
        return iter(tuple(self._publishers.values()))

    @property
    def deadline_us(self) -> int | None:
        """When `advance` is to be called, whatever else happens until then."""
        return min(self._wake_us.values(), default=None)

    def uses(self, broker: BrokerId) -> bool:
        """Whether somebody publishes there, or is on the way."""
        return broker in self._clients

    def those_at(self, broker: BrokerId) -> tuple[ClientId, ...]:
        """The clients that publish there, or are on the way."""
        return tuple(self._clients.get(broker, ()))

    def is_at(self, client: ClientId, broker: BrokerId) -> bool:
        """Whether a client publishes there, and the broker answers."""
        publisher = self._publishers.get(client)
        return publisher is not None and publisher.brokers == (broker,) and broker not in self._lost

    def must_wait(self, client: ClientId) -> bool:
        """Whether no more should be read from this client for now."""
        publisher = self._publishers.get(client)
        if publisher is None:
            return False
        if publisher.moving:
            return publisher.held_back >= MAX_HELD_BACK
        return publisher.broker in self._full

    # --- the clients' side --------------------------------------------------------------------

    def request(self, client: ClientId, request: Message, now_us: int) -> list[DoorEffect]:
        """A client asks: its first advertisement makes it a publisher, its last one's end ends it.

        It counts its moves from the time on, so that it is believed above any earlier publisher
        of its name.
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
    ) -> list[DoorEffect]:
        """A broker tells a client something."""
        publisher = self._publishers.get(client)
        if publisher is None:
            return []
        return self._told(publisher, publisher.notified(broker, message, now_us))

    def lost(self, broker: BrokerId, now_us: int) -> list[DoorEffect]:
        """A broker does not answer: who is on the way there goes back."""
        self._lost.add(broker)
        effects: list[DoorEffect] = []
        for client in self.those_at(broker):
            publisher = self._publishers[client]
            effects += self._told(publisher, publisher.lost(broker, now_us))
        return effects

    def found(self, broker: BrokerId) -> None:
        """A broker answers again and knows all it knew."""
        self._lost.discard(broker)

    def forgotten(
        self, broker: BrokerId, requests: Sequence[ClientRequest], now_us: int
    ) -> list[DoorEffect]:
        """A broker is back and knows nothing, nor has it handled these requests.

        Who published there comes home: here the subscriptions still are.
        """
        self._lost.discard(broker)
        effects: list[DoorEffect] = []
        for publisher, asked in self._concerned(broker, requests):
            if publisher.brokers == (broker,):
                effects += self._told(publisher, publisher.come_home(self._home, asked, now_us))
            else:
                effects += self._told(publisher, publisher.reconnected(broker, now_us))
                effects += self._told(publisher, publisher.again(asked, now_us))
        return effects

    def stranded(
        self, broker: BrokerId, requests: Sequence[ClientRequest], now_us: int
    ) -> list[DoorEffect]:
        """A broker counts as gone, with these requests: who publishes there comes home.

        So does who is on the way from or to it: the rest of its path may hang for much longer.
        """
        self._lost.add(broker)
        effects: list[DoorEffect] = []
        for publisher, asked in self._concerned(broker, requests):
            if broker in publisher.brokers:
                effects += self._told(publisher, publisher.come_home(self._home, asked, now_us))
            else:
                effects += self._told(publisher, publisher.again(asked, now_us))
        return effects

    def filled(self, broker: BrokerId, full: bool) -> None:
        """The way to a broker is full, or is not any more."""
        if full:
            self._full.add(broker)
        else:
            self._full.discard(broker)

    def advance(self, now_us: int) -> list[DoorEffect]:
        """The time of `deadline_us` has come."""
        effects: list[DoorEffect] = []
        for client, at_us in list(self._wake_us.items()):
            if at_us <= now_us:
                del self._wake_us[client]
                publisher = self._publishers[client]
                effects += self._told(publisher, publisher.woken(now_us))
        return effects

    def _concerned(
        self, broker: BrokerId, requests: Sequence[ClientRequest]
    ) -> list[tuple[Publisher, list[Publish]]]:
        """Who is at a broker or has asked it one of these, with what it is to ask again.

        That is publications, marked; all else a publisher says anew by itself.
        """
        asked: dict[ClientId, list[Publish]] = {client: [] for client in self.those_at(broker)}
        for each in requests:
            if each.client in self._publishers and isinstance(each.request, Publish):
                again = Publish(tuple(map(marked, each.request.publications)))
                asked.setdefault(each.client, []).append(again)
        return [(self._publishers[client], again) for client, again in asked.items()]

    def _told(self, publisher: Publisher, effects: list[PublisherEffect]) -> list[DoorEffect]:
        """What a publisher's effects are for the door.

        One that advertises nothing any more leaves, as soon as nothing of its is held back.
        """
        client = publisher.client
        if not self._advertised[client] and not publisher.moving:
            effects = [*effects, *publisher.leave()]
            del self._publishers[client], self._advertised[client]
            self._wake_us.pop(client, None)
        self._file(client, publisher.brokers if client in self._publishers else ())
        found: list[DoorEffect] = []
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
        """A client publishes at these now."""
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
