"""An exchange of links in a line of brokers, in every order of events, with one fault.

The first and the last broker get a link, and another link goes. Each broker has a subscriber of
everything; further subscriptions come at some; a publisher publishes at one. Meanwhile a link
breaks, a broker dies, or a broker's timer fires. At the end the links are one tree that every
broker knows, and the tables equal the oracle's. Publications are lost only on broken links, and
none arrives twice or out of order. No broker is quiesced, and a last publication reaches all.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from shoal.broker.effects import (
    EndLink,
    Hold,
    LinkChanged,
    LinkState,
    OpenLink,
    Record,
    Release,
    Remember,
    Requested,
    Started,
)
from shoal.broker.messages import Advertise, Message, Publish, Subscribe
from shoal.broker.records import RefusalRecord
from shoal.broker.strategy import StrategyFactory
from shoal.overlays.self_organising.exchanges import LinkExchange
from shoal.overlays.self_organising.link_reconfiguration.states import (
    ReconfigurationState as RingState,
)
from shoal.overlays.self_organising.link_reconfiguration.steps import TIMER
from shoal.overlays.tree.oracle import check_tables, expected_tables
from tests.broker.transcript import advertisement, publication, subscription
from tests.exploration.exchange_steps import LAST, Fault, RemainingScript, beginning, being_late
from tests.exploration.network import DEAD, Draft, Ends, Network, State
from tests.exploration.search import Explored, explore
from tests.forced_exchanges import Forced
from tests.seeds.networks.trees import path

Requests = tuple[tuple[str, Message], ...]


class LinkExchanges(Network):
    """A line of brokers B1, B2, ...; the last begins to exchange a link for one to the first."""

    clients: tuple[str, ...] = ("C",)
    strategy: StrategyFactory = Forced
    # Whether a dead broker starts again with the facts on its disk, and hears of links that others
    # have ended meanwhile; without, it knows the present links.
    has_disks = False

    def __init__(
        self,
        remove: int,
        requests: Requests,
        fault: Fault = (),
        *,
        brokers: int = 3,
        publisher: str = "B1",
        timely: bool = True,
        both: bool = False,
    ) -> None:
        """A fault is ("link", left, right), ("broker", name) or ("late", name).

        With `both` the first broker begins an exchange for the same new link, too, but later. With
        `timely` a fault is noticed when everything sent before it has arrived, and mended when
        nothing is under way. Without it a fault is noticed at any time, and losses are not judged.
        """
        names = tuple(f"B{number}" for number in range(1, brokers + 1))
        super().__init__(names, self.clients, type(self).strategy)
        self.links = tuple(pairwise(names))
        self.exchange = LinkExchange(cycle=names, remove=remove, saving=0)
        back = LinkExchange(cycle=names[::-1], remove=remove, saving=0)
        self.exchanges = (back, self.exchange) if both else (self.exchange,)
        self.fault, self.timely, self.publisher = fault, timely, publisher
        # Whether nothing can prevent the exchange.
        self.is_sure = not fault and not both
        self.promise = advertisement("a", publisher=self.clients[-1])
        self.interests = [(subscription(f"s{name}"), name) for name in names]
        later = [(row.subscription, at) for at, row in requests if isinstance(row, Subscribe)]
        self.interests += later
        self.watchers = [interest.id for interest, _ in self.interests]
        # Facts that brokers have written, each once.
        self.written: list[dict[str, Any]] = []
        self._numbers: dict[str, int] = {}
        self.requests = requests
        up = frozenset(frozenset(ends) for ends in self.links)
        empty = ((),) * len(self.ways)
        lives = [self.fresh(name, self._neighbours(name, up)) for name in names]
        state = State(
            (*lives, DEAD, *self.further_lives()),
            empty,
            frozenset(way for ends, way in self.ways.items() if frozenset(ends) not in up),
            (),
            0,
            ((),) * len(self.watchers),
            RemainingScript(
                begins=0,
                holding=(None,) * brokers,
                up=up,
                lasting=up,
                disks=(None,) * brokers,
            ),
        )
        draft = Draft(state)
        for ends, way in self.ways.items():
            if {*ends} & {*self.clients}:
                draft.closed.discard(way)
        for who, _ in enumerate(names):
            self.take(draft, who, self.lives.input(Started()))
        self.advertise(draft)
        for interest, name in self.interests[: len(names)]:
            self._ask(draft, name, Subscribe(interest))
        state = self.settled(draft.state())
        self.start = state._replace(
            left=state.left._replace(begins=len(self.exchanges), fault=fault)
        )

    def further_lives(self) -> tuple[int, ...]:
        """Client states beside C's."""
        return ()

    def advertise(self, draft: Draft) -> None:
        """Let the publisher advertise."""
        self._ask(draft, self.publisher, Advertise(self.promise))

    def publish(self, draft: Draft, sequence: int) -> None:
        """Let the publisher publish."""
        request = Publish((publication(sequence, self.clients[-1]),))
        self._ask(draft, self.publisher, request)

    def home(self, state: State) -> str:
        """The publisher's broker."""
        return self.publisher

    def _neighbours(self, name: str, links: frozenset[frozenset[str]]) -> tuple[str, ...]:
        return tuple(other for other in self.brokers if frozenset((name, other)) in links)

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
            case OpenLink(neighbour, _, is_lasting):
                return "open", neighbour, is_lasting
            case EndLink(neighbour):
                return "end", neighbour
            case Hold(but):
                return "hold", but
            case Release():
                return "hold", None
            case Record(RefusalRecord(reason=reason)):
                return "refused", reason
            case Remember(facts) if self.has_disks:
                number = self._numbers.setdefault(repr(facts), len(self.written))
                if number == len(self.written):
                    self.written.append(dict(facts))
                return "remember", number
        return None

    def carry_out(self, draft: Draft, who: int, effect: tuple[Any, ...]) -> None:
        left: RemainingScript = draft.left
        match effect:
            case "hold", but:
                holding = (*left.holding[:who], but, *left.holding[who + 1 :])
                draft.left = left._replace(holding=holding)
            case "open", other, is_lasting:
                self._open(draft, self.names[who], other, is_lasting)
            case "end", other:
                ends = frozenset((self.names[who], other))
                ending = left.ending | {ends} if ends in left.up else left.ending
                draft.left = left._replace(lasting=left.lasting - {ends}, ending=ending)
            case "remember", number:
                disks = (*left.disks[:who], number, *left.disks[who + 1 :])
                draft.left = left._replace(disks=disks)
            case "refused", reason:
                # A broker that starts with an old memory refuses what it learns out of turn.
                if not (left.broken or self.has_disks):
                    raise AssertionError(f"{self.names[who]} refuses: {reason}")

    def _open(self, draft: Draft, name: str, other: str, is_lasting: bool) -> None:
        left: RemainingScript = draft.left
        ends = frozenset((name, other))
        if ends in left.refused:
            ended = LinkChanged(other, LinkState.ENDED)
            draft.queues[self.ways[other, name]] += (self.lives.input(ended),)
            return
        if is_lasting:
            left = left._replace(lasting=left.lasting | {ends})
        draft.left = left
        if ends in left.up:
            return
        if self._is_out(left.broken, ends):
            self.refuse(draft, name, other)
            return
        draft.left = left._replace(up=left.up | {ends}, ending=left.ending - {ends})
        self.join(draft, name, other)

    def _is_out(self, broken: Fault, ends: frozenset[str]) -> bool:
        """Whether this link cannot be up."""
        match broken:
            case "link", left, right:
                return ends == {left, right}
            case "broker", name:
                return name in ends
        return False

    # --- possible steps ---------------------------------------------------------------------------

    def steps(self, state: State) -> Iterator[tuple[object, State]]:
        yield from self.arrivals(state)
        yield from self._script(state)
        for ends in state.left.ending:
            ways = [self.ways[one, other] for one in ends for other in ends - {one}]
            if not any(state.queues[way] for way in ways):
                draft = Draft(state)
                self._end(draft, ends)
                yield ("ends:", *sorted(ends)), draft.state()
        if not any(state.queues) and not state.left.broken and not state.left.ending:
            yield from self.timeouts(state)

    def _end(self, draft: Draft, ends: frozenset[str]) -> None:
        left: RemainingScript = draft.left
        draft.left = left._replace(up=left.up - {ends}, ending=left.ending - {ends})
        for one in ends:
            (other,) = ends - {one}
            way = self.ways[one, other]
            draft.closed.add(way)
            draft.queues[way] += (self.lives.input(LinkChanged(one, LinkState.ENDED)),)

    def _script(self, state: State) -> Iterator[tuple[object, State]]:
        left: RemainingScript = state.left
        if left.asked < len(self.requests):
            draft = Draft(state)
            draft.left = left._replace(asked=left.asked + 1)
            broker, request = self.requests[left.asked]
            self._ask(draft, broker, request)
            yield ("C asks", broker, type(request).__name__), draft.state()
        if left.begins:
            exchange = self.exchanges[left.begins - 1]
            last = self.index[exchange.cycle[-1]]
            if state.lives[last] != DEAD:
                draft = Draft(state)
                draft.left = left._replace(begins=left.begins - 1)
                self.take(draft, last, self.lives.input(beginning(exchange)))
                yield (exchange.cycle[-1], "begins"), draft.state()
        if left.fault and left.begins < len(self.exchanges):
            yield from self._faults(state, left.fault)
        if left.broken and not (self.timely and any(state.queues)):
            draft = Draft(state)
            self._mend(draft, left.broken)
            yield ("mended:", *left.broken), draft.state()

    def _faults(self, state: State, fault: Fault) -> Iterator[tuple[object, State]]:
        draft = Draft(state)
        left: RemainingScript = draft.left
        match fault:
            case "late", name:
                if (name, TIMER) not in draft.timers:
                    return
                del draft.timers[name, TIMER]
                draft.left = left._replace(fault=())
                self.take(draft, self.index[name], self.lives.input(being_late()))
            case "link", one, other:
                draft.left = left._replace(fault=(), broken=fault)
                self._sever(draft, one, other)
                self._remember_old(draft)
            case "broker", name:
                who = self.index[name]
                holding = (*left.holding[:who], None, *left.holding[who + 1 :])
                draft.left = left._replace(fault=(), broken=fault, holding=holding)
                self.kill(draft, name)
                for neighbour in self._neighbours(name, left.up):
                    self._sever(draft, name, neighbour)
                self._remember_old(draft)
        yield fault, draft.state()

    def _sever(self, draft: Draft, one: str, other: str) -> None:
        left: RemainingScript = draft.left
        ends = frozenset((one, other))
        if ends in left.up:
            draft.left = left._replace(up=left.up - {ends}, ending=left.ending - {ends})
            self.sever(draft, one, other, *(each for each in ends if self._lives(draft, each)))

    def _lives(self, draft: Draft, name: str) -> bool:
        return draft.lives[self.index[name]] != DEAD

    def _remember_old(self, draft: Draft) -> None:
        if self.timely:
            inputs = self.lives.inputs
            asked = [self.ways["C", name] for name in self.brokers]  # may be held back
            old = tuple(
                sum(not isinstance(inputs[each], LinkChanged) for each in queue)
                if way not in asked
                else 0
                for way, queue in enumerate(draft.queues)
            )
            draft.left = draft.left._replace(old=old if any(old) else ())

    def arrives(self, state: State, way: int, input: int) -> bool:
        left: RemainingScript = state.left
        if isinstance(self.lives.inputs[input], LinkChanged):
            return not any(left.old)
        who, (source, _) = self.targets[way], list(self.ways)[way]
        if who >= len(self.brokers):
            return True
        but = left.holding[who]
        return but is None or source in but

    def arrive(self, draft: Draft, way: int, input: int) -> None:
        old = draft.left.old
        if old and old[way]:
            old = (*old[:way], old[way] - 1, *old[way + 1 :])
            draft.left = draft.left._replace(old=old if any(old) else ())
        super().arrive(draft, way, input)

    def _mend(self, draft: Draft, broken: Fault) -> None:
        left: RemainingScript = draft.left
        draft.left = left._replace(broken=())
        names = list(broken[1:])
        if broken[0] == "broker":
            who = self.index[names[0]]
            expected = self._neighbours(names[0], left.lasting)
            facts: dict[str, Any] = {}
            if (disk := left.disks[who]) is not None:
                facts = self.written[disk]
                expected = tuple(name for name, row in facts["standings"].items() if row[0])
            ended = frozenset(frozenset((names[0], name)) for name in expected) - left.lasting
            draft.left = draft.left._replace(refused=ended)
            draft.lives[who] = self.fresh(names[0], (), expected)
            self.take(draft, who, self.lives.input(Started(facts=facts)))
            draft.left = draft.left._replace(refused=frozenset())
            for interest, home in self.interests[: len(self.brokers)]:
                if home == names[0]:
                    self._ask(draft, home, Subscribe(interest))
            if names[0] == self.publisher:
                self._ask(draft, self.publisher, Advertise(self.promise))
            for request_at, request in self.requests[: left.asked]:
                if request_at == names[0] and isinstance(request, Subscribe):
                    self._ask(draft, request_at, request)
        for ends in left.lasting:
            if {*names} <= ends and ends not in draft.left.up:
                draft.left = draft.left._replace(up=draft.left.up | {ends})
                self.join(draft, *sorted(ends))

    # --- judging ------------------------------------------------------------------------------

    def explore(self, start: State | None = None) -> Explored:
        return explore(start or self.start, self.steps, self.describe, self.judge)

    def judge(self, state: State) -> list[str]:
        """Faults of an end state, in which nothing is under way."""
        problems = self.judge_links(state)
        if problems:
            return problems
        links = [tuple(sorted(ends)) for ends in state.left.up]
        home = [(self.promise, self.home(state))]
        expected = expected_tables(links, home, self.interests)
        tables = {name: self._overlay(state, name).tables for name in self.brokers}
        problems += check_tables(expected, tables)
        problems += self._judge_deliveries(state)
        draft = Draft(state)
        self.publish(draft, LAST)
        seen = self.settled(draft.state()).seen
        for watcher, keys in zip(self.watchers, seen, strict=True):
            if keys.count((self.clients[-1], LAST)) != 1:
                problems.append(f"what comes last does not reach {watcher} once")
        return problems

    def judge_links(self, state: State) -> list[str]:
        """Faults of the links: no single tree, brokers that know different trees, or quiesced
        brokers.
        """
        left: RemainingScript = state.left
        links = [tuple(sorted(ends)) for ends in left.up]
        problems = []
        if left.up != left.lasting or not _is_tree(self.brokers, links):
            problems.append(f"up are {sorted(links)}, lasting {sorted(map(sorted, left.lasting))}")
            return problems
        if self.is_sure and frozenset(self.exchange.new_link) not in left.up:
            problems.append("the links are not exchanged")
        overlays = {name: self._overlay(state, name) for name in self.brokers}
        for name, overlay in overlays.items():
            neighbours = self._neighbours(name, left.up)
            problems += [
                f"{name} has {what}: {found}, not {neighbours}"
                for what, found in (
                    ("neighbours", overlay.tree.propagation.neighbours),
                    ("links", overlay._up),
                    ("standings", [*overlay.memory.neighbours]),
                )
                if sorted(found) != sorted(neighbours)
            ]
            if overlay._ring.state is not RingState.FREE or overlay._waiting:
                problems.append(f"{name} is {overlay._ring.state}, {len(overlay._waiting)} wait")
        problems += [f"{who} holds" for who, but in enumerate(left.holding) if but is not None]
        return problems

    def _overlay(self, state: State, name: str) -> Any:
        return self.lives.machine(state.lives[self.index[name]]).broker.strategy.overlay

    def _judge_deliveries(self, state: State) -> list[str]:
        problems = []
        homes = {interest.id: home for interest, home in self.interests}
        published = self.published(state)
        for watcher, keys in zip(self.watchers, state.seen, strict=True):
            seen = [sequence for _, sequence in keys]
            if seen != sorted(set(seen)):
                problems.append(f"{watcher} gets {seen}")
            if self.timely and watcher in self.watchers[: len(self.brokers)]:
                missing = [each for each in published if each not in seen]
                if missing and not self._is_excused(homes[watcher]):
                    problems.append(f"{watcher} misses {missing}")
        return problems

    def published(self, state: State) -> list[int]:
        """Publications that reach all subscribers."""
        return [
            row.publications[0].sequence for _, row in self.requests if isinstance(row, Publish)
        ]

    def _is_excused(self, home: str) -> bool:
        """Whether the fault is on the publication's path, before or after the exchange."""
        if self.fault[:1] == ("late",) or not self.fault:
            return False
        parts = {*self.fault[1:]}
        old = self.exchange.old_link
        new = [*(ends for ends in self.links if ends != old), self.exchange.new_link]
        if self.publisher in parts and len(parts) == 1:
            return True
        for links in ([*self.links], new):
            way = path(links, self.publisher, home)
            steps = [{*each} for each in pairwise(way)]
            if parts in steps or (len(parts) == 1 and parts & {*way}):
                return True
        return False


def _is_tree(names: tuple[str, ...], links: list[Ends]) -> bool:
    reached, left = {names[0]}, list(links)
    while found := [ends for ends in left if {*ends} & reached]:
        for ends in found:
            reached |= {*ends}
            left.remove(ends)
    return len(links) == len(names) - 1 and reached == {*names}
