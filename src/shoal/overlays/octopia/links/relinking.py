"""Relinking: a broker leaves its parent, which is still there, for a better one, in order.

A broker that linked up past a disconnected parent goes back to it when that one is there again.
Publications in transit over the link to the *former* parent, which may be slow, must not be
overtaken.

| the relinking broker | so that nothing is overtaken |
| --- | --- |
| sends the former a sweep, and nothing more; keeps publications up | |
| when the sweep is answered, announces its new parent to that one | |
| sends there the kept publications | on the way up |
| holds input from there until its announcement is back over the former link | on the way down |

The announcement takes the path of earlier publications to the relinking broker, from the new parent
to the former: each broker that gets it stops sending on the old path, and its earlier publications
precede the announcement. Other brokers need no further action, in any version.

The waits have no cycle: the announcement waits for nothing, and a sweep waits for another relinking
broker only if it comes from below that one, not for kept publications towards its own origin.

A broker that has lost its parent, and links up elsewhere, holds input from the new parent, too:
publications in transit over the lost link are returned to its other end as soon as that has lost
the link, and come behind later ones. A sweep flushes them (`sweeps.py`). Its answer releases the
held publications in the order of their publishers' counts. The sweep waits for no other holding
broker: all input of such a broker comes over its one link up, and is put in order there.

Alternative: each broker with a changed path keeps its publications, sweeps the old path, and then
forwards the announcement. Then sweeps run one after the other, and wait for each other if several
brokers relink at once.
"""

from __future__ import annotations

from shoal.broker.effects import Effect, Key, SetTimer, Settled, TimerKey, Unsettled
from shoal.model import BrokerId
from shoal.overlays.octopia.links.sweeps import Sweeps
from shoal.overlays.octopia.messages import HomeChange, HomeTable, Notification

TIMER: TimerKey = ("relinking",)
# Quarters of the longest hold of input from the new parent: a pause counts as one.
QUARTERS = 4

Held = tuple[Key, Notification]


class OctopiaRelinking:
    """At a broker of `cluster`; brokers in `still` are connected, and sent nothing for a while.

    Input is held for `order_us` at most.
    """

    def __init__(self, cluster: int, sweeps: Sweeps, still: set[BrokerId], order_us: int) -> None:
        self._cluster = cluster
        self._sweeps = sweeps
        self._still = still
        self._quarter_us = -(-order_us // QUARTERS)
        # The parent that it is about to leave.
        self.leaving: BrokerId | None = None
        self._is_asked = False
        self._has_way = False
        # The former parent, over whose link the own announcement, of this version, comes back
        # (None: its link is lost); and the new one.
        self.former: BrokerId | None = None
        self._new: BrokerId | None = None
        self._version = 0
        self._held: list[Held] = []
        self._number = 0
        self._quarters = 0
        self._is_timer_set = False

    def __len__(self) -> int:
        """Number of held messages."""
        return len(self._held)

    @property
    def is_active(self) -> bool:
        """Whether this broker relinks now."""
        return self.leaving is not None or self._new is not None

    # --- up -----------------------------------------------------------------------------------

    def begin_round(self) -> None:
        """Begin a round of `Attachments.settle`, which may find a better parent."""
        self._is_asked = self._has_way = False

    def may_relink(self, current: BrokerId, out: list[Effect]) -> bool:
        """A better parent than the current one is ready: whether it may be used now."""
        self._is_asked = True
        if self._new is not None:
            return False
        if self.leaving != current:
            self._stop_leaving()
            self.leaving = current
            self._still.add(current)
            self._sweeps.begin(self._cluster, current, out)
        return self._cluster not in self._sweeps

    def end_round(self, now_us: int, out: list[Effect]) -> bool:
        """End the round; returns whether kept publications have a path now."""
        if self._new is not None:
            self._set_relinking_timer(now_us, out)
        if self.leaving is not None and not self._is_asked:
            self._stop_leaving()
        return self._has_way

    def _stop_leaving(self) -> None:
        if self.leaving is not None:
            self._has_way = True
            self._still.discard(self.leaving)
            self.leaving = None

    # --- down ---------------------------------------------------------------------------------

    def relinked(self, former: BrokerId, new: BrokerId, version: int) -> None:
        """The own table, in this version, has another parent."""
        self._stop_leaving()
        self.former, self._new, self._version = former, new, version
        self._quarters = 0

    def linked_up(self, new: BrokerId, out: list[Effect]) -> None:
        """The own table has this parent, and the link to the former one is lost."""
        self._stop_leaving()
        self.former, self._new = None, new
        self._quarters = 0
        self._sweeps.ask_for_lost(new, out)

    def holds(self, neighbour: BrokerId) -> bool:
        """Whether input from a neighbour is held."""
        return neighbour == self._new

    def holds_up(self, neighbour: BrokerId) -> bool:
        """Whether a sweep from a neighbour has to wait for held input."""
        return self.former is not None and neighbour == self._new

    @property
    def has_all(self) -> bool:
        """Whether all publications of a lost link have come."""
        return self._new is not None and self.former is None and not self._sweeps.asks_for_lost

    def hold(self, message: Notification, out: list[Effect]) -> None:
        """Let it wait, unsettled."""
        self._number += 1
        key = ("relinking", str(self._number))
        out.append(Unsettled(key))
        self._held.append((key, message))

    def is_back(self, neighbour: BrokerId, message: HomeChange | HomeTable) -> bool:
        """Whether this copy of the own table proves that all earlier publications have come."""
        return neighbour == self.former and message.version >= self._version

    def end(self) -> tuple[BrokerId, list[Held]]:
        """End the hold; returns the parent, and the held messages in their order."""
        assert self._new is not None
        new, held = self._new, self._held
        if self.former is None:
            held = _in_order(held)
        self.former, self._new, self._held = None, None, []
        return new, held

    def lost(self, neighbour: BrokerId, out: list[Effect]) -> None:
        """A link is lost, or up again and empty.

        Messages from the new parent are returned to it, and it sends them another way; those in
        transit on the former link are flushed by a sweep.
        """
        if neighbour == self._new:
            out += [Settled(key) for key, _ in self.end()[1]]
        elif self._new is not None and neighbour == self.former:
            self.former = None
            self._sweeps.ask_for_lost(self._new, out)

    def waited(self, now_us: int, out: list[Effect]) -> bool:
        """The timer fired: whether the longest hold is over."""
        self._is_timer_set = False
        if self._new is None:
            return False
        self._quarters += 1
        if self._quarters > QUARTERS:
            return True
        self._set_relinking_timer(now_us, out)
        return False

    def _set_relinking_timer(self, now_us: int, out: list[Effect]) -> None:
        if not self._is_timer_set:
            self._is_timer_set = True
            out.append(SetTimer(TIMER, now_us + self._quarter_us))


def _in_order(held: list[Held]) -> list[Held]:
    """Held publications, one at a time, in their publishers' order."""
    found = [
        (key, message.with_publications((each,)))
        for key, message in held
        for each in message.publications
    ]
    return sorted(found, key=lambda entry: entry[1].publications[0].publication.sequence)
