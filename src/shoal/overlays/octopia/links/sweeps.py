"""When another broker is used to enter a cluster: not before all that went by the former is there.

What goes by the new entry might overtake what is still on its way from the former one.  So a sweep
is sent behind that, over the cluster's tree, and what is for the cluster is kept until it has been
everywhere.  It waits where publications wait on their way in the cluster, but not for those that
wait to leave it: these may wait for another sweep.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from shoal.broker.effects import Effect, Send
from shoal.model import BrokerId
from shoal.overlays.octopia.messages import Sweep, Swept

# (whose sweep, its number)
SweepName = tuple[BrokerId, int]


class _Round:
    """A sweep that went on from here: who has yet to answer, and who is answered then."""

    __slots__ = ("answers_to", "awaited")

    def __init__(self, awaited: Collection[BrokerId], answers_to: BrokerId | None) -> None:
        self.awaited = set(awaited)
        self.answers_to = answers_to


class Sweeps:
    """The clusters of which the entry changes here, and everybody's sweeps that pass.

    `onward` says to whom of this cluster goes on what comes from a broker, `holds_up` whether what
    came from there may wait here.
    """

    def __init__(
        self,
        broker: BrokerId,
        onward: Callable[[BrokerId], Collection[BrokerId]],
        holds_up: Callable[[BrokerId], bool],
    ) -> None:
        self._broker = broker
        self._onward = onward
        self._holds_up = holds_up
        self._number = 0
        self._rounds: dict[SweepName, _Round] = {}
        # By cluster: the own sweeps, and the former entries by which they went.
        self._own: dict[int, dict[SweepName, BrokerId]] = {}
        # Those that wait behind publications, and whom they came from.
        self._waiting: list[tuple[SweepName, BrokerId]] = []

    def __contains__(self, cluster: int) -> bool:
        """Whether a cluster's entry changes."""
        return cluster in self._own

    def former(self, cluster: int) -> BrokerId | None:
        """By whom a cluster whose entry changes was entered last."""
        return next(reversed(self._own.get(cluster, {}).values()), None)

    @property
    def are_waiting(self) -> bool:
        """Whether some sweep waits here."""
        return bool(self._waiting)

    def are_by(self, broker: BrokerId) -> bool:
        """Whether a former entry has yet to answer."""
        return any(broker in sweeps.values() for sweeps in self._own.values())

    def start(self, now_us: int) -> None:
        """The broker starts: its sweeps have other numbers than those of earlier lives."""
        self._number = now_us

    def begin(self, cluster: int, before: BrokerId, out: list[Effect]) -> None:
        """A cluster was entered by this broker, which is still there, and is so no more."""
        self._number += 1
        name = (self._broker, self._number)
        self._own.setdefault(cluster, {})[name] = before
        self._rounds[name] = _Round([before], None)
        out.append(Send(before, Sweep(*name)))

    def receive(self, neighbour: BrokerId, message: Sweep | Swept, out: list[Effect]) -> None:
        name = (message.broker, message.number)
        if isinstance(message, Sweep):
            self._waiting.append((name, neighbour))
            return
        round = self._rounds.get(name)
        if round is not None:
            round.awaited.discard(neighbour)
            self._try_to_end(name, round, out)

    def go_on(self, out: list[Effect]) -> list[BrokerId]:
        """Pass on what may go; the former entries from which all has arrived since asked last."""
        waiting, self._waiting = self._waiting, []
        for name, neighbour in waiting:
            if self._holds_up(neighbour):
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

    def _pass_on(self, name: SweepName, neighbour: BrokerId, out: list[Effect]) -> None:
        onward = self._onward(neighbour)
        if not onward or name in self._rounds:
            out.append(Send(neighbour, Swept(*name)))
            return
        self._rounds[name] = _Round(onward, neighbour)
        out += [Send(each, Sweep(*name)) for each in sorted(onward)]

    def _try_to_end(self, name: SweepName, round: _Round, out: list[Effect]) -> None:
        if not round.awaited:
            del self._rounds[name]
            if round.answers_to is not None:
                out.append(Send(round.answers_to, Swept(*name)))

    def lost(self, neighbour: BrokerId, out: list[Effect]) -> None:
        """A neighbour is gone, or knows nothing of earlier."""
        self._waiting = [each for each in self._waiting if each[1] != neighbour]
        for name, round in list(self._rounds.items()):
            if round.answers_to == neighbour:
                del self._rounds[name]
            elif neighbour in round.awaited:
                round.awaited.discard(neighbour)
                self._try_to_end(name, round, out)
