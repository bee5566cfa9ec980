"""Brokers of a graph with cycles that leave, in every order of messages: TID, with `leaves.py`.

All trees are made anew without the leaving broker. At the end the remaining brokers are connected,
their trees and bindings are those of the oracle, and publications have arrived once, in order.
"""

from __future__ import annotations

from typing import Any

from shoal.broker.machine import Broker
from shoal.overlays.system import Picture
from shoal.overlays.tid.oracle import problems
from tests.exploration.around import Pair
from tests.exploration.leaves import PROMISE, Leaves, Play, Seen, is_connected, unfinished
from tests.exploration.network import State

TRIANGLE = (("A", "B"), ("B", "C"), ("A", "C"))


class GraphLeaves(Leaves):
    """The network of a play whose links may form cycles."""

    shape = "connected graph"

    def __init__(self, play: Play) -> None:
        super().__init__(play, "tid")

    def facts(self, broker: Broker) -> Seen:
        strategy: Any = broker.strategy
        problem = unfinished(strategy, strategy)
        if not problem and strategy._next:
            problem = f"new trees are not in use: {[*strategy._next]}"
        elif not problem and strategy._forwarding.deliveries._waiting:
            problem = "deliveries wait"
        return Seen(frozenset(strategy._neighbours), strategy.changes.is_out, problem)

    def check(self, state: State) -> None:
        """Cycles are allowed."""

    def is_sound(self, names: list[str], links: frozenset[Pair]) -> bool:
        return is_connected(names, links)

    def judge_tables(self, state: State) -> list[str]:
        strategies = {
            name: self.lives.machine(state.lives[self.index[name]]).broker.strategy
            for name in self.names
            if self.is_alive(state, name)
        }
        links = [tuple(sorted(ends)) for ends in self.world(state).linked]
        promises = [(PROMISE, self.play.publishing)]
        return problems(Picture(links, promises, self.wishes), strategies)  # type: ignore[arg-type]
