"""When another broker is used to enter a cluster: not before all that went by the former is there.

What goes by the new entry might overtake what is still on its way from the former one.  So a sweep
is sent behind that, over the cluster's tree, and what is for the cluster is kept until it has been
everywhere.  It waits where publications wait on their way in the cluster, but not for those that
wait to leave it: these may wait for another sweep.  Who awaits an answer over a link that is lost
has back what was on it: the sweep waits behind that, and goes on as links are then.

Who has lost the link up (`relinking.py`) asks for what was under way by that.  Such a sweep waits
for nothing that is kept, and goes to its own broker, too, by whom is still linked to it: it comes
behind what is on that link, or what was on it has come back, and goes the new way before the
answer.
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
        # Whether somebody that was awaited is lost.
        self.has_lost = False


class Sweeps:
    """The clusters of which the entry changes here, and everybody's sweeps that pass.

    `onward` says to whom of this cluster goes on what comes from a broker, `holds_up` whether what
    came from there may wait here, `is_beside` whether a broker of this cluster is linked.
    """

    def __init__(
        self,
        broker: BrokerId,
        onward: Callable[[BrokerId], Collection[BrokerId]],
        holds_up: Callable[[BrokerId], bool],
        is_beside: Callable[[BrokerId], bool],
    ) -> None:
        self._broker = broker
        self._onward = onward
        self._holds_up = holds_up
        self._is_beside = is_beside
        self._number = 0
        self._rounds: dict[SweepName, _Round] = {}
        # By cluster: the own sweeps, and the former entries by which they went.
        self._own: dict[int, dict[SweepName, BrokerId]] = {}
        # Those that wait behind publications, and whom they came from.
        self._waiting: list[tuple[SweepName, BrokerId]] = []
        # The own one that asks for what was under way by a lost link.
        self._for_lost: SweepName | None = None
        # Whether a link is lost, and what was on it may not be back yet.
        self._is_returning = False

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

    def ask_for_lost(self, new: BrokerId, out: list[Effect]) -> None:
        """The link up is lost, and this broker is linked up to now."""
        self._number += 1
        self._for_lost = name = (self._broker, self._number)
        self._rounds[name] = _Round([new], None, is_for_lost=True)
        out.append(Send(new, Sweep(*name, is_for_lost=True)))

    @property
    def asks_for_lost(self) -> bool:
        """Whether what was under way by that link may not have come yet."""
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

    def go_on(self, out: list[Effect]) -> list[BrokerId]:
        """Pass on what may go; the former entries from which all has arrived since asked last."""
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
        onward = set(self._onward(neighbour))
        if is_for_lost and name[0] != neighbour and self._is_beside(name[0]):
            onward.add(name[0])
        if name in self._rounds or not (onward or self._is_returning):
            out.append(Send(neighbour, Swept(*name)))
            return
        self._rounds[name] = _Round(onward, neighbour, is_for_lost=is_for_lost)
        out += [Send(each, Sweep(*name, is_for_lost)) for each in sorted(onward)]

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
        """A neighbour is gone, or back and knows nothing of earlier."""
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
        """What was on lost links is back, and on its way where it has one."""
        self._is_returning = False
        for name, round in list(self._rounds.items()):
            self._try_to_end(name, round, out)
