"""A stage for a cluster: the test decides when messages arrive, and fires timers."""

from __future__ import annotations

from collections import deque
from random import Random
from typing import Any

import msgspec

from shoal.broker.ack_tracker import AckTracker
from shoal.broker.effects import (
    CancelTimer,
    Deliver,
    Effect,
    Input,
    LinkChanged,
    LinkState,
    Notify,
    OpenLink,
    Received,
    Record,
    Requested,
    Send,
    SetTimer,
    Settled,
    Started,
    TimerFired,
    TimerKey,
    Unsettled,
)
from shoal.broker.machine import Broker
from shoal.broker.messages import Message, Publish
from shoal.broker.records import RefusalRecord
from shoal.matching.segments import Dimension
from shoal.model import Publication, Value
from shoal.overlays.bluedove.parameters import BlueDoveParameters
from shoal.overlays.bluedove.protocol import Bluedove

SECOND_US = 1_000_000
# Bound on the messages that a node sends to itself within one input.
MOST_TO_ITSELF = 1_000
TWO = (Dimension(attribute="x"), Dimension(attribute="y"))


def parameters(
    matchers: str = "M1 M2 M3 M4", dispatchers: str = "D1 D2", **options
) -> BlueDoveParameters:  # type: ignore[no-untyped-def]
    options.setdefault("dimensions", TWO)
    return BlueDoveParameters(
        dispatchers=tuple(dispatchers.split()), matchers=tuple(matchers.split()), **options
    )


class ToItself(deque[Message]):
    """Messages of a node to itself; fails if one input causes too many."""

    count = 0

    def append(self, message: Message) -> None:
        super().append(message)
        self.count += 1
        assert self.count < MOST_TO_ITSELF, f"{type(message).__name__}, again and again"


class Cluster:
    """Nodes that link on demand; `settle` lets everything under way arrive, in the order of
    sending.
    """

    def __init__(self, set_by: BlueDoveParameters, later: str = "") -> None:
        self.parameters = set_by
        self.now_us = 0
        self.nodes: dict[str, Broker] = {}
        self.strategies: dict[str, Bluedove] = {}
        self.under_way: deque[tuple[str, str, Message]] = deque()
        self.links: set[tuple[str, str]] = set()
        self.timers: dict[tuple[str, TimerKey], int] = {}
        self.deliveries: list[tuple[str, Deliver]] = []
        self.notified: list[tuple[str, str, Message]] = []
        self.records: list[msgspec.Struct] = []
        self.sent: list[tuple[str, str, Message]] = []
        # Inputs that brokers have not settled; clients that await them are notified when they have.
        self.unsettled: dict[tuple[str, TimerKey], AckTracker | None] = {}
        # Messages of these types wait for `release`.
        self.held: dict[type[Message], list[tuple[str, str, Message]]] = {}
        first = dict.fromkeys((*set_by.dispatchers, *set_by.matchers))
        for name in (*first, *later.split()):
            self.add(name)
        for name in first:
            self.start(name)

    def add(self, name: str) -> None:
        def made(context):  # type: ignore[no-untyped-def]
            self.strategies[name] = made = Bluedove(context, self.parameters)
            made.node.inbox = ToItself()
            return made

        self.nodes[name] = Broker(name, (), made, seed=7)

    # --- events -------------------------------------------------------------------------------

    def start(self, name: str) -> None:
        self.handle(name, Started())

    def handle(self, name: str, input: Input, ack_tracker: AckTracker | None = None) -> None:
        inbox = self.strategies[name].node.inbox
        assert isinstance(inbox, ToItself)
        inbox.count = 0
        for effect in self.nodes[name].handle(input, self.now_us):
            self._carry_out(name, effect, ack_tracker)
        if ack_tracker is not None:
            ack_tracker.settle()

    def _carry_out(self, name: str, effect: Effect, ack_tracker: AckTracker | None) -> None:
        match effect:
            case Unsettled(key):
                assert (name, key) not in self.unsettled
                self.unsettled[name, key] = ack_tracker
                if ack_tracker is not None:
                    ack_tracker.extend()
            case Settled(key):
                waiting = self.unsettled.pop((name, key))
                if waiting is not None:
                    waiting.settle()
            case Send(other, message):
                self.sent.append((name, other, message))
                if type(message) in self.held:
                    self.held[type(message)].append((name, other, message))
                else:
                    self.under_way.append((name, other, message))
            case OpenLink(other):
                if other not in self.nodes:
                    self.handle(name, LinkChanged(other, LinkState.FAILED))
                elif (name, other) not in self.links:
                    self.links |= {(name, other), (other, name)}
                    self.handle(name, LinkChanged(other, LinkState.UP))
                    self.handle(other, LinkChanged(name, LinkState.UP))
            case SetTimer(key, at_us):
                self.timers[name, key] = at_us
            case CancelTimer(key):
                self.timers.pop((name, key), None)
            case Deliver():
                self.deliveries.append((name, effect))
            case Notify(client, message):
                self.notified.append((name, client, message))
            case Record(record):
                self.records.append(record)

    def settle(self) -> None:
        """Let everything under way arrive, and finish all matching."""
        while self.under_way or self._work():
            if self.under_way:
                self._arrive(*self.under_way.popleft())
            else:
                self._fire(self._work()[0])

    def step(self, random: Random) -> None:
        """One event: the next message of a link arrives, or a core finishes."""
        links = list(dict.fromkeys(row[:2] for row in self.under_way))
        choices: list[Any] = [*links, *self._work()]
        if not choices:
            return
        chosen = random.choice(choices)
        if chosen in self.timers:
            self._fire(chosen)
            return
        number = next(n for n, row in enumerate(self.under_way) if row[:2] == chosen)
        row = self.under_way[number]
        del self.under_way[number]
        self._arrive(*row)

    def _arrive(self, source: str, target: str, message: Message) -> None:
        if (source, target) in self.links:
            self.handle(target, Received(source, message))

    def _fire(self, place: tuple[str, TimerKey]) -> None:
        del self.timers[place]
        self.handle(place[0], TimerFired(place[1]))

    def _work(self) -> list[tuple[str, TimerKey]]:
        return [place for place in self.timers if place[1][0] == "match"]

    def release(self, kind: type[Message]) -> None:
        self.under_way.extend(self.held.pop(kind))

    def run(self, seconds: float) -> None:
        """Let time pass: timers fire in order, messages arrive at once."""
        until_us = self.now_us + round(seconds * SECOND_US)
        self.settle()
        while self.timers:
            place, at_us = min(self.timers.items(), key=lambda item: (item[1], item[0]))
            if at_us > until_us:
                break
            self.now_us = max(self.now_us, at_us)
            self._fire(place)
            self.settle()
        self.now_us = until_us

    def crash(self, name: str) -> None:
        """Remove a node, with everything under way to it; its neighbours notice."""
        del self.nodes[name]
        self.timers = {place: at for place, at in self.timers.items() if place[0] != name}
        self.under_way = deque(row for row in self.under_way if name not in row[:2])
        for source, target in sorted(self.links):
            if target == name:
                self.handle(source, LinkChanged(name, LinkState.FAILED))
        self.links = {link for link in self.links if name not in link}
        self.unsettled = {place: each for place, each in self.unsettled.items() if place[0] != name}

    def ask(self, name: str, client: str, *requests: Message) -> None:
        for request in requests:
            self.handle(name, Requested(client, request))

    def publish(self, name: str, sequence: int, **attributes: Value) -> None:
        publication = Publication(
            publisher="P", sequence=sequence, published_us=self.now_us, attributes=attributes
        )
        self.ask(name, "P", Publish((publication,)))

    # --- results ------------------------------------------------------------------------------

    def delivered(self) -> list[tuple[int, str, tuple[str, ...]]]:
        """(sequence, client, subscriptions), sorted; one row for each delivery."""
        return sorted(
            (effect.routed.publication.sequence, effect.client, effect.subscriptions)
            for _, effect in self.deliveries
        )

    def sent_of(self, kind: type[Message]) -> list[tuple[str, str]]:
        return [(source, target) for source, target, message in self.sent if type(message) is kind]

    def refusals(self) -> list[str]:
        return [row.reason for row in self.records if isinstance(row, RefusalRecord)]

    def matchers_with(self, subscription: str) -> dict[str, list[int]]:
        """matcher → the dimensions in whose sets it has the subscription."""
        found = {}
        for name in self.nodes:
            matcher = self.strategies[name].matcher
            if matcher is not None:
                dimensions = [n for n, rows in enumerate(matcher.sets) if subscription in rows.rows]
                if dimensions:
                    found[name] = dimensions
        return found
