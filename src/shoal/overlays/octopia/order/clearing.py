"""When all that was numbered for a gate that is lost has come back to its hosts.

Whoever loses the link to a gate gives what it was to let in back (`giving_back.py`), and then says
to its region that the way is *closed*: behind that it passes nothing on to be carried there.  Who
has closed it and has heard that of all others in its region has nothing more to come, so that for
it the way is *cleared*: it says so to each of them, behind what it gave back to that one.  A host
that has heard it of all sends again what came back, and then tells the next gate that nothing of
before comes any more (`NumbersOpen`); while it waits for that, that it will tell.

| input | does |
| --- | --- |
| the link to a gate is lost, what it had not settled is back | the way is closed, others hear it |
| it is up before that | what was unsettled goes there once more: nobody can say that it is over |
| another says that it has closed the way | it is answered when all have |
| the link to the gate is up again | others hear it: who waits for an answer has none |
| the link to another is lost, what it had not settled is back | it need not answer |
| something is carried to that cluster anew | the way is not cleared any more |

A gate that is cut off from some of its region only, or whose neighbours do not answer, is as one
of which nothing is known: who takes its place waits for `doubt_us`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from shoal.broker.effects import Effect, Send
from shoal.model import BrokerId
from shoal.overlays.octopia.messages import WayCleared, WayClosed, WayOpened
from shoal.overlays.octopia.order.giving_back import GivingBack
from shoal.overlays.octopia.order.ordering import Numbering
from shoal.overlays.octopia.ways.copies import clusters_of
from shoal.overlays.octopia.ways.keeping import Keeping


class _Closed(NamedTuple):
    """A way that is closed here, to a cluster's gate; `round` tells it from earlier times."""

    cluster: int
    round: int


class Clearing:
    """At one broker; `near` are the other brokers of its region, `is_linked` those linked."""

    def __init__(
        self,
        near: Collection[BrokerId],
        is_linked: Callable[[BrokerId], bool],
        kept: Keeping,
        giving_back: GivingBack,
        numbering: Numbering,
    ) -> None:
        self._near = near
        self._is_linked = is_linked
        self._kept = kept
        self._giving_back = giving_back
        self._numbering = numbering
        # By gate: its cluster, where what it had not settled may not be back yet.
        self._lost: dict[BrokerId, int] = {}
        self._closed: dict[BrokerId, _Closed] = {}
        self._rounds = 0
        # By gate, who else has closed the way to it, and of those who has no answer, with rounds.
        self._others: dict[BrokerId, set[BrokerId]] = {}
        self._asked: dict[BrokerId, dict[BrokerId, int]] = {}
        # By cluster: who has to answer this broker yet; None: nobody can say.
        self._awaited: dict[int, set[BrokerId] | None] = {}
        # Whether what follows from all this may be another than when hosts were looked at last.
        self._is_changed = False

    def _around(self, gate: BrokerId) -> list[BrokerId]:
        return sorted(each for each in self._near if each != gate and self._is_linked(each))

    def changed(self) -> None:
        """Others may be near now, or what was kept is not any more."""
        self._is_changed = True

    # --- links --------------------------------------------------------------------------------

    def lost(self, gate: BrokerId, cluster: int) -> None:
        """The link to a gate of this region is lost."""
        self._is_changed = True
        self._lost[gate] = cluster
        self._closed.pop(gate, None)
        self._awaited[cluster] = None

    def linked(self, broker: BrokerId, out: list[Effect]) -> None:
        """The link to a broker of this region is up, maybe anew: nothing has been said over it."""
        self._is_changed = True
        for others in self._others.values():
            others.discard(broker)
        for asked in self._asked.values():
            asked.pop(broker, None)
        self._lost.pop(broker, None)
        closed = self._closed.pop(broker, None)
        if closed is not None:
            if self._awaited.get(closed.cluster):
                self._awaited[closed.cluster] = None
            out += [Send(each, WayOpened(broker)) for each in self._around(broker)]
        for gate, (cluster, number) in self._closed.items():
            out.append(Send(broker, WayClosed(gate, number)))
            if awaited := self._awaited.get(cluster):
                awaited.add(broker)

    def returned(self, out: list[Effect]) -> None:
        """What those whose links are lost had not settled is back."""
        self._is_changed = True
        lost, self._lost = self._lost, {}
        for gate, cluster in lost.items():
            self._rounds += 1
            self._closed[gate] = _Closed(cluster, self._rounds)
            around = self._around(gate)
            self._awaited[cluster] = set(around)
            out += [Send(each, WayClosed(gate, self._rounds)) for each in around]
        for awaited in self._awaited.values():
            if awaited:
                awaited -= {each for each in awaited if not self._is_linked(each)}

    # --- what is said and carried -------------------------------------------------------------

    def hear(self, source: BrokerId, message: WayClosed | WayOpened | WayCleared) -> None:
        """Another broker has closed the way to a gate, opened it again, or cleared it."""
        gate = message.gate
        if source not in self._near or gate not in self._near:
            return
        self._is_changed = True
        closed = self._closed.get(gate)
        awaited = None if closed is None else self._awaited.get(closed.cluster)
        if type(message) is WayClosed:
            self._others.setdefault(gate, set()).add(source)
            self._asked.setdefault(gate, {})[source] = message.round
        elif type(message) is WayCleared:
            if closed is not None and awaited and closed.round == message.round:
                awaited.discard(source)
        else:
            self._others.get(gate, set()).discard(source)
            self._asked.get(gate, {}).pop(source, None)
            if closed is not None and awaited and source in awaited:
                self._awaited[closed.cluster] = None

    def carried(self, copies: Mapping[BrokerId, int]) -> None:
        """A publisher's publications are carried to clusters anew, where copies owe any."""
        if self._awaited:
            for cluster in [each for bits in copies.values() for each in clusters_of(bits)]:
                if cluster in self._awaited:
                    self._is_changed = True
                    del self._awaited[cluster]

    # --- what follows -------------------------------------------------------------------------

    def go_on(self, now_us: int, out: list[Effect]) -> None:
        """Answer others, and tell gates what may come to them yet, behind what was sent there."""
        for gate, asked in self._asked.items():
            if asked:
                self._answer(gate, asked, out)
        if self._numbering.is_late:
            self._numbering.open(
                self.is_cleared,
                self.will_be_cleared,
                self._kept.has_for,
                now_us,
                out,
                is_changed=self._is_changed,
            )
        self._is_changed = False

    def _answer(self, gate: BrokerId, asked: dict[BrokerId, int], out: list[Effect]) -> None:
        """Answer those of whom nothing more comes, nor is here to be given back."""
        closed = self._closed.get(gate)
        if closed is None or not self._others[gate].issuperset(self._around(gate)):
            return
        kept, giving_back = self._kept, self._giving_back
        answered = [
            each
            for each in asked
            if not kept.has_of(each, closed.cluster) and not giving_back.waits_for(each)
        ]
        out += [Send(each, WayCleared(gate, asked.pop(each))) for each in answered]

    def is_cleared(self, cluster: int) -> bool:
        """Whether all that was numbered for the cluster's gate that is lost has come back."""
        awaited = self._awaited.get(cluster)
        return awaited is not None and not awaited

    def will_be_cleared(self, cluster: int) -> bool:
        """Whether all of the region have closed the way, so that those awaited will answer."""
        if not self._awaited.get(cluster):
            return False
        gates = [gate for gate, closed in self._closed.items() if closed.cluster == cluster]
        return any(self._others.get(gate, set()) >= set(self._near) - {gate} for gate in gates)
