"""Sweeps: probes that flush the paths in a cluster before its entry broker changes.

Publications by the new entry might overtake those in transit from the former one. So the host sends
a sweep behind the latter, over the cluster's tree, and keeps new publications for the cluster until
the sweep is answered. A sweep waits behind publications that are kept within the cluster, but not
behind those that wait to leave it: these may wait for another sweep. If a broker awaits an answer
over a link that is lost, the publications of that link are returned: the sweep waits behind them,
and takes the links of then.

A broker that has lost its parent (`relinking.py`) flushes that link by a sweep, too. Such a sweep
waits for no kept publication, and also goes to its own origin, from the brokers still linked to it:
it comes behind the publications on that link, or these were returned and take the new path before
the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from shoal.broker.effects import Effect, Send
from shoal.model import BrokerId
from shoal.overlays.octopia.messages import Sweep, Swept

# (origin of the sweep, its number)
SweepName = tuple[BrokerId, int]


class _Round:
    """A sweep that was forwarded from here: brokers yet to answer, and the one to answer then."""

    __slots__ = ("answers_to", "awaited", "has_lost", "is_for_lost")

    def __init__(
        self,
        awaited: Collection[BrokerId],
        answers_to: BrokerId | None,
        *,
        is_for_lost: bool = False,
    ) -> None:
        self.awaited = set(awaited)
        self.answers_to = answers_to
        self.is_for_lost = is_for_lost
        # Whether an awaited broker is lost.
        self.has_lost = False


class Sweeps:
    """Own sweeps for clusters with a changing entry, and forwarded sweeps of others.

    `routing_decision` maps a broker to the next hops in this cluster for its publications,
    `holds_up` tests whether publications from it may wait here, `is_beside` whether a broker of
    this cluster is linked.
    """

    def __init__(
        self,
        broker: BrokerId,
        routing_decision: Callable[[BrokerId], Collection[BrokerId]],
        holds_up: Callable[[BrokerId], bool],
        is_beside: Callable[[BrokerId], bool],
    ) -> None:
        self._broker = broker
        self._routing_decision = routing_decision
        self._holds_up = holds_up
        self._is_beside = is_beside
        self._number = 0
        self._rounds: dict[SweepName, _Round] = {}
        # By cluster: the own sweeps, and the former entries by which they went.
        self._own: dict[int, dict[SweepName, BrokerId]] = {}
        # Sweeps that wait behind publications, and the neighbours that they came from.
        self._waiting: list[tuple[SweepName, BrokerId]] = []
        # The own sweep that flushes a lost link.
        self._for_lost: SweepName | None = None
        # Whether a link is lost, and its publications may not be returned yet.
        self._is_returning = False

    def __contains__(self, cluster: int) -> bool:
        """Whether a cluster's entry changes."""
        return cluster in self._own

    def former(self, cluster: int) -> BrokerId | None:
        """The last entry broker of a cluster with a changing entry."""
        return next(reversed(self._own.get(cluster, {}).values()), None)

    @property
    def are_waiting(self) -> bool:
        """Whether a sweep waits here."""
        return bool(self._waiting)

    def are_by(self, broker: BrokerId) -> bool:
        """Whether a former entry broker has yet to answer."""
        return any(broker in sweeps.values() for sweeps in self._own.values())

    def start(self, now_us: int) -> None:
        """The broker starts: its sweeps have other numbers than those of earlier incarnations."""
        self._number = now_us

    def begin(self, cluster: int, before: BrokerId, out: list[Effect]) -> None:
        """A cluster's entry moves away from this broker, which is still connected."""
        self._number += 1
        name = (self._broker, self._number)
        self._own.setdefault(cluster, {})[name] = before
        self._rounds[name] = _Round([before], None)
        out.append(Send(before, Sweep(*name)))

    def ask_for_lost(self, new: BrokerId, out: list[Effect]) -> None:
        """The link up is lost, and this broker is linked up to now."""
        self._number += 1
        self._for_lost = name = (self._broker, self._number)
        self._rounds[name] = _Round([new], None, is_for_lost=True)
        out.append(Send(new, Sweep(*name, is_for_lost=True)))

    @property
    def asks_for_lost(self) -> bool:
        """Whether publications of the lost link may not have come yet."""
        return self._for_lost in self._rounds

    def receive(self, neighbour: BrokerId, message: Sweep | Swept, out: list[Effect]) -> None:
        name = (message.broker, message.number)
        if isinstance(message, Sweep):
            if message.broker == self._broker:
                out.append(Send(neighbour, Swept(*name)))
            elif message.is_for_lost:
                self._pass_on(name, neighbour, out, is_for_lost=True)
            else:
                self._waiting.append((name, neighbour))
            return
        round = self._rounds.get(name)
        if round is not None:
            round.awaited.discard(neighbour)
            self._try_to_end(name, round, out)

    def forward_waiting(self, out: list[Effect]) -> list[BrokerId]:
        """Forward sweeps that need not wait; returns former entries whose sweeps were answered."""
        waiting, self._waiting = self._waiting, []
        for name, neighbour in waiting:
            if self._is_returning or self._holds_up(neighbour):
                self._waiting.append((name, neighbour))
            else:
                self._pass_on(name, neighbour, out)
        found = []
        for cluster, sweeps in list(self._own.items()):
            over = [each for each in sweeps if each not in self._rounds]
            found += [sweeps.pop(name) for name in over]
            if not sweeps:
                del self._own[cluster]
        return found

    def _pass_on(
        self,
        name: SweepName,
        neighbour: BrokerId,
        out: list[Effect],
        *,
        is_for_lost: bool = False,
    ) -> None:
        routing_decision = set(self._routing_decision(neighbour))
        if is_for_lost and name[0] != neighbour and self._is_beside(name[0]):
            routing_decision.add(name[0])
        if name in self._rounds or not (routing_decision or self._is_returning):
            out.append(Send(neighbour, Swept(*name)))
            return
        self._rounds[name] = _Round(routing_decision, neighbour, is_for_lost=is_for_lost)
        out += [Send(each, Sweep(*name, is_for_lost)) for each in sorted(routing_decision)]

    def _try_to_end(self, name: SweepName, round: _Round, out: list[Effect]) -> None:
        if round.awaited or self._is_returning:
            return
        del self._rounds[name]
        if round.answers_to is None:
            return
        if round.has_lost and not round.is_for_lost:
            self._waiting.append((name, round.answers_to))
        else:
            out.append(Send(round.answers_to, Swept(*name)))

    def lost(self, neighbour: BrokerId, is_up: bool, out: list[Effect]) -> None:
        """A neighbour is lost, or has restarted."""
        self._waiting = [each for each in self._waiting if each[1] != neighbour]
        for name, round in list(self._rounds.items()):
            if round.answers_to == neighbour:
                del self._rounds[name]
            elif neighbour in round.awaited:
                round.awaited.discard(neighbour)
                if round.answers_to is not None:
                    round.has_lost = True
                    self._is_returning |= not is_up
                self._try_to_end(name, round, out)

    def returned(self, out: list[Effect]) -> None:
        """The publications of lost links are returned, and forwarded where there is a path."""
        self._is_returning = False
        for name, round in list(self._rounds.items()):
            self._try_to_end(name, round, out)
