"""How a broker leaves the one that it links up to, which is still there, for a better one.

Who links up past a parent that was away goes back to it when that is there again.  What is still on
its way over the *former* link, maybe a slow one, must not be overtaken.

| who relinks | so that nothing is overtaken |
| --- | --- |
| sends the former a sweep, and nothing more; keeps what is for there | |
| when that has been everywhere, says to the new one that it links up there | |
| sends there what it kept | that goes up |
| holds what comes from there until its own word is back over the former link | that comes down |

For that word goes from broker to broker the way that publications for who relinks went before, from
the new parent to the former: each that hears it sends nothing more the old way, and what it had
sent is in front of the word.  Nobody else does anything for that, of whatever version.

Nobody waits in a circle: the word waits for nothing, and a sweep waits for another who relinks only
where it comes from below that one, not where what is kept there is for whom it comes from.

Who has lost the link up, and links up elsewhere, holds what comes from there, too: what was under
way over the lost link goes back to its other end, as soon as that has lost it, and comes behind
what was published later.  A sweep asks for it (`sweeps.py`), and when that is answered what is held
goes on in the order in which its publishers counted it.  It waits for no other broker that holds
anything: whatever comes to one that does comes over its one link up, and is put in order there.

The other design was that everybody whose way changes keeps what is for there, sweeps the old way,
and then passes the word on: the sweeps come one after the other, and wait for each other where
several relink at once.
"""

from __future__ import annotations

from shoal.broker.effects import Effect, Key, SetTimer, Settled, TimerKey, Unsettled
from shoal.model import BrokerId
from shoal.overlays.octopia.links.sweeps import Sweeps
from shoal.overlays.octopia.messages import HomeChange, HomeTable, Notification

TIMER: TimerKey = ("relinking",)
# Of the time for which what comes from the new one is held at most: a pause counts for one.
QUARTERS = 4

Held = tuple[Key, Notification]


class Relinking:
    """At a broker of `cluster`; those that are `still` are there, and sent nothing for a while.

    What has not come back within `order_us` is waited for no longer.
    """

    def __init__(self, cluster: int, sweeps: Sweeps, still: set[BrokerId], order_us: int) -> None:
        self._cluster = cluster
        self._sweeps = sweeps
        self._still = still
        self._quarter_us = -(-order_us // QUARTERS)
        # Whom it is about to leave.
        self.leaving: BrokerId | None = None
        self._is_asked = False
        self._has_way = False
        # The former, over whose link the own word comes back, of this version, None: its link is
        # lost; and the new one.
        self.former: BrokerId | None = None
        self._new: BrokerId | None = None
        self._version = 0
        self._held: list[Held] = []
        self._number = 0
        self._quarters = 0
        self._is_timer_set = False

    def __len__(self) -> int:
        """How much waits for its turn."""
        return len(self._held)

    @property
    def is_active(self) -> bool:
        """Whether this broker relinks now."""
        return self.leaving is not None or self._new is not None

    # --- up -----------------------------------------------------------------------------------

    def begin_round(self) -> None:
        """Somebody better may be found now, or not."""
        self._is_asked = self._has_way = False

    def may_relink(self, current: BrokerId, out: list[Effect]) -> bool:
        """Somebody better than who is used is there: whether it may be used now."""
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
        """Nobody asks any more: whether what is kept has a way now, a new one or again."""
        if self._new is not None:
            self._set_timer(now_us, out)
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
        """The own table says in this version that another one is linked up to now."""
        self._stop_leaving()
        self.former, self._new, self._version = former, new, version
        self._quarters = 0

    def linked_up(self, new: BrokerId, out: list[Effect]) -> None:
        """The own table says that this one is linked up to now, and the former's link is lost."""
        self._stop_leaving()
        self.former, self._new = None, new
        self._quarters = 0
        self._sweeps.ask_for_lost(new, out)

    def holds(self, neighbour: BrokerId) -> bool:
        """Whether what comes from a neighbour has to wait."""
        return neighbour == self._new

    def holds_up(self, neighbour: BrokerId) -> bool:
        """Whether a sweep from a neighbour has to wait for that."""
        return self.former is not None and neighbour == self._new

    @property
    def has_all(self) -> bool:
        """Whether all that was under way over a lost link has come."""
        return self._new is not None and self.former is None and not self._sweeps.asks_for_lost

    def hold(self, message: Notification, out: list[Effect]) -> None:
        """Let it wait, unsettled."""
        self._number += 1
        key = ("relinking", str(self._number))
        out.append(Unsettled(key))
        self._held.append((key, message))

    def is_back(self, neighbour: BrokerId, message: HomeChange | HomeTable) -> bool:
        """Whether this table of the own region says that all of before has come."""
        return neighbour == self.former and message.version >= self._version

    def end(self) -> tuple[BrokerId, list[Held]]:
        """Nothing more has to wait; what did, in its order, and from whom it came."""
        assert self._new is not None
        new, held = self._new, self._held
        if self.former is None:
            held = _in_order(held)
        self.former, self._new, self._held = None, None, []
        return new, held

    def lost(self, neighbour: BrokerId, out: list[Effect]) -> None:
        """A link is gone, or nothing of before is on it.

        What came over the new link goes back to its other end, which sends it another way; what
        was on the former one is asked for.
        """
        if neighbour == self._new:
            out += [Settled(key) for key, _ in self.end()[1]]
        elif self._new is not None and neighbour == self.former:
            self.former = None
            self._sweeps.ask_for_lost(self._new, out)

    def waited(self, now_us: int, out: list[Effect]) -> bool:
        """The timer fired: whether it has been waited for long enough."""
        self._is_timer_set = False
        if self._new is None:
            return False
        self._quarters += 1
        if self._quarters > QUARTERS:
            return True
        self._set_timer(now_us, out)
        return False

    def _set_timer(self, now_us: int, out: list[Effect]) -> None:
        if not self._is_timer_set:
            self._is_timer_set = True
            out.append(SetTimer(TIMER, now_us + self._quarter_us))


def _in_order(held: list[Held]) -> list[Held]:
    """What is held, one publication at a time, in its publishers' order."""
    found = [
        (key, message.with_publications((each,)))
        for key, message in held
        for each in message.publications
    ]
    return sorted(found, key=lambda entry: entry[1].publications[0].publication.sequence)
