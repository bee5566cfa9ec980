"""Brokers that leave, step by step, with links under the test's control and a transcript.

B1 -> B5: LeaveWanted     a broker sends to another
B1 opens B5, ends B5      it requests a link, or ends one
B1 holds but B5           it quiesces except for these; "goes on" when it resumes
B1 writes                 it stores its state
B1 has left
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from shoal.broker.effects import (
    EndLink,
    Hold,
    Leave,
    Left,
    LinkChanged,
    LinkState,
    OpenLink,
    Release,
    Remember,
    Send,
    Started,
)
from shoal.broker.machine import Broker
from shoal.broker.messages import Message
from shoal.overlays.coordination.coordinator import Coordinator
from shoal.overlays.coordination.host import TIMER
from shoal.overlays.coordination.messages import ChangeMessage
from tests.broker.transcript import Stage


class Leaving(Stage):
    """Brokers of which some leave; `play` runs every step that needs no decision of the test."""

    def __init__(self, *links: tuple[str, str], system: str = "tree") -> None:
        super().__init__(links, system)
        self.disks: dict[str, Mapping[str, Any]] = {}
        self.holds: dict[str, tuple[str, ...]] = {}
        self.left: list[str] = []
        self._lasting = {frozenset(ends) for ends in links}
        self.settle()
        self.take_transcript()

    def changes(self, name: str) -> Coordinator:
        strategy: Any = self.brokers[name].strategy
        return getattr(strategy, "tree", strategy).changes  # type: ignore[no-any-return]

    # --- events -------------------------------------------------------------------------------

    def leave(self, name: str) -> None:
        self.handle(name, Leave())

    def fires(self, name: str) -> None:
        self.fire(name, TIMER)

    def up(self, left: str, right: str) -> None:
        """The link comes up."""
        is_lasting = frozenset((left, right)) in self._lasting
        for way in ((left, right), (right, left)):
            self.links[way] = deque()
        self.handle(left, LinkChanged(right, LinkState.UP, is_lasting))
        self.handle(right, LinkChanged(left, LinkState.UP, is_lasting))

    def lasts(self, left: str, right: str) -> None:
        """A link that is to come up belongs to the tree."""
        self._lasting.add(frozenset((left, right)))

    def ended(self, left: str, right: str) -> None:
        """The link has ended empty."""
        assert not self.links.pop((left, right)), f"{left} - {right}"
        assert not self.links.pop((right, left)), f"{right} - {left}"
        for name, other in ((left, right), (right, left)):
            if name not in self.left:
                self.handle(name, LinkChanged(other, LinkState.ENDED))

    def lose(self, left: str, right: str) -> None:
        """Lose the link's content; the living ends notice."""
        is_lasting = frozenset((left, right)) in self._lasting
        for name, other in ((left, right), (right, left)):
            self.links.pop((name, other), None)
        for name, other in ((left, right), (right, left)):
            if name in self.brokers:
                self.handle(name, LinkChanged(other, LinkState.FAILED, is_lasting))

    def kill(self, name: str) -> None:
        del self.brokers[name]
        self.holds.pop(name, None)
        for other in sorted({ends[1] for ends in self.links if ends[0] == name}):
            self.lose(name, other)

    def start(self, name: str, *expected: str) -> None:
        """Start the broker from its disk."""
        self.brokers[name] = Broker(name, (), self.factory, expected=expected)
        self.handle(name, Started(facts=self.disks.get(name, {})))

    def settle(self, random: Any = None) -> None:
        """Let everything under way arrive that its broker accepts."""
        while waiting := [way for way in self.links if self._may_arrive(way)]:
            self.carry(*waiting[0])

    def _may_arrive(self, way: tuple[str, str]) -> bool:
        source, target = way
        holds = getattr(self, "holds", {})
        return bool(self.links[way]) and source in holds.get(target, (source,))

    def carry_out(self, broker: str, effects: list[Any]) -> None:
        for effect in effects:
            match effect:
                case Send(neighbour, message) if isinstance(message, ChangeMessage):
                    self.said.append(f"{broker} -> {neighbour}: {_words(message)}")
                    if (broker, neighbour) in self.links:
                        self.links[broker, neighbour].append(message)
                case Send(neighbour, message):
                    if (broker, neighbour) in self.links:
                        self.links[broker, neighbour].append(message)
                case OpenLink(neighbour, is_lasting=is_lasting):
                    if is_lasting:
                        self._lasting.add(frozenset((broker, neighbour)))
                    if (broker, neighbour) not in self.links:
                        self.said.append(f"{broker} opens {neighbour}")
                case EndLink(neighbour):
                    self._lasting.discard(frozenset((broker, neighbour)))
                    self.said.append(f"{broker} ends {neighbour}")
                case Hold(but):
                    self.holds[broker] = but
                    self.said.append(f"{broker} holds but {' '.join(but)}")
                case Release():
                    self.holds.pop(broker, None)
                    self.said.append(f"{broker} goes on")
                case Remember(facts):
                    self.disks[broker] = facts
                    self.said.append(f"{broker} writes")
                case Left():
                    self.left.append(broker)
                    self.said.append(f"{broker} has left")
                case _:
                    super().carry_out(broker, [effect])


def _words(message: Message) -> str:
    name, reason = type(message).__name__, getattr(message, "reason", "")
    return f"{name}: {reason}" if reason else name
