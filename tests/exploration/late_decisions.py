"""Deciders of exchanges return from a death; every order of messages on their return.

The other brokers took the exchanges for aborted, and the second exchange began after that. They
have continued, while the deciders' records say otherwise. At the end the links must be one tree
that all brokers know, and the tables equal the oracle's.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import msgspec

from shoal.broker.effects import LinkState, Started
from shoal.broker.messages import Subscribe
from shoal.broker.strategy import BrokerContext
from shoal.overlays.self_organising.exchanges import LinkExchange
from shoal.overlays.self_organising.link_reconfiguration.ring import ExchangeRing
from shoal.overlays.self_organising.link_reconfiguration.ring_messages import (
    ExchangeDecision,
    LinkStanding,
)
from shoal.overlays.self_organising.links.memory import DONE, STANDINGS, LinkMemory
from shoal.overlays.self_organising.links.overlay import TreeOverlay
from tests.broker.transcript import advertisement, subscription
from tests.exploration.exchange_steps import RemainingScript
from tests.exploration.exchanges import LinkExchanges
from tests.exploration.network import DEAD, Draft, Network, State
from tests.forced_exchanges import Forced

# Numbers of a cycle's brokers, the decider first, and the link to remove.
Decided = tuple[tuple[int, ...], int]

# A decider's record is made long after the others settled the abort.
DECIDED_US = 100


class Bare:
    """Stands for a tree's tables: which links belong to the tree, without rows."""

    def __init__(self, neighbours: tuple[str, ...]) -> None:
        self.neighbours = dict.fromkeys(neighbours)
        self.turned: dict[str, tuple[str, ...]] = {}
        self.tables: Any = None
        self.propagation = self
        self.is_ready = self.is_at_rest = True
        self.is_moving = self.is_yielding = False
        self.changes = self
        self.facts: dict[str, Any] = {}

    def is_neighbour(self, broker: str) -> bool:
        return broker in self.neighbours

    def _no(self, *arguments: Any) -> bool:
        """No broker leaves."""
        return False

    takes_link = parts = opens = is_cut_off = _no

    def relink(self, neighbour: str, state: LinkState, *_: Any) -> None:
        self.neighbours.pop(neighbour, None)
        if state is LinkState.UP:
            self.neighbours[neighbour] = None

    def _nothing(self, *arguments: Any) -> None:
        """No tables, nothing to wait for."""

    surround = start = expect = restarted = wants = dismiss = replaced = _nothing


class BareLinks(Forced):
    """A broker with links and no tables."""

    def __init__(self, context: BrokerContext) -> None:
        super().__init__(context)
        self.tree: Any = Bare(tuple(context.neighbours))
        self.routing: Any = self.tree
        self.overlay = TreeOverlay(context, self, self.tree, self.tree)


class LateDecisions(LinkExchanges):
    """A line of brokers B1, B2, ...; the first broker of each exchange decided it and died.

    Without a publisher only links are judged.
    """

    def __init__(
        self,
        exchanges: tuple[Decided, ...],
        *,
        brokers: int = 4,
        publisher: str = "",
        subscribers: tuple[str, ...] = (),
    ) -> None:
        names = tuple(f"B{number}" for number in range(1, brokers + 1))
        strategy = Forced if publisher else BareLinks
        Network.__init__(self, names, self.clients, strategy)
        self.links = tuple(pairwise(names))
        self.decided = tuple(
            LinkExchange(cycle=tuple(f"B{each}" for each in cycle), remove=remove, saving=0)
            for cycle, remove in exchanges
        )
        self.exchange = self.decided[0]
        self.fault, self.timely, self.requests, self.is_sure = (), False, (), False
        away = [exchange.cycle[0] for exchange in self.decided]
        self.publisher = publisher
        self.promise = advertisement("a", publisher=self.clients[-1])
        self.interests = [(subscription(f"s{name}"), name) for name in subscribers]
        self.watchers = [interest.id for interest, _ in self.interests]
        self._memories = self._remembered(names)
        up = frozenset(frozenset(ends) for ends in self.links)
        lives = [
            DEAD if name in away else self.fresh(name, self._neighbours(name, up)) for name in names
        ]
        draft = Draft(
            State(
                (*lives, DEAD),
                ((),) * len(self.ways),
                frozenset(way for ends, way in self.ways.items() if frozenset(ends) not in up),
                (),
                0,
                ((),) * len(self.watchers),
                RemainingScript(begins=0, holding=(None,) * brokers, up=up, lasting=up),
            )
        )
        for ends, way in self.ways.items():
            if {*ends} & {*self.clients}:
                draft.closed.discard(way)
        for name in names:
            if name not in away:
                self._start(draft, name)
        self._set_out(draft, [name for name in names if name not in away])
        for name in away:
            for neighbour in self._neighbours(name, up):
                self.sever(draft, name, neighbour, *({neighbour} - {*away}))
        draft = Draft(self.settled(draft.state()))
        draft.left = draft.left._replace(up=frozenset(each for each in up if not each & {*away}))
        for name in away:
            draft.lives[self.index[name]] = self.fresh(name, (), self._neighbours(name, up))
            self._start(draft, name)
            self._set_out(draft, [name])
            for neighbour in self._neighbours(name, up):
                ends = frozenset((name, neighbour))
                if ends not in draft.left.up:
                    draft.left = draft.left._replace(up=draft.left.up | {ends})
                    self.join(draft, name, neighbour)
        self.start = draft.state()

    def _start(self, draft: Draft, name: str) -> None:
        memory = self._memories[name]
        rows = {each: memory.standing(each) for each in memory._rows}
        facts = {STANDINGS: msgspec.to_builtins(rows), DONE: msgspec.to_builtins(memory.decisions)}
        started = Started(former=(), give_up_us=60_000_000, facts=facts)
        self.take(draft, self.index[name], self.lives.input(started))

    def _set_out(self, draft: Draft, names: list[str]) -> None:
        """The state in which these brokers' clients are connected."""
        if self.publisher in names:
            self.advertise(draft)
        for interest, home in self.interests:
            if home in names:
                self._ask(draft, home, Subscribe(interest))

    def _remembered(self, names: tuple[str, ...]) -> dict[str, LinkMemory]:
        """Each broker's records: the decider's says committed, the others' say aborted."""
        memories = {
            name: LinkMemory(
                [end for ends in self.links if name in ends for end in {*ends} - {name}], dict
            )
            for name in names
        }
        for number, exchange in enumerate(self.decided):
            rings = {name: ExchangeRing(name, exchange) for name in exchange.cycle}
            latest_us = max(
                0,
                *(
                    memories[name].standing(ring.opposite).since_us
                    for name, ring in rings.items()
                    if ring.opens_link
                ),
                *(
                    memories[name].standing(ring.before).since_us
                    for name, ring in rings.items()
                    if ring.ends_link
                ),
            )
            key = exchange.cycle[-1], number + 1
            done = ExchangeDecision(key, exchange, True, DECIDED_US * (number + 1), latest_us)
            kept = ExchangeDecision(key, exchange, False, latest_us + 1, latest_us, "lost")
            for name, ring in rings.items():
                verdict = done if ring.is_first else kept
                memories[name].became(verdict)
                if ring.opens_link:
                    standing = LinkStanding(verdict.is_done, verdict.at_us)
                    memories[name].put(ring.opposite, standing)
                if ring.ends_link:
                    memories[name].put(
                        ring.before, LinkStanding(not verdict.is_done, verdict.at_us)
                    )
        return memories

    def carry_out(self, draft: Draft, who: int, effect: tuple[Any, ...]) -> None:
        """A broker that has removed a link from its tree refuses messages that still arrive over
        it.
        """
        if effect[0] != "refused":
            super().carry_out(draft, who, effect)

    def judge(self, state: State) -> list[str]:
        return super().judge(state) if self.publisher else self.judge_links(state)

    def published(self, state: State) -> list[int]:
        return []
