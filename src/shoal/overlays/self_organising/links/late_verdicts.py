"""What a broker does about its links when it hears late what became of an exchange.

Whoever decided may have been cut off with what it knows, and the others have taken the exchange for
given up and changed links since.  Then it cannot be done any more: its old link may have gone for
another, or lie elsewhere than between the ends of the new one, and there would be a cycle, or two
trees.  Who notices that says that the exchange is void, both ways round the cycle, and those who
have done their part undo it.

Nothing here asks which of two clocks is right: a verdict says until when its links had changed
before, by whichever clocks that was; what is later has changed since.
"""

from __future__ import annotations

from collections.abc import Callable

from shoal.broker.effects import Effect
from shoal.model import BrokerId
from shoal.overlays.self_organising.links.memory import Memory
from shoal.overlays.self_organising.quiet_ring.ring import Ring
from shoal.overlays.self_organising.quiet_ring.ring_messages import Standing, Verdict

Put = Callable[[BrokerId, Standing, int, list[Effect]], None]


class LateVerdicts:
    """One broker's part; `put` settles whether a link belongs to the tree, at once or soon."""

    def __init__(self, memory: Memory, put: Put) -> None:
        self._memory = memory
        self._put = put

    def is_overtaken(self, ring: Ring, verdict: Verdict, *, was_kept: bool) -> bool:
        """Whether it was done, and others have changed links of the cycle since as if it was not.

        `was_kept`: that is what this broker knows.  Else it may have done its part, and forgotten
        that; unless it is an end of the new link, which it has done nothing about since.
        """
        standing, latest_us = self._memory.standing, verdict.latest_us + 1  # as it was kept
        if ring.opens_link:
            new = standing(ring.opposite)
            if new.is_in or new.since_us > latest_us:
                return False
        elif not was_kept:
            return False
        if ring.ends_link:
            old = standing(ring.before)
            if _has_gone(old) or old.since_us > latest_us:
                return True
        return was_kept and any(_has_gone(standing(each)) for each in ring.path)

    def revised(self, ring: Ring, verdict: Verdict, now_us: int, out: list[Effect]) -> None:
        """The links were exchanged, which is news."""
        self._memory.became(verdict)
        # First the new one: who has just started waits for its tables in place of the others.
        if ring.opens_link:
            self._settle(ring.opposite, Standing(True, verdict.at_us), now_us, out)
        if ring.ends_link:
            self._settle(ring.before, Standing(False, verdict.at_us), now_us, out)

    def _settle(
        self, neighbour: BrokerId, standing: Standing, now_us: int, out: list[Effect]
    ) -> None:
        if self._memory.standing(neighbour).since_us < standing.since_us:
            self._put(neighbour, standing, now_us, out)

    def undone(
        self, ring: Ring, done: Verdict | None, void: Verdict, now_us: int, out: list[Effect]
    ) -> None:
        """The exchange is void: put right what was done for it, if that is known here."""
        self._memory.became(void)
        if ring.ends_link and self._is_of(ring.before, False, done, void):
            since_us = self._memory.standing(ring.before).since_us
            standing = Standing(True, max(void.at_us, since_us + 1))
            self._put(ring.before, standing, now_us, out)
        if ring.opens_link:
            new = self._memory.standing(ring.opposite)
            if not new.is_in or self._is_of(ring.opposite, True, done, void):
                standing = Standing(False, max(void.at_us, new.since_us + 1))
                self._put(ring.opposite, standing, now_us, out)

    def _is_of(self, neighbour: BrokerId, is_in: bool, done: Verdict | None, void: Verdict) -> bool:
        """Whether a link is as the exchange has left it."""
        standing = self._memory.standing(neighbour)
        if done is None or standing.is_in != is_in:
            return False
        return done.latest_us < standing.since_us <= max(done.at_us, void.at_us - 1)


def _has_gone(standing: Standing) -> bool:
    return not standing.is_in and standing.since_us > 0
