"""Random kills under MQTT clients: brokers with links and journals, in memory, and their clients.

Every broker is a machine, its links, its MQTT side and a journal. Writes and messages keep the
order of a flush, and a kill may come between any two phases. Subscribers move between brokers,
request their session and hang up, share subscriptions, and are connected at the moment of a kill. A
publication acknowledged as settled reaches every subscriber, at QoS 2 once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

import msgspec

from shoal.mqtt.codec.packets import (
    Connack,
    Connect,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
    SubscriptionRequest,
    Unsubscribe,
)
from shoal.mqtt.codec.properties import NO_PROPERTIES
from shoal.mqtt.federation.session_transfer.importing import ARRIVING_US
from tests.mqtt.backlogs import counted_again
from tests.mqtt.broker_api import SECOND, Client
from tests.seeds.sessions.session_network import KEPT, Network

# The longest down time of brokers: beyond a client's wait for its session, or not.
SHORT_US = 6 * SECOND
LONG_US = 30 * SECOND
# Its last announcement may be a second old, and its links take a while to come up.
MEETING_US = 3 * SECOND // 2


class ReconnectingClient:
    """A client that reconnects by itself. `is_in`: it has its CONNACK."""

    def __init__(self, network: Network, name: str) -> None:
        self.network, self.name, self.terms = network, name, KEPT
        self.client: Client | None = None
        self.is_in = False
        self.times_in = 0

    @property
    def is_here(self) -> bool:
        return self.client is not None and not self.client.closed

    def go_to(self, broker: str) -> None:
        self.leave()
        site = self.network.sites.get(broker)
        if site is not None:
            self.client = site.open()
            self.client.send(Connect(self.name, clean_start=False, properties=self.terms))

    def leave(self) -> None:
        if self.is_here:
            assert self.client is not None
            self.client.lose()
        self.client, self.is_in = None, False

    def look(self) -> None:
        """Take the packets, and answer them."""
        client = self.client
        while client is not None and (packets := client.take()):
            for packet in packets:
                if isinstance(packet, Connack):
                    self.is_in = not packet.reason_code
                    if self.is_in:
                        assert packet.session_present == (self.times_in > 0), (
                            f"{self.name} lost its session"
                        )
                        self.times_in += 1
                        self.entered(client)
                else:
                    self.take(client, packet)
        if not self.is_here:
            self.client, self.is_in = None, False

    def entered(self, client: Client) -> None: ...

    def take(self, client: Client, packet: Any) -> None: ...


class Subscriber(ReconnectingClient):
    """Has one subscription at QoS 2, and records payload and QoS of each message."""

    def __init__(self, network: Network, name: str, topic_filter: str = "a") -> None:
        super().__init__(network, name)
        self.topic_filter = topic_filter
        self.is_subscribed = False
        self.taken: list[tuple[bytes, int]] = []
        self.held: set[int] = set()

    def entered(self, client: Client) -> None:
        if not self.is_subscribed:
            client.send(Subscribe(1, (SubscriptionRequest(self.topic_filter, 2),)))

    def take(self, client: Client, packet: Any) -> None:
        match packet:
            case Suback():
                self.is_subscribed = True
            case Publish(qos=1):
                self.taken.append((packet.payload, 1))
                self._say(client, Puback(packet.packet_id))
            case Publish(qos=2):
                if packet.packet_id not in self.held:
                    self.held.add(packet.packet_id)
                    self.taken.append((packet.payload, 2))
                self._say(client, Pubrec(packet.packet_id))
            case Pubrel():
                self.held.discard(packet.packet_id)
                self._say(client, Pubcomp(packet.packet_id))

    def _say(self, client: Client, packet: Any) -> None:
        if not client.closed:
            client.send(packet)


class OccasionalSubscriber(Subscriber):
    """Subscribes to everything and unsubscribes again, so that other subscriptions are covered for
    a time.
    """

    def look(self) -> None:
        super().look()
        client = self.client
        if self.is_in and client is not None and not client.closed:
            match self.network.random.randrange(4):
                case 0:
                    client.send(Subscribe(2, (SubscriptionRequest("#", 1),)))
                case 1:
                    client.send(Unsubscribe(3, ("#",)))


class Publisher(ReconnectingClient):
    """Publishes, and retransmits publications that were not acknowledged before a disconnection."""

    properties = NO_PROPERTIES

    def __init__(self, network: Network, name: str, home: str) -> None:
        super().__init__(network, name)
        self.home = home
        self.sent: dict[int, tuple[bytes, int]] = {}
        self.sent_us: dict[bytes, int] = {}
        self._unacknowledged: dict[int, Any] = {}
        self.acknowledged: list[tuple[bytes, int]] = []
        self.count = 0

    def publish(self, qos: int) -> None:
        self.count += 1
        payload = f"{self.name} {self.count}".encode()
        self.sent[self.count] = (payload, qos)
        self.sent_us[payload] = self.network.now_us
        self._unacknowledged[self.count] = Publish(
            "a", payload, qos, packet_id=self.count, properties=self.properties
        )
        if self.is_in and self.client is not None:
            self.client.send(self._unacknowledged[self.count])

    def entered(self, client: Client) -> None:
        for packet in list(self._unacknowledged.values()):
            if client.closed:
                return
            if isinstance(packet, Publish):
                client.send(msgspec.structs.replace(packet, duplicate=True))
            else:
                client.send(packet)

    def take(self, client: Client, packet: Any) -> None:
        number = getattr(packet, "packet_id", 0)
        match packet:
            case Puback():
                del self._unacknowledged[number]
                self.acknowledged.append(self.sent[number])
            case Pubrec():
                self.acknowledged.append(self.sent[number])
                self._unacknowledged[number] = Pubrel(number)
                if not client.closed:
                    client.send(Pubrel(number))
            case Pubcomp():
                self._unacknowledged.pop(number, None)


# Events with their weights; and the same with moves about six times as frequent.
WHAT = ("publish", "move", "flush", "go", "leave", "look", "kill", "start", "wait")
MOVES = (20, 30, 15, 4, 2, 10, 1.5, 5, 10)
RESTLESS = (20, 30, 15, 25, 1, 15, 2, 5, 8)


class RandomSessions:
    """Some subscribers that move, publishers that stay, and brokers that are killed."""

    publisher = Publisher

    def __init__(
        self, seed: int, moves: Sequence[float] = MOVES, more: int = 0, dabblers: int = 0
    ) -> None:
        self.random = random = Random(seed)
        self.moves = moves
        self.network = Network(random, random.randint(2, 4) + more)
        self.subscribers = self.subscribers_of()
        # Each member of a group gets a part of its messages.
        self.workers = [Subscriber(self.network, f"w{n}", "$share/g/a") for n in range(2)]
        self.dabblers = [OccasionalSubscriber(self.network, f"d{n}", "#") for n in range(dabblers)]
        self.publishers = [
            self.publisher(self.network, f"p{n}", name) for n, name in enumerate(self.network.names)
        ]
        self.network.settle(3)
        for person in self.roamers:
            person.go_to(random.choice(self.network.names))
        self._come_in(3)
        assert all(each.is_subscribed for each in self.roamers)
        # Brokers that must be back, with the time.
        self.down: dict[str, int] = {}
        self.long: set[str] = set()
        # An arrived session does not wait longer for a broker that is down; two brokers that die
        # together lose more than either.
        self.is_in_order = True
        self.killed_us = 0

    def subscribers_of(self) -> list[Subscriber]:
        """The subscribers that roam and belong to no group."""
        return [Subscriber(self.network, f"s{n}") for n in range(2)]

    @property
    def roamers(self) -> list[Subscriber]:
        return [*self.subscribers, *self.workers, *self.dabblers]

    @property
    def people(self) -> list[ReconnectingClient]:
        return [*self.roamers, *self.publishers]

    def _come_in(self, seconds: int) -> None:
        for _ in range(seconds):
            for person in self.publishers:
                if not person.is_here:
                    person.go_to(person.home)
            self.network.settle(1)
            for person in self.people:
                person.look()

    def play(self) -> None:
        random, network = self.random, self.network
        for _ in range(random.randint(100, 400)):
            pair = random.choice(list(network.buffers) or [("", "")])
            match random.choices(WHAT, self.moves)[0]:
                case "publish":
                    random.choice(self.publishers).publish(random.choice((1, 2)))
                case "move":
                    network.connect()
                    network.move(*pair, random.choice((50, 1_000, 10_000)))
                case "flush":
                    random.choice(list(network.sites.values())).flush()
                case "go":
                    random.choice(self.roamers).go_to(random.choice(network.names))
                case "leave":
                    random.choice(self.roamers).leave()
                case "look":
                    random.choice(self.people).look()
                case "kill":
                    self.kill()
                case "start":
                    for name in list(self.down):
                        if random.random() < 0.3:
                            self.start(name)
                    for person in self.publishers:
                        if not person.is_here:
                            person.go_to(person.home)
                case "wait":
                    seconds = random.choice((0.001, 0.01, 0.1, 0.5, 2))
                    if seconds > 0.1:  # no link is slower than that
                        network.settle(seconds)
                    else:
                        network.pass_time(seconds)
                    for name, until_us in list(self.down.items()):
                        if until_us <= network.now_us:
                            self.start(name)

    def kill(self) -> None:
        """Kill one for a long time, or several for a short one."""
        network = self.network
        if len(network.sites) > 1:
            name = self.random.choice(list(network.sites))
            self.is_in_order &= network.now_us - self.killed_us > ARRIVING_US
            self.killed_us = network.now_us
            is_long = not self.down and self.random.random() < 0.3
            network.kill(name)
            self.long.discard(name)
            if is_long:
                self.long.add(name)
            self.down[name] = network.now_us + (LONG_US if is_long else SHORT_US)

    def start(self, name: str) -> None:
        self.network.now_us += SECOND // 5  # no process starts in less
        killed_us = self.down.pop(name) - (LONG_US if name in self.long else SHORT_US)
        self.is_in_order &= self.network.now_us - killed_us < ARRIVING_US - MEETING_US
        self.network.start(name)

    def end(self) -> None:
        """All brokers run, and all clients are connected until nothing more arrives."""
        self.come_to_rest()
        for person in self.roamers:
            for _ in range(5):
                if not person.is_in:
                    person.go_to(self.random.choice(self.network.names))
                    self._come_in(12)
        self._come_in(30)

    def come_to_rest(self) -> None:
        """All brokers run, and no other client connects."""
        for name in list(self.down):
            self.start(name)
        self._come_in(15)

    def astray(self) -> list[tuple[str, str, str | None]]:
        """Clients whose session a broker expects where it is not."""
        found = []
        for person in self.roamers:
            name = person.name
            at = [
                broker
                for broker, site in self.network.sites.items()
                if name in site.clients.sessions
            ]
            for broker, site in self.network.sites.items():
                assert site.clients.federation is not None
                home = site.clients.federation.session_transfer.homes.get(name)
                if broker not in at and home not in at:
                    found.append((name, broker, home))
        return found

    def check(self) -> None:
        for site in self.network.sites.values():
            assert site.clients.backlog.bytes == counted_again(site.clients)
        for person in self.people:
            assert person.is_in, f"{person.name} was not admitted"
        for publisher in self.publishers:
            assert not publisher._unacknowledged, publisher.name
        together = Counter(each for worker in self.workers for each in worker.taken)
        for publisher in self.publishers:
            lost = [each for each in publisher.acknowledged if each not in together]
            assert not lost, f"the group lost {lost}"
        twice = [each for each, count in together.items() if each[1] == 2 and count > 1]
        # If the publisher's broker and the member's die together, no broker may know of the
        # delivery.
        assert not (twice and self.is_in_order), f"the group got twice {twice}"
        for subscriber in self.subscribers:
            taken = Counter(subscriber.taken)
            for publisher in self.publishers:
                acknowledged = set(publisher.acknowledged)
                lost = [each for each in acknowledged if each not in taken]
                assert not lost, f"{subscriber.name} lost {sorted(lost)}"
                if self.is_in_order:  # retransmissions at QoS 1 may be late
                    order = [each for each in publisher.sent.values() if each in taken]
                    order = [each for each in order if each[1] == 2]
                    found = [each for each in dict.fromkeys(subscriber.taken) if each in order]
                    assert found == order, f"{subscriber.name} out of order: {found}"
            twice = [each for each, count in taken.items() if each[1] == 2 and count > 1]
            assert not twice, f"{subscriber.name} got twice {twice}"


def play(
    seed: int, moves: Sequence[float] = MOVES, more: int = 0, dabblers: int = 0
) -> RandomSessions:
    """Play a random network of brokers; AssertionError if a promise is broken."""
    life = RandomSessions(seed, moves, more, dabblers)
    life.play()
    life.end()
    life.check()
    return life
