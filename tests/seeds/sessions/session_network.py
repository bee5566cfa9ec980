"""Brokers with sessions of clients, killed and restarted from their journals."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Any

from shoal.broker.ack_tracker import AckTracker, is_assured
from shoal.broker.effects import (
    Deliver,
    Input,
    LinkChanged,
    LinkReady,
    Received,
    Requested,
    Returned,
    Send,
    SetTimer,
    Started,
    TimerFired,
)
from shoal.broker.links.controls import CONTROLS
from shoal.broker.links.outbox import LinkLimits
from shoal.broker.links.session import LinkSession
from shoal.broker.machine import Broker
from shoal.broker.messages import Publish as PublishRequest
from shoal.broker.messages import Subscribe as SubscribeRequest
from shoal.broker.wire import COMMON, Codec
from shoal.mqtt.broker_clients import BrokerClients
from shoal.mqtt.codec.properties import Properties
from shoal.mqtt.connection.effects import Ask, ClientEffect, Write
from shoal.mqtt.federation.controls import LogAsked
from shoal.mqtt.memory.journal_records import read_records
from shoal.mqtt.replaying.reading import ReadLog
from shoal.mqtt.restoring import Remembered, restore
from shoal.overlays.registry import SYSTEMS, strategy_factory
from shoal.runtime.driving.batches import joined
from shoal.runtime.driving.recording import Recording
from shoal.runtime.driving.settling import Settling
from tests.mqtt.broker_api import SECOND, BrokerApi
from tests.mqtt.memory_log import MemoryLog, MemoryLogWriter

LIMITS = LinkLimits(silence_us=2**60)
KEPT = Properties(session_expiry_interval_s=100_000)
CODEC = Codec(COMMON + CONTROLS + SYSTEMS["tree"].messages)


class Site(BrokerApi):
    """One incarnation of a broker; `disk` has the batches of all its incarnations."""

    def __init__(self, network: Network, name: str, incarnation: int, disk: list[bytes]) -> None:
        super().__init__()
        self.network, self.name, self.disk = network, name, disk
        self.now_us = network.now_us
        neighbours = network.neighbours[name]
        self.machine = Broker(name, (), strategy_factory("tree"), network.seed, neighbours)
        self.links = {
            other: LinkSession(
                "n", name, other, incarnation, CODEC, LIMITS, is_graceful=True, opened_us=0
            )
            for other in neighbours
        }
        self.clients = BrokerClients(name, self.now_us, limits=self.clients.limits, networked=True)
        assert self.clients.federation is not None
        self.clients.federation.session_transfer.starting.others = lambda: (
            set(network.names) - {name}
        )
        remembered = Remembered()
        for batch in disk:
            remembered.apply(read_records(batch))
        assert restore(self.clients, remembered, self.now_us) == []
        assert self.clients.journal is not None
        assert self.clients.arrivals is not None
        self.clients.arrivals.begin_deduplication(self.clients.journal.heard)
        self.log = MemoryLogWriter(network.logs[name])
        assert self.clients.front_end is not None
        last_number = network.logs[name].last_number
        for message in self.clients.front_end.retransmitted_above(last_number):
            self.log.note(message)
        self.clients.at_publication = self.log.note
        self.clients.replays.has_log = True
        self.clients.replays.brokers = lambda: network.names
        # In every other seed a message for two clients counts as one for many.
        if network.seed % 2:
            self.clients.spreading.most = 1
        self.settling = Settling(Recording())
        self.timers: dict[Any, int] = {}
        self.delivered: list[Deliver] = []
        self.gathered: list[ClientEffect] = []
        self.held_back: list[Requested] = []
        # Questions about the log.
        self.unread: list[LogAsked] = []
        self.written: dict[str, bytes] = {}
        self.bring(Started(tuple(self.clients.journal.neighbours)))
        self.carry_out(self.clients.take_effects())
        self.flush()

    # --- the machine --------------------------------------------------------------------------

    def bring(self, input: Input, ack_tracker: AckTracker | None = None) -> None:
        for effect in self.machine.handle(input, self.network.now_us):
            match effect:
                case Send(neighbour, message):
                    kept = ack_tracker if is_assured(message) else None
                    assert self.links[neighbour].send(message, kept)
                case Deliver():
                    self.settling.has_delivered = True
                    self.delivered.append(effect)
                case LinkReady(neighbour):
                    self.links[neighbour].open_gate()
                    self.clients.linked(neighbour, True, self.network.now_us)
                case SetTimer(key, at_us):
                    self.timers[key] = at_us
        if ack_tracker is not None:
            self.settling.settle(ack_tracker, is_delivered=self.settling.has_delivered)
        if self.held_back and self.machine.is_ready:
            held_back, self.held_back = self.held_back, []
            for requested in held_back:
                self.ask(requested)

    def ask(self, requested: Requested) -> None:
        request = requested.request
        if isinstance(request, PublishRequest):
            if not self.machine.is_ready:
                self.held_back.append(requested)
                return
            self.bring(requested, AckTracker(partial(self.settled, request.publications)))
        elif isinstance(request, SubscribeRequest):
            self.bring(requested, AckTracker(partial(self.clients.stored, request.subscription.id)))
        else:
            self.bring(requested)

    def settled(self, publications: Any) -> None:
        if self.network.sites.get(self.name) is self:
            self.clients.settled(publications)

    def take(self, neighbour: str) -> None:
        """Handle the content of a link."""
        link = self.links[neighbour]
        messages = link.take()
        first = link.handled - len(messages)
        for message, count in joined(messages):
            ack_tracker = None
            if is_assured(message):
                debt = link.owe(first, first + count - 1)
                ack_tracker = AckTracker(partial(link.settle, debt))
            self.bring(Received(neighbour, message), ack_tracker)
            first += count

    def changed(self, changes: list[LinkChanged]) -> None:
        for change in changes:
            self.bring(change)
        for other, link in self.links.items():
            for carrier, ack_tracker in link.returned():
                self.bring(Returned(other, carrier), ack_tracker)

    # --- a flush ------------------------------------------------------------------------------

    def carry_out(self, effects: Any) -> None:
        for effect in effects:
            if isinstance(effect, Ask):
                self.ask(effect.input)
            elif isinstance(effect, ReadLog):
                self.unread.append(effect.asked)
            else:
                self.gathered.append(effect)

    def flush(self, phases: int = 4) -> None:
        """Deliver, record, links, clients; fewer phases if it is killed meanwhile."""
        self.now_us = self.network.now_us
        self.carry_out(self.clients.take_effects())
        while self.delivered:
            delivered, self.delivered = self.delivered, []
            self.carry_out(self.clients.deliver(delivered, self.now_us))
        if phases < 2:
            return
        self.settling.is_delivering = self.clients.spreading.is_on
        self.settling.look()
        assert self.clients.journal is not None
        if batch := self.clients.journal.take():
            self.disk.append(batch)
        if phases < 3:
            return
        self.log.write()
        for other, link in self.links.items():
            self.network.write(self.name, other, link.to_write())
        if phases < 4:
            return
        self.carry_out(self.clients.take_effects())
        gathered, self.gathered = self.gathered, []
        super().carry_out(
            effect
            for effect in gathered
            if not isinstance(effect, Write) or not self._ends[effect.connection].closed
        )
        for connection in list(self._ends):
            if connection.holds and not connection.must_wait:
                self.carry_out(connection.take_held(self.now_us))

    def tick(self) -> None:
        """Read the log, and fire the timers that are due."""
        now_us = self.now_us = self.network.now_us
        unread, self.unread = self.unread, []
        for asked in unread:
            self.clients.replays.told(asked, self.log.read(asked, now_us), now_us)
        if unread:
            self.carry_out(self.clients.take_effects())
        deadline_us = self.clients.deadline_us
        for _ in range(self.network.slices):
            if deadline_us is not None and deadline_us <= now_us:
                self.carry_out(self.clients.advance(now_us))
            if not self.clients.spreading.is_on:
                break
        for key, at_us in list(self.timers.items()):
            if at_us <= now_us:
                del self.timers[key]
                self.bring(TimerFired(key))
        for link in self.links.values():
            self.changed(link.tick(now_us))


class Network:
    """A tree of such brokers. `sites` are the running ones."""

    def __init__(self, random: Random, brokers: int) -> None:
        self.random = random
        self.seed = random.getrandbits(32)
        # Slices of a fan-out in one tick.
        self.slices = 1
        self.now_us = 1_000 * SECOND
        self.names = [f"B{number}" for number in range(brokers)]
        self.pairs = [(self.names[random.randrange(n)], self.names[n]) for n in range(1, brokers)]
        self.neighbours = {
            name: tuple(a if b == name else b for a, b in self.pairs if name in (a, b))
            for name in self.names
        }
        self.disks: dict[str, list[bytes]] = {name: [] for name in self.names}
        self.logs = {name: MemoryLog() for name in self.names}
        self.sites: dict[str, Site] = {}
        # Bytes under way by sender and receiver, where there is a connection.
        self.buffers: dict[tuple[str, str], bytearray] = {}
        self._incarnation = 0
        for name in self.names:
            self.start(name)

    def start(self, name: str) -> None:
        self._incarnation += 1
        self.sites[name] = Site(self, name, self._incarnation, self.disks[name])

    def kill(self, name: str) -> None:
        """Kill a broker, perhaps in the middle of a flush; written bytes may still arrive."""
        site = self.sites[name]
        site.flush(self.random.randrange(5))
        for other in self.neighbours[name]:
            if self.random.random() < 0.5:
                self.move(name, other, 10**6)
            self.cut(name, other)
        del self.sites[name]
        for client in site._ends.values():
            client.closed = True

    def cut(self, name: str, other: str) -> None:
        if self.buffers.pop((name, other), None) is not None:
            del self.buffers[other, name]
            self.sites[name].links[other].lost(self.now_us)
            self.sites[other].links[name].lost(self.now_us)

    def connect(self) -> None:
        """Connect every two running neighbours."""
        for left, right in self.pairs:
            if (left, right) in self.buffers or not {left, right} <= self.sites.keys():
                continue
            one, two = self.sites[left].links[right], self.sites[right].links[left]
            said, answer = one.hello(), two.hello()
            self.buffers[left, right] = bytearray()
            self.buffers[right, left] = bytearray()
            self.sites[right].changed(two.connected(said, self.now_us))
            self.sites[left].changed(one.connected(answer, self.now_us))

    def write(self, name: str, other: str, data: bytes) -> None:
        if (name, other) in self.buffers:
            self.buffers[name, other] += data

    def move(self, name: str, other: str, size: int) -> None:
        """Some bytes arrive, and are handled."""
        buffer = self.buffers.get((name, other))
        if buffer:
            data = bytes(buffer[:size])
            del buffer[:size]
            self.sites[other].links[name].receive(data, self.now_us)
            self.sites[other].take(name)

    def pass_time(self, seconds: float) -> None:
        self.now_us += round(seconds * SECOND)
        for site in self.sites.values():
            site.tick()

    def flush(self) -> None:
        for site in list(self.sites.values()):
            site.flush()

    def settle(self, seconds: float) -> None:
        """Connect everything, and let all messages arrive, for so long."""
        for _ in range(round(seconds / 0.1)):
            self.connect()
            self.flush()
            for name, other in list(self.buffers):
                self.move(name, other, 10**6)
            self.pass_time(0.1)
