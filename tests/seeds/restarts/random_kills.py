"""Random kills of brokers with real tables and links, in memory.

Every broker is a machine, its links and a front end. Subscriptions and deliveries are on disk and
survive a kill; all else is lost. A settled publication must have been delivered to every subscriber
at that moment. With spools it must be on a broker's disk for the others, and reach them in the end.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from random import Random

from shoal.broker.ack_tracker import AckTracker, is_assured
from shoal.broker.effects import (
    Deliver,
    Input,
    LinkChanged,
    LinkReady,
    Received,
    Requested,
    Send,
    Started,
)
from shoal.broker.links.controls import CONTROLS
from shoal.broker.links.inbox import Debt
from shoal.broker.links.outbox import LinkLimits
from shoal.broker.links.session import LinkSession
from shoal.broker.links.spool import Spool
from shoal.broker.links.states import LinkSessionState
from shoal.broker.machine import Broker
from shoal.broker.messages import Advertise, PublicationBatch, Publish, Subscribe
from shoal.broker.wire import COMMON, HEAD_BYTES, Codec
from shoal.language import parse
from shoal.model import EVERYTHING, Advertisement, Filter, Publication, Subscription
from shoal.mqtt.front_end.deduplication import OrderedDeduplication
from shoal.overlays.registry import SYSTEMS, strategy_factory
from shoal.overlays.tree.oracle import check_tables, expected_tables
from shoal.overlays.tree.placeholder import placeholder
from shoal.runtime.driving.batches import joined
from tests.broker.links.memory_disk import Disk
from tests.systems import covering

LIMITS = LinkLimits(window_bytes=600, silence_us=2**60, give_up_us=2**60)


class FrontEnd:
    """The durable part of a broker: subscribers, deliveries, and spools."""

    def __init__(self, name: str, wanted: Filter | None) -> None:
        self.name = name
        self.wanted = wanted
        self.delivered: list[tuple[str, int]] = []
        self.next_sequence = 0
        self.was_killed = False
        self.disks: dict[str, Disk] = {}


class Site:
    """One incarnation of a broker."""

    def __init__(self, network: Network, front_end: FrontEnd, incarnation: int) -> None:
        self.network = network
        self.front_end = front_end
        name = front_end.name
        neighbours = network.neighbours[name]
        factory = strategy_factory(network.system, network.parameters)
        self.machine = Broker(name, (), factory, network.seed, neighbours)
        self.codec = Codec(COMMON + CONTROLS + SYSTEMS[network.system].messages)
        self.spools: dict[str, Spool] = {}
        if network.is_stored:
            self.spools = {
                other: Spool(front_end.disks.setdefault(other, Disk()), 2**60, segment_bytes=300)
                for other in neighbours
            }
        self.links = {other: self._link(other, incarnation) for other in neighbours}
        # Neighbours that have not sent their tables since the broker's start.
        self.expected = dict.fromkeys(self.spools if front_end.was_killed else ())
        for other in self.expected:
            self.links[other].expect(network.now_us)
        self.repeats = OrderedDeduplication({})
        self.waiting: deque[Publication] = deque()
        self.bring(Started())
        promise = Advertisement(id=f"a/{name}", publisher=name, filter=EVERYTHING)
        self.bring(Requested(name, Advertise(promise)))
        if front_end.wanted is not None:
            interest = Subscription(id=f"s/{name}", client=name, filter=front_end.wanted)
            self.bring(Requested(name, Subscribe(interest)))

    def _link(self, other: str, incarnation: int) -> LinkSession:
        spool = self.spools.get(other)
        name, codec = self.front_end.name, self.codec
        return LinkSession(
            "n",
            name,
            other,
            incarnation,
            codec,
            LIMITS,
            is_graceful=True,
            spool=spool,
            opened_us=0,
        )

    def record(self) -> None:
        """Write the records of spools."""
        for spool in self.spools.values():
            spool.write(2**60)

    def wait(self) -> None:
        """Let time pass."""
        for other, link in self.links.items():
            assert not link.tick(self.network.now_us)
            if other in self.expected and link.state is LinkSessionState.AWAY:
                del self.expected[other]
                for input in placeholder(other, self.front_end.name):
                    self.bring(input)
        self.record()

    def bring(self, input: Input, ack_tracker: AckTracker | None = None) -> None:
        now_us = self.network.now_us
        for effect in self.machine.handle(input, now_us):
            match effect:
                case Send(neighbour, message):
                    kept = ack_tracker if is_assured(message) else None
                    assert self.links[neighbour].send(message, kept)
                case Deliver(routed=routed):
                    if self.repeats.take(routed.publication):
                        self.front_end.delivered.append(routed.publication.key)
                case LinkReady(neighbour):
                    self.expected.pop(neighbour, None)
                    self.links[neighbour].open_gate()
        if ack_tracker is not None:
            ack_tracker.settle()
        while self.waiting and self.machine.is_ready:
            self._publish(self.waiting.popleft())

    def publish(self, x: int) -> None:
        publication = Publication(
            publisher=self.front_end.name,
            sequence=self.front_end.next_sequence,
            published_us=self.network.now_us,
            attributes={"x": x},
            assured=True,
        )
        self.front_end.next_sequence += 1
        if self.machine.is_ready:
            self._publish(publication)
        else:
            self.waiting.append(publication)

    def _publish(self, publication: Publication) -> None:
        ack_tracker = AckTracker(partial(self.network.settled, self, publication))
        self.bring(Requested(self.front_end.name, Publish((publication,))), ack_tracker)

    def take(self, neighbour: str) -> None:
        """Handle the content of a link."""
        link = self.links[neighbour]
        messages = link.take()
        first = link.handled - len(messages)
        for message, count in joined(messages):
            ack_tracker = None
            if is_assured(message):
                debt = link.owe(first, first + count - 1)
                ack_tracker = AckTracker(partial(self._settle, link, debt))
            self.bring(Received(neighbour, message), ack_tracker)
            first += count

    def _settle(self, link: LinkSession, debt: Debt) -> None:
        link.settle(debt)

    def changed(self, changes: list[LinkChanged]) -> None:
        for change in changes:
            self.bring(change)


class Network:
    """A tree of such brokers, and the connections between them."""

    def __init__(
        self,
        random: Random,
        system: str = "tree",
        brokers: int = 4,
        *,
        is_stored: bool = False,
        is_covering: bool = False,
    ) -> None:
        self.is_stored = is_stored
        self.parameters = covering(system, None) if is_covering else None
        self.seed = random.getrandbits(32)
        self.system = system
        self.random = random
        self.now_us = 0
        self.published = 0
        self.settled_count = 0
        self.promised: list[Publication] = []
        names = [f"B{number}" for number in range(brokers)]
        self.links = [(names[random.randrange(n)], names[n]) for n in range(1, brokers)]
        self.neighbours: dict[str, tuple[str, ...]] = {
            name: tuple(a if b == name else b for a, b in self.links if name in (a, b))
            for name in names
        }
        self.front_ends = {name: FrontEnd(name, self._interest()) for name in names}
        self._incarnation = 0
        # By link: the bytes under way in each direction, from its first end and from its second.
        self.connections: dict[tuple[str, str], tuple[bytearray, bytearray]] = {}
        self.sites: dict[str, Site] = {}
        for name in names:
            self.start(name)

    def _interest(self) -> Filter | None:
        return parse(f"x >= {self.random.randrange(8)}") if self.random.random() < 0.7 else None

    # --- events -------------------------------------------------------------------------------

    def start(self, name: str) -> None:
        self._incarnation += 1
        self.sites[name] = Site(self, self.front_ends[name], self._incarnation)

    def kill(self, name: str) -> None:
        """Kill and restart it; its neighbours notice that the connections are gone."""
        self.front_ends[name].was_killed = True
        for link in [link for link in self.connections if name in link]:
            self.cut(link)
        self.start(name)

    def cut(self, link: tuple[str, str]) -> None:
        if self.connections.pop(link, None) is not None:
            for name, other in (link, link[::-1]):
                self.sites[name].links[other].lost(self.now_us)

    def connect(self, link: tuple[str, str]) -> None:
        self.cut(link)
        left, right = (self.sites[name].links[other] for name, other in (link, link[::-1]))
        said, answer = left.hello(), right.hello()
        self.connections[link] = bytearray(), bytearray()
        self.sites[link[1]].changed(right.connected(said, self.now_us))
        self.sites[link[0]].changed(left.connected(answer, self.now_us))

    def move(self, link: tuple[str, str], size: int, *, takes: bool) -> None:
        """Move some bytes over a link in both directions; the ends handle them, or not yet."""
        connection = self.connections.get(link)
        if connection is None:
            return
        for (name, other), there in zip((link, link[::-1]), connection, strict=True):
            self.sites[name].record()
            there += self.sites[name].links[other].to_write()
            data = bytes(there[:size])
            del there[:size]
            self.sites[other].links[name].receive(data, self.now_us)
            if takes:
                self.sites[other].take(name)

    def publish(self, name: str) -> None:
        self.published += 1
        self.sites[name].publish(self.random.randrange(10))

    def settled(self, site: Site, publication: Publication) -> None:
        """The publisher's broker settles a publication."""
        if self.sites.get(site.front_end.name) is not site:
            return  # the settlement of a dead broker
        self.settled_count += 1
        self.promised.append(publication)
        for front_end in self.lacking(publication):
            assert publication.key in self.stored(), (front_end.name, publication.key)

    def lacking(self, publication: Publication) -> list[FrontEnd]:
        """Its subscribers without a delivery."""
        x = publication.attributes["x"]
        return [
            front_end
            for front_end in self.front_ends.values()
            if front_end.wanted is not None
            and x >= _least(front_end.wanted)  # type: ignore[operator]
            and publication.key not in front_end.delivered
        ]

    def stored(self) -> set[tuple[str, int]]:
        """The publications on any broker's disk."""
        found = set()
        for name, site in self.sites.items():
            for disk in self.front_ends[name].disks.values():
                for record in [each for records in disk.kept.values() for each in records]:
                    message = site.codec.decode(record.data[HEAD_BYTES:])
                    if record.lasting and isinstance(message, PublicationBatch):
                        found |= {each.publication.key for each in message.publications}
        return found

    def wait(self) -> None:
        """Let time pass; disconnected brokers stay disconnected."""
        self.now_us += 3_000_000
        for site in self.sites.values():
            site.wait()

    def settle(self) -> None:
        """Connect everything, and let all messages arrive."""
        for link in self.links:
            if link not in self.connections:
                self.connect(link)
        for _ in range(60 * len(self.links)):
            for link in self.links:
                self.move(link, 10_000, takes=True)

    @property
    def is_quiet(self) -> bool:
        """Whether no link keeps anything for its other end."""
        return all(
            link.state is LinkSessionState.UP and not link.buffered_bytes
            for site in self.sites.values()
            for link in site.links.values()
        ) and not any(
            disk.kept for front_end in self.front_ends.values() for disk in front_end.disks.values()
        )

    def table_problems(self) -> list[str]:
        """Differences of brokers' tables, and of sent rows, from the right ones."""
        front_ends = self.front_ends.items()
        expected = expected_tables(
            self.links,
            [
                (Advertisement(id=f"a/{n}", publisher=n, filter=EVERYTHING), n)
                for n in self.front_ends
            ],
            [
                (Subscription(id=f"s/{name}", client=name, filter=front_end.wanted), name)
                for name, front_end in front_ends
                if front_end.wanted is not None
            ],
        )
        sites = self.sites.items()
        return check_tables(expected, {name: site.machine.strategy.tables for name, site in sites})

    def check(self) -> None:
        """Front ends that were never killed received everything once; all received settled ones in
        order.
        """
        for publication in self.promised:
            assert not self.lacking(publication), publication.key
        for front_end in self.front_ends.values():
            once = list(dict.fromkeys(front_end.delivered))
            if not front_end.was_killed:
                assert front_end.delivered == once, front_end.name
            for publisher in self.front_ends:
                numbers = [number for name, number in once if name == publisher]
                assert numbers == sorted(numbers), (front_end.name, publisher)


def _least(wanted: Filter) -> int:
    return int(wanted.expression.operand)  # type: ignore[union-attr, arg-type]


def play(seed: int, system: str = "tree", *, is_stored: bool = False) -> Network:
    """Play a random network, with covering for odd seeds; AssertionError if a promise is broken."""
    random = Random(seed)
    brokers, is_covering = random.randint(2, 5), bool(seed % 2)
    network = Network(random, system, brokers, is_stored=is_stored, is_covering=is_covering)
    network.settle()
    assert not network.table_problems()
    names = list(network.front_ends)
    for _ in range(random.randint(50, 400)):
        network.now_us += random.randint(0, 20_000)
        link = random.choice(network.links)
        match random.choices(
            ["publish", "move", "arrive", "connect", "cut", "kill", "wait"],
            [40, 40, 10, 8, 2, 1.5, 3 * is_stored],
        )[0]:
            case "publish":
                network.publish(random.choice(names))
            case "move":
                network.move(link, random.randint(1, 500), takes=True)
            case "arrive":
                network.move(link, random.randint(1, 500), takes=False)
            case "connect":
                if link not in network.connections:
                    network.connect(link)
            case "cut":
                network.cut(link)
            case "kill":
                network.kill(random.choice(names))
            case "wait":
                network.wait()
    network.settle()
    assert network.is_quiet
    assert not network.table_problems()
    network.check()
    return network
