"""A publisher that moves along a line of brokers, in every order of events, with one fault.

Each broker has a subscriber of everything. The publisher publishes and is moved; meanwhile a link
breaks, a broker dies, or the publisher times out or leaves. At the end only publications are lost
that the fault excuses, none arrives twice or out of order, the tables equal the oracle's, and a
last publication reaches all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sized
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec

from shoal.broker.effects import Effect, LinkChanged, Record, Requested, Started
from shoal.broker.machine import Broker
from shoal.broker.messages import Advertise, Message, Publish, Subscribe
from shoal.clients.publisher import Publisher, PublisherEffect
from shoal.clients.records import MigrationRecord, ReturnRecord
from shoal.overlays.registry import strategy_factory
from shoal.overlays.tree.oracle import check_tables, expected_tables
from shoal.simulation.judging.checkers import TimedSubscription, check_deliveries
from shoal.simulation.judging.outages import Excuses, Outage, PublisherAttachments
from shoal.simulation.trace import DeliveryEvent, Published
from tests.broker.transcript import advertisement, publication, subscription
from tests.exploration.network import DEAD, Doing, Draft, FromBroker, Network, State, Timer
from tests.exploration.search import Explored, explore
from tests.systems import calm, covering

Fault = tuple[str, ...]

# The last publication, when everything is at rest.
LAST = 99
# By then every fault is mended, and for longer than rows are held, so that retries end. A broker
# that is waited for returns before any timer fires.
MOST_AWAY_US = 35_000_000
# The judges' clock: before the fault, at it, after it; all of it is recent.
BEFORE, AT, AFTER, ALWAYS = 1, 2, 3, 1_000


class Lost(NamedTuple):
    """Input of a publisher: the connection to a broker is lost."""

    broker: str


class Back(NamedTuple):
    """Input of a publisher: a broker is back, and does not know it."""

    broker: str


class Facts(NamedTuple):
    """The part of a publisher's state that the explorer reads."""

    client: str
    broker: str
    moving: bool
    gone: bool


class PublisherPart:
    """A publisher; without patience every request times out at once."""

    def __init__(self, machine: Publisher) -> None:
        self.machine = machine

    def take(self, input: Any, now_us: int) -> Iterable[PublisherEffect]:
        match input:
            case FromBroker(broker, message):
                return self.machine.notified(broker, message, now_us)
            case Lost(broker):
                return self.machine.lost(broker, now_us)
            case Back(broker):
                return self.machine.reconnected(broker, now_us)
            case "leaves":
                return self.machine.leave()
            case "wakes":
                return self.machine.woken(now_us)
            case "turns round":
                assert self.machine._attempt is not None
                return self.machine.woken(self.machine._attempt.until_us)
        return self.machine.request(input, now_us)

    def facts(self) -> Facts:
        machine = self.machine
        return Facts(machine.client, machine.broker, machine.moving, machine.gone)


class RemainingScript(NamedTuple):
    """The rest of the script.

    publications  those still to publish
    moves         paths along which the publisher is still to be moved
    fault         that has not happened
    broken        the fault that has, until it is mended
    old           for each direction, the number of messages sent before the fault
    clock         the judges': BEFORE while the fault is to come, AFTER then
    homes         the publisher's brokers, with the time of its arrival
    handed        by publication: the broker to which it was sent, and the time
    """

    publications: tuple[int, ...]
    moves: tuple[tuple[str, ...], ...]
    fault: Fault = ()
    broken: tuple[str, ...] = ()
    old: tuple[int, ...] = ()
    clock: int = BEFORE
    homes: tuple[tuple[int, str], ...] = ()
    handed: tuple[tuple[int, str, int], ...] = ()


class Moves(Network):
    """One line of brokers, named B1, B2 ... , and publisher P, which starts at the first."""

    def __init__(
        self,
        moves: tuple[tuple[str, ...], ...],
        publications: int,
        fault: Fault = (),
        *,
        brokers: int = 3,
        patient: bool = False,
        timely: bool = True,
        is_covering: bool = False,
    ) -> None:
        """A fault is ("link", left, right), ("broker", name), ("impatience",) or ("leave",).

        With `patient` the neighbours of a broker that dies notice it when it is back. With `timely`
        a fault is noticed when everything sent before it has arrived, and mended when nothing is
        under way. Without it a fault is noticed at any time, and losses are not judged.
        """
        names = tuple(f"B{number}" for number in range(1, brokers + 1))
        parameters = covering("grape", calm("grape")) if is_covering else calm("grape")
        super().__init__(names, ("P", "C"), strategy_factory("grape", parameters))
        self.links = tuple(pairwise(names))
        self.patient = patient
        self.timely = timely
        self.fault = fault
        self.start_at = moves[0][0]
        self.promise = advertisement("a")
        self.interests = [(subscription(f"s{name}"), name) for name in names]
        self.watchers = [interest.id for interest, _ in self.interests]
        first = RemainingScript(
            tuple(range(1, publications + 1)), moves, fault, homes=((0, self.start_at),)
        )
        self.start = self._set_up(first)

    def facts(self, broker: Broker) -> Any:
        """The publishers that the broker may move."""
        strategy: Any = broker._strategy
        publishers = strategy.tree.publishers
        return "P" in publishers and not strategy.migrations.is_leaving("P")

    def _neighbours(self, broker: str) -> tuple[str, ...]:
        return tuple(
            n for n in self.brokers if (broker, n) in self.ways and self._linked(broker, n)
        )

    def _linked(self, left: str, right: str) -> bool:
        return (left, right) in self.links or (right, left) in self.links

    def _set_up(self, left: RemainingScript) -> State:
        lives = [self.fresh(name, self._neighbours(name)) for name in self.brokers]
        home = self.start_at
        lives.append(self.lives.born(lambda: PublisherPart(Publisher("P", home))))
        empty = ((),) * len(self.ways)
        state = State((*lives, DEAD), empty, frozenset(), (), 0, ((),) * len(self.watchers), left)
        draft = Draft(state)
        for who, _ in enumerate(self.brokers):
            self.take(draft, who, self.lives.input(Started()))
        self.take(draft, self.index["P"], self.lives.input(Advertise(self.promise)))
        for interest, name in self.interests:
            self._ask(draft, name, Subscribe(interest))
        return self.settled(draft.state())

    def settled(self, state: State) -> State:
        """Let everything under way arrive, in some order."""
        while following := next(self.arrivals(state), None):
            state = following[1]
        return state

    def _ask(self, draft: Draft, broker: str, request: Message) -> None:
        draft.queues[self.ways["C", broker]] += (self.lives.input(Requested("C", request)),)

    # --- effects ----------------------------------------------------------------------------------

    def other(self, effect: Any) -> tuple[Any, ...] | None:
        match effect:
            case Record(MigrationRecord(target=target)):
                return "home", target
            case Record(ReturnRecord(broker=broker)):
                return "home", broker
        return None

    def carry_out(self, draft: Draft, who: int, effect: tuple[Any, ...]) -> None:
        left = draft.left
        match effect:
            case "home", broker:
                draft.left = left._replace(homes=(*left.homes, (left.clock, broker)))
            case "ask", way, number:
                broker, request = self.brokers[self.targets[way]], self.lives.inputs[number].request
                if type(request) is Publish:
                    rows = [(row.sequence, broker, left.clock) for row in request.publications]
                    draft.left = left._replace(handed=(*left.handed, *rows))
                if draft.lives[self.targets[way]] != DEAD:
                    draft.queues[way] += (number,)
                    return
                back, lost = self.ways[broker, "P"], self.lives.input(Lost(broker))
                if draft.queues[back][-1:] != (lost,):
                    draft.queues[back] += (lost,)

    def fire(self, draft: Draft, timer: Timer) -> None:
        if timer.who == "P":
            self.take(draft, self.index["P"], self.lives.input("wakes"))
        else:
            super().fire(draft, timer)

    # --- possible steps ---------------------------------------------------------------------------

    def steps(self, state: State) -> Iterator[tuple[object, State]]:
        yield from self.arrivals(state)
        yield from self._script(state)
        away_us = 0 if self.patient else MOST_AWAY_US
        if not any(state.queues) and not (state.left.broken and state.now_us >= away_us):
            yield from self.timeouts(state)

    def _script(self, state: State) -> Iterator[tuple[object, State]]:
        left: RemainingScript = state.left
        publisher: Facts = self.lives.facts[state.lives[self.index["P"]]]
        if left.publications and not publisher.gone:
            draft = Draft(state)
            draft.left = left._replace(publications=left.publications[1:])
            self._publish(draft, left.publications[0])
            yield ("P publishes", left.publications[0]), draft.state()
        if left.moves and not publisher.gone:
            source = self.index[left.moves[0][0]]
            life = state.lives[source]
            is_there = publisher.broker == self.names[source] and not publisher.moving
            if is_there and life != DEAD and self.lives.facts[life]:
                draft = Draft(state)
                draft.left = left._replace(moves=left.moves[1:])
                self.take(draft, source, self.lives.input(_sending_away("P", left.moves[0])))
                yield ("P is to go", *left.moves[0]), draft.state()
        if left.fault and (left.fault != ("impatience",) or publisher.moving):
            draft = Draft(state)
            self._break(draft, left.fault)
            yield left.fault, draft.state()
        if left.broken and not (self.timely and any(state.queues)):
            draft = Draft(state)
            self._mend(draft, left.broken)
            yield ("mended:", *left.broken), draft.state()

    def _publish(self, draft: Draft, sequence: int) -> None:
        request = Publish((publication(sequence),))
        self.take(draft, self.index["P"], self.lives.input(request))

    def arrives(self, state: State, way: int, input: int) -> bool:
        is_notice = isinstance(self.lives.inputs[input], LinkChanged | Lost | Back)
        return not (is_notice and any(state.left.old))

    def arrive(self, draft: Draft, way: int, input: int) -> None:
        old = draft.left.old
        if old and old[way]:
            old = (*old[:way], old[way] - 1, *old[way + 1 :])
            draft.left = draft.left._replace(old=old if any(old) else ())
        super().arrive(draft, way, input)

    def _break(self, draft: Draft, fault: Fault) -> None:
        draft.left = draft.left._replace(fault=(), clock=AFTER)
        self._do_break(draft, fault)
        if self.timely and fault[1:]:
            inputs = self.lives.inputs
            old = tuple(
                sum(not isinstance(inputs[each], LinkChanged | Lost) for each in queue)
                for queue in draft.queues
            )
            draft.left = draft.left._replace(old=old if any(old) else ())

    def _do_break(self, draft: Draft, fault: Fault) -> None:
        match fault:
            case "link", left, right:
                self.sever(draft, left, right, left, right)
                draft.left = draft.left._replace(broken=fault)
            case "broker", name:
                self.kill(draft, name)
                for neighbour in self._neighbours(name):
                    self.sever(draft, name, neighbour, *(() if self.patient else (neighbour,)))
                draft.queues[self.ways[name, "P"]] += (self.lives.input(Lost(name)),)
                draft.left = draft.left._replace(broken=fault)
            case ("impatience",):
                self.take(draft, self.index["P"], self.lives.input("turns round"))
            case ("leave",):
                self.take(draft, self.index["P"], self.lives.input("leaves"))

    def _mend(self, draft: Draft, broken: tuple[str, ...]) -> None:
        draft.left = draft.left._replace(broken=())
        match broken:
            case "link", left, right:
                self.join(draft, left, right)
            case "broker", name:
                neighbours = self._neighbours(name)
                who = self.index[name]
                draft.lives[who] = self.fresh(name, (), neighbours if self.patient else ())
                self.take(draft, who, self.lives.input(Started()))
                for neighbour in neighbours:
                    self.join(draft, name, neighbour)
                draft.queues[self.ways[name, "P"]] += (self.lives.input(Back(name)),)
                for interest, home in self.interests:
                    if home == name:
                        self._ask(draft, name, Subscribe(interest))

    # --- judging ------------------------------------------------------------------------------

    def explore(self, start: State | None = None) -> Explored:
        return explore(start or self.start, self.steps, self.describe, self.judge)

    def judge(self, state: State) -> list[str]:
        """Faults of an end state, in which nothing is under way."""
        publisher: Facts = self.lives.facts[state.lives[self.index["P"]]]
        problems = self._judge_tables(state, publisher) + self._judge_remains(state)
        if publisher.moving:
            problems.append("P is still moving")
        problems += self._judge_deliveries(state)
        if not publisher.gone:
            draft = Draft(state)
            self._publish(draft, LAST)
            seen = self.settled(draft.state()).seen
            for watcher, keys in zip(self.watchers, seen, strict=True):
                if keys.count(("P", LAST)) != 1:
                    problems.append(f"what comes last reaches {watcher} {keys.count(LAST)} times")
        return problems

    def _machine(self, state: State, broker: str) -> Broker:
        """The broker in this state, rebuilt."""
        return self.lives.machine(state.lives[self.index[broker]]).broker

    def _judge_tables(self, state: State, publisher: Facts) -> list[str]:
        homes = [] if publisher.gone else [(self.promise, publisher.broker)]
        expected = expected_tables(self.links, homes, self.interests)
        strategies = {name: self._machine(state, name)._strategy for name in self.brokers}
        tables = {name: strategy.tables for name, strategy in strategies.items()}
        return check_tables(expected, tables)

    def _judge_remains(self, state: State) -> list[str]:
        problems = []
        for name in self.brokers:
            strategy: Any = self._machine(state, name)._strategy
            problems += [
                f"{name} remembers {what}: {rows}"
                for what, rows in vars(strategy.migrations).items()
                if isinstance(rows, Sized) and what != "_arrived" and rows
            ]
        return problems

    def _judge_deliveries(self, state: State) -> list[str]:
        left: RemainingScript = state.left
        handed = {
            ("P", sequence): Published(publication(sequence), broker, at)
            for sequence, broker, at in left.handed
        }
        homes = {interest.id: home for interest, home in self.interests}
        timed = [TimedSubscription(subscription=row, from_us=-ALWAYS) for row, _ in self.interests]
        records = [
            MigrationRecord(
                publisher="P", source="", target=broker, path_hops=0, paused_us=at, resumed_us=at
            )
            for at, broker in left.homes[1:]
        ]
        parts = self.fault[1:]
        outages = [Outage(parts=parts, from_us=AT, until_us=AFTER)] if parts else []
        whereabouts = PublisherAttachments([("P", self.start_at)], records)
        excuses = Excuses(self.links, outages, whereabouts, ALWAYS)
        verdict = check_deliveries(
            [publication(sequence) for sequence, *_ in left.handed],
            timed,
            [
                DeliveryEvent(publication(sequence), (watcher,), "C", homes[watcher], 0, 0)
                for watcher, keys in zip(self.watchers, state.seen, strict=True)
                for _, sequence in keys
            ],
            0,
            handed=handed,
            excused=lambda row, interest: excuses.excuse(
                "P", row.broker, row.at_us, homes[interest.subscription.id]
            ),
        )
        if not self.timely:
            verdict = msgspec.structs.replace(verdict, lost=())
        return [] if verdict else [str(verdict)]


def _sending_away(publisher: str, path: tuple[str, ...]) -> Doing:
    def do(broker: Broker, now_us: int) -> list[Effect]:
        out: list[Effect] = []
        strategy: Any = broker._strategy
        strategy.migrations.send_away(publisher, path, now_us, out)
        return out

    return Doing((publisher, path), do)
