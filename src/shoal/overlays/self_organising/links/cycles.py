"""Accidental cycles: broadcasts find them, and one rule breaks them.

Links outlive their brokers, and each broker keeps its own on disk. If all brokers of a cycle are
killed as they exchange links, the ends of the new link may remember it, and the ends of the old one
may remember that, while no broker remembers the exchange. Then broadcasts come to brokers of the
cycle from both sides. A broker that receives one twice knows the cycle. The last of the cycle's
links by name that is not pinned is to be removed, and the first of that link's ends does it: since
broadcasts may be out of date, it first sends a message round the cycle, and ends the link if the
message comes back over it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Protocol

from shoal.broker.effects import Effect, Send
from shoal.broker.messages import Message
from shoal.broker.strategy import ProtocolError
from shoal.broker.wire import Vocabulary
from shoal.model import BrokerId

Way = tuple[BrokerId, ...]


class CycleRound(Message, frozen=True):
    """Along a cycle, from its first broker to its last, and over the link that is to go."""

    cycle: Way

    def check(self, sender: BrokerId, receiver: BrokerId) -> None:
        """ProtocolError unless it can have come from this neighbour."""
        cycle = self.cycle
        if len(cycle) < 3 or len({*cycle}) < len(cycle):
            raise ProtocolError(f"{cycle} is no cycle")
        if (sender, receiver) not in pairwise((*cycle, cycle[0])):
            raise ProtocolError(f"{sender} is not before {receiver} on {cycle}")


CYCLES: Vocabulary = (CycleRound,)


class CycleHost(Protocol):
    """The broker that the links belong to."""

    @property
    def exchanging(self) -> str:
        """Why its links must stay as they are now."""

    def is_neighbour(self, neighbour: BrokerId) -> bool: ...

    def since_us(self, neighbour: BrokerId) -> int:
        """When it was last settled whether the link belongs to the tree."""

    def put_out(self, neighbour: BrokerId, at_us: int, now_us: int, out: list[Effect]) -> None:
        """The link does not belong to the tree any more."""


class Cycles:
    """One broker's part; `may_go` is the operator's permission to remove a link."""

    def __init__(
        self, broker: BrokerId, host: CycleHost, may_go: Callable[[BrokerId, BrokerId], bool]
    ) -> None:
        self._broker = broker
        self._host = host
        self._may_go = may_go
        # The first path of each broker's last broadcast.
        self._ways: dict[BrokerId, Way] = {}

    def turn(self) -> None:
        """An interval ends, and all brokers broadcast anew."""
        self._ways.clear()

    def on_broadcast(self, way: Sequence[BrokerId], out: list[Effect]) -> None:
        """A broadcast came over these brokers, the last of which is a neighbour."""
        if self._broker in way:
            return
        first = self._ways.setdefault(way[0], tuple(way))
        if first[-1] == way[-1]:
            return
        cycle = _between(self._broker, first, way)
        links = [link for link in pairwise((*cycle, cycle[0])) if self._may_go(*link)]
        if not links:
            return
        last = max(links, key=sorted)
        if self._broker == min(last) and not self._host.exchanging:
            (other,) = {*last} - {self._broker}
            if cycle[1] == other:
                cycle = (cycle[0], *cycle[:0:-1])
            if self._host.is_neighbour(cycle[1]):
                out.append(Send(cycle[1], CycleRound(cycle)))

    def receive(
        self, neighbour: BrokerId, message: CycleRound, now_us: int, out: list[Effect]
    ) -> None:
        """The message has come this far round the cycle."""
        cycle, host = message.cycle, self._host
        message.check(neighbour, self._broker)
        if host.exchanging:
            return
        if cycle[0] == self._broker:
            if self._may_go(self._broker, neighbour):
                host.put_out(neighbour, max(now_us, host.since_us(neighbour) + 1), now_us, out)
            return
        following = (*cycle, cycle[0])[cycle.index(self._broker) + 1]
        if host.is_neighbour(following):
            out.append(Send(following, message))


def _between(broker: BrokerId, one: Sequence[BrokerId], other: Sequence[BrokerId]) -> Way:
    """The cycle of two paths to a broker: the broker, one path back, the other path there.

    >>> _between("E", ["A", "B", "C"], ["A", "B", "D"])
    ('E', 'C', 'B', 'D')
    """
    fork = next(each for each in reversed(one) if each in other)
    there = other[other.index(fork) + 1 :]
    return (broker, *one[: one.index(fork) - len(one) - 1 : -1], *there)
