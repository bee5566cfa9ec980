"""A stage for protocol tests: broker machines, links under the test's control, and a transcript.

Nothing moves by itself: a message waits in its link until the test carries it, so any order of
events can be played. The transcript has one line for each message:

  B1 -> B5: Subscribe s1          a broker to its neighbour
  B1 => P: Relocate B1 B5 B6      a broker to a client
  B5 : delivered P/0 to C (s1)    a delivery
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from random import Random

import msgspec

from shoal.broker.effects import (
    CancelTimer,
    Deliver,
    Effect,
    Input,
    LinkChanged,
    LinkState,
    MeasuredDelays,
    MoveClient,
    Notify,
    Received,
    Record,
    Requested,
    ResetLink,
    Send,
    SetTimer,
    TimerFired,
    TimerKey,
)
from shoal.broker.machine import Broker
from shoal.broker.messages import (
    Advertise,
    Message,
    PublicationBatch,
    Publish,
    Rejected,
    RoutedPublication,
    Subscribe,
    Unadvertise,
    Unsubscribe,
)
from shoal.broker.records import RefusalRecord
from shoal.clients.messages import (
    MigrationAdvertisement,
    Paused,
    PingRequest,
    PingTimes,
    Relocate,
    Resume,
)
from shoal.language import parse
from shoal.model import Advertisement, Publication, Subscription, Value
from shoal.overlays.publisher_relocation.grape.messages import (
    PlaceAnswer,
    PlaceRequest,
    SessionTraces,
    TraceInformationAnswer,
    TraceInformationRequest,
)
from shoal.overlays.publisher_relocation.messages import MigrationComplete, MigrationUpdate
from shoal.overlays.publisher_relocation.pop.messages import (
    RelocationAnswer,
    RelocationRequest,
    TraceResult,
)
from shoal.overlays.registry import strategy_factory
from shoal.overlays.tree.oracle import TableRows, check_tables, expected_tables

LINE = (("B1", "B2"), ("B2", "B3"))


def advertisement(name: str, filter_text: str = "x >= 0", publisher: str = "P") -> Advertisement:
    return Advertisement(id=name, publisher=publisher, filter=parse(filter_text))


def subscription(name: str, filter_text: str = "x >= 0", client: str = "C") -> Subscription:
    return Subscription(id=name, client=client, filter=parse(filter_text))


def publication(sequence: int, publisher: str = "P", **attributes: Value) -> Publication:
    return Publication(
        publisher=publisher,
        sequence=sequence,
        published_us=0,
        attributes=attributes or {"x": sequence},
    )


def publish(*sequences: int, publisher: str = "P") -> Publish:
    """Publications whose attribute x is their sequence number."""
    return Publish(tuple(publication(sequence, publisher) for sequence in sequences))


class Stage:
    """Brokers of one system on a tree, at rest until something is carried."""

    def __init__(
        self,
        links: Iterable[tuple[str, str]] = LINE,
        system: str = "tree",
        parameters: msgspec.Struct | None = None,
        *,
        joins: bool = False,
    ) -> None:
        self.edges = tuple(links)
        self.factory = strategy_factory(system, parameters)
        neighbours: dict[str, list[str]] = {}
        for left, right in self.edges:
            neighbours.setdefault(left, []).append(right)
            neighbours.setdefault(right, []).append(left)
        self.brokers = {
            name: Broker(name, tuple(others), self.factory, joins=joins)
            for name, others in neighbours.items()
        }
        self.links: dict[tuple[str, str], deque[Message]] = {
            way: deque() for edge in self.edges for way in (edge, edge[::-1])
        }
        self.now_us = 0
        self.said: list[str] = []
        self.notified: list[tuple[str, str, Message]] = []
        self.deliveries: list[tuple[str, Deliver]] = []
        self.records: list[msgspec.Struct] = []
        self.timers: dict[tuple[str, TimerKey], int] = {}
        self.everything_sent: list[tuple[str, str, Message]] = []
        self.moves: Counter[str] = Counter()  # by publisher, for the test that plays its part

    # --- events -----------------------------------------------------------------------------------

    def handle(self, broker: str, input: Input) -> list[Effect]:
        self.now_us += 1
        effects = self.brokers[broker].handle(input, self.now_us)
        self.carry_out(broker, effects)
        return effects

    def carry_out(self, broker: str, effects: list[Effect]) -> None:
        for effect in effects:
            self._carry_out(broker, effect)

    def ask(self, broker: str, client: str, *requests: Message) -> None:
        """A client's requests, one after the other."""
        for request in requests:
            self.handle(broker, Requested(client, request))

    def tell(self, sender: str, broker: str, message: Message) -> None:
        """A message that no broker of the stage has sent."""
        self.handle(broker, Received(sender, message))

    def carry(self, source: str, target: str, count: int = 1) -> None:
        """Let `count` messages arrive over a link."""
        for _ in range(count):
            self.handle(target, Received(source, self.links[source, target].popleft()))

    def settle(self, random: Random | None = None) -> None:
        """Let everything under way arrive: link by link, or in a random order."""
        while waiting := [way for way, messages in self.links.items() if messages]:
            self.carry(*(random.choice(waiting) if random else waiting[0]))

    def fire(self, broker: str, key: TimerKey) -> None:
        self.now_us = max(self.now_us, self.timers.pop((broker, key)))
        self.handle(broker, TimerFired(key))

    def measure(self, broker: str, measured: MeasuredDelays) -> None:
        self.handle(broker, measured)

    def break_link(self, left: str, right: str) -> None:
        """Lose the link's content; both ends notice."""
        for source, target in ((left, right), (right, left)):
            self.links[source, target].clear()
        self.handle(left, LinkChanged(right, LinkState.FAILED))
        self.handle(right, LinkChanged(left, LinkState.FAILED))
        self.links[left, right].clear()
        self.links[right, left].clear()

    def mend_link(self, left: str, right: str) -> None:
        self.handle(left, LinkChanged(right, LinkState.UP))
        self.handle(right, LinkChanged(left, LinkState.UP))

    def _carry_out(self, broker: str, effect: Effect) -> None:
        match effect:
            case Send(neighbour, message):
                self.said.append(f"{broker} -> {neighbour}: {describe(message)}")
                self.everything_sent.append((broker, neighbour, message))
                if (broker, neighbour) in self.links:
                    self.links[broker, neighbour].append(message)
            case Notify(client, message):
                self.said.append(f"{broker} => {client}: {describe(message)}")
                self.notified.append((broker, client, message))
            case Deliver(client, routed, subscriptions):
                key = "/".join(map(str, routed.publication.key))
                self.said.append(f"{broker} : delivered {key} to {client} {_list(subscriptions)}")
                self.deliveries.append((broker, effect))
            case SetTimer(key, at_us):
                self.timers[broker, key] = at_us
            case CancelTimer(key):
                self.timers.pop((broker, key), None)
            case Record(record):
                self.records.append(record)
            case MoveClient(client, target):
                self.said.append(f"{broker} => {client}: to {target}")
            case ResetLink():
                raise AssertionError("a broker by itself closes no link")

    # --- results ----------------------------------------------------------------------------------

    def take_transcript(self) -> list[str]:
        """The transcript since the last call, in order."""
        said, self.said = self.said, []
        return said

    def rows(self) -> dict[str, TableRows]:
        """The routing tables as plain rows."""
        return {
            name: TableRows(
                advertisements={
                    row: entry.last_hop
                    for row, entry in broker.strategy.tables.advertisements.items()
                },
                subscriptions={
                    row: (entry.last_hop, frozenset(entry.forwarded_to))
                    for row, entry in broker.strategy.tables.subscriptions.items()
                },
            )
            for name, broker in self.brokers.items()
        }

    def problems(
        self,
        advertisements: Iterable[tuple[Advertisement, str]],
        subscriptions: Iterable[tuple[Subscription, str]],
        edges: Iterable[tuple[str, str]] | None = None,
    ) -> list[str]:
        """Differences of the tables from the oracle's."""
        expected = expected_tables(edges or self.edges, advertisements, subscriptions)
        return check_tables(expected, {name: b.strategy.tables for name, b in self.brokers.items()})

    def delivered(self) -> list[tuple[int, str]]:
        """(sequence, client) of all deliveries, in order."""
        return [
            (effect.routed.publication.sequence, effect.client) for _, effect in self.deliveries
        ]

    def refusals(self) -> list[str]:
        return [row.reason for row in self.records if isinstance(row, RefusalRecord)]

    def sent(self, kind: type[Message]) -> Iterator[tuple[str, str, Message]]:
        """All messages of this kind that brokers sent each other."""
        return (row for row in self.everything_sent if isinstance(row[2], kind))


def describe(message: Message) -> str:
    """A message in a few words."""
    name = type(message).__name__
    match message:
        case Advertise(item):
            return f"{name} {item.id}"
        case Subscribe(item):
            return f"{name} {item.id}"
        case Unadvertise(identifier) | Unsubscribe(identifier):
            return f"{name} {identifier}"
        case PublicationBatch(publications, hops):
            numbers = " ".join(map(_routed, publications))
            return f"{name} {numbers} hops {hops}"
        case Publish(publications):
            return f"{name} " + " ".join(f"{row.publisher}/{row.sequence}" for row in publications)
        case TraceInformationRequest(session):
            return f"{name} {session}"
        case TraceInformationAnswer(session, traces):
            return f"{name} {session} {_list([trace.broker for trace in traces])}"
        case SessionTraces(session, entry, traces):
            brokers = _list([trace.broker for trace in traces])
            return f"{name} {session} at {entry} {brokers}"
        case PlaceRequest(session, path):
            return f"{name} {session} to {path[-1]}"
        case PlaceAnswer(session, path, has_room):
            return f"{name} {session}: {'' if has_room else 'no '}room at {path[-1]}"
        case MigrationUpdate(publisher, _, _, retracted):
            return f"{name} {publisher} retracted {_list(retracted)}"
        case MigrationComplete(publisher, _, _, whole):
            return f"{name} {publisher}" + ("" if whole else " broken")
        case Resume(_, whole):
            return name + ("" if whole else " broken")
        case TraceResult(publication, subscribers):
            return f"{name} {publication}: {subscribers}"
        case RelocationRequest(publisher, subscribers, path):
            return f"{name} {publisher}: {subscribers:g} behind {_list(path)}"
        case RelocationAnswer(publisher, path):
            return f"{name} {publisher} {_list(path)}"
        case PingRequest(session, brokers):
            return f"{name} {session} {_list(brokers)}"
        case PingTimes(session):
            return f"{name} {session}"
        case Relocate(path) | Paused(path) | MigrationAdvertisement(path):
            return f"{name} " + " ".join(path)
        case Rejected(reason):
            return f"{name}: {reason}"
    return name


def _routed(routed: RoutedPublication) -> str:
    """Traced publications have a star."""
    name = "/".join(map(str, routed.publication.key))
    return name if routed.mark is None else name + "*"


def _list(names: Iterable[str]) -> str:
    return "(" + " ".join(names) + ")"
