"""Clearing: detection that all publications numbered for a lost sequencer are back at their hosts.

A broker that loses the link to a sequencer returns the publications for it to their hosts
(`giving_back.py`), and then announces to its region that the path is *closed*: behind that it
forwards nothing to be carried there. A broker that has closed the path, and has that announcement
from all others in its region, gets nothing more, so that the path is *cleared* for it: it announces
that to each of them, behind the publications that it returned to that one. A host that has it from
all sends the returned publications again, and then informs the next sequencer that nothing earlier
comes any more (`NumbersOpen`); while it waits for that, it announces that it will.

| input | action |
| --- | --- |
| the link to a sequencer is lost, its unsettled input is back | close the path, inform others |
| it is up before that | send them there again: the end is undefined |
| another broker has closed the path | answer it when all have |
| the link to the sequencer is up again | inform others: they do not wait for an answer |
| the link to another is lost, its unsettled publications are back | it need not answer |
| a publication is carried to that cluster anew | the path is not cleared any more |

A sequencer that is cut off from some of its region only, or whose neighbours do not answer, counts
as unknown: its substitute waits for `doubt_us`.
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
    """A path that is closed here, to a cluster's sequencer; `round` distinguishes its closures."""

    cluster: int
    round: int


class Clearing:
    """Closed and cleared paths at one broker.

    `near` are the other brokers of its region, `is_linked` tells which of them have a link here.
    """

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
        # By lost sequencer: its cluster, while its unsettled publications may not be back yet.
        self._lost: dict[BrokerId, int] = {}
        self._closed: dict[BrokerId, _Closed] = {}
        self._rounds = 0
        # By sequencer: the others that have closed the path to it, and those of them without an
        # answer, with rounds.
        self._others: dict[BrokerId, set[BrokerId]] = {}
        self._asked: dict[BrokerId, dict[BrokerId, int]] = {}
        # By cluster: brokers that have yet to answer this one; None: undefined.
        self._awaited: dict[int, set[BrokerId] | None] = {}
        # Whether the results may have changed since hosts were last looked at.
        self._is_changed = False

    def _around(self, sequencer: BrokerId) -> list[BrokerId]:
        return sorted(each for each in self._near if each != sequencer and self._is_linked(each))

    def changed(self) -> None:
        """Other brokers may be in the region now, or kept publications are gone."""
        self._is_changed = True

    # --- links --------------------------------------------------------------------------------

    def lost(self, sequencer: BrokerId, cluster: int) -> None:
        """The link to a sequencer of this region is lost."""
        self._is_changed = True
        self._lost[sequencer] = cluster
        self._closed.pop(sequencer, None)
        self._awaited[cluster] = None

    def linked(self, broker: BrokerId, out: list[Effect]) -> None:
        """The link to a broker of this region is up, maybe anew: nothing has been sent over it."""
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
        for sequencer, (cluster, number) in self._closed.items():
            out.append(Send(broker, WayClosed(sequencer, number)))
            if awaited := self._awaited.get(cluster):
                awaited.add(broker)

    def returned(self, out: list[Effect]) -> None:
        """The unsettled publications of lost links are back."""
        self._is_changed = True
        lost, self._lost = self._lost, {}
        for sequencer, cluster in lost.items():
            self._rounds += 1
            self._closed[sequencer] = _Closed(cluster, self._rounds)
            around = self._around(sequencer)
            self._awaited[cluster] = set(around)
            out += [Send(each, WayClosed(sequencer, self._rounds)) for each in around]
        for awaited in self._awaited.values():
            if awaited:
                awaited -= {each for each in awaited if not self._is_linked(each)}

    # --- messages, and carried publications ---------------------------------------------------

    def receive(self, source: BrokerId, message: WayClosed | WayOpened | WayCleared) -> None:
        """Another broker has closed the path to a sequencer, opened it again, or cleared it."""
        sequencer = message.sequencer
        if source not in self._near or sequencer not in self._near:
            return
        self._is_changed = True
        closed = self._closed.get(sequencer)
        awaited = None if closed is None else self._awaited.get(closed.cluster)
        if type(message) is WayClosed:
            self._others.setdefault(sequencer, set()).add(source)
            self._asked.setdefault(sequencer, {})[source] = message.round
        elif type(message) is WayCleared:
            if closed is not None and awaited and closed.round == message.round:
                awaited.discard(source)
        else:
            self._others.get(sequencer, set()).discard(source)
            self._asked.get(sequencer, {}).pop(source, None)
            if closed is not None and awaited and source in awaited:
                self._awaited[closed.cluster] = None

    def carried(self, copies: Mapping[BrokerId, int]) -> None:
        """A publisher's publications are carried to clusters anew, where copies owe any."""
        if self._awaited:
            for cluster in [each for bits in copies.values() for each in clusters_of(bits)]:
                if cluster in self._awaited:
                    self._is_changed = True
                    del self._awaited[cluster]

    # --- results ------------------------------------------------------------------------------

    def update(self, now_us: int, out: list[Effect]) -> None:
        """Answer others, and inform sequencers of what may come yet, behind publications sent
        there.
        """
        for sequencer, asked in self._asked.items():
            if asked:
                self._send_cleared(sequencer, asked, out)
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

    def _send_cleared(
        self, sequencer: BrokerId, asked: dict[BrokerId, int], out: list[Effect]
    ) -> None:
        """Answer brokers of which nothing more comes, nor is here to be returned."""
        closed = self._closed.get(sequencer)
        if closed is None or not self._others[sequencer].issuperset(self._around(sequencer)):
            return
        kept, giving_back = self._kept, self._giving_back
        answered = [
            each
            for each in asked
            if not kept.has_of(each, closed.cluster) and not giving_back.waits_for(each)
        ]
        out += [Send(each, WayCleared(sequencer, asked.pop(each))) for each in answered]

    def is_cleared(self, cluster: int) -> bool:
        """Whether all publications numbered for the cluster's lost sequencer are back."""
        awaited = self._awaited.get(cluster)
        return awaited is not None and not awaited

    def will_be_cleared(self, cluster: int) -> bool:
        """Whether all of the region have closed the path, so that the awaited ones will answer."""
        if not self._awaited.get(cluster):
            return False
        sequencers = [
            sequencer for sequencer, closed in self._closed.items() if closed.cluster == cluster
        ]
        return any(
            self._others.get(sequencer, set()) >= set(self._near) - {sequencer}
            for sequencer in sequencers
        )
