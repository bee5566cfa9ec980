"""Late decisions: correction of a broker's links when it learns late of an exchange's outcome.

The deciding broker may have been cut off with its decision, and the others have presumed an abort
and changed links since. Then the exchange cannot be installed: its old link may have been exchanged
for another, or may not lie between the ends of the new one, and there would be a cycle, or two
trees. A broker that notices this declares the exchange void, both ways round the cycle, and brokers
that have done their part undo it.

No two clocks are compared: a decision carries the latest change of its links before it, by the
clocks of their ends; anything later has changed since.
"""

from __future__ import annotations

from collections.abc import Callable

from shoal.broker.effects import Effect
from shoal.model import BrokerId
from shoal.overlays.self_organising.link_reconfiguration.ring import ExchangeRing
from shoal.overlays.self_organising.link_reconfiguration.ring_messages import (
    ExchangeDecision,
    LinkStanding,
)
from shoal.overlays.self_organising.links.memory import LinkMemory

Put = Callable[[BrokerId, LinkStanding, int, list[Effect]], None]


class LateDecisions:
    """One broker's part; `put` sets whether a link belongs to the tree, at once or soon."""

    def __init__(self, memory: LinkMemory, put: Put) -> None:
        self._memory = memory
        self._put = put

    def is_overtaken(
        self, ring: ExchangeRing, decision: ExchangeDecision, *, was_kept: bool
    ) -> bool:
        """Whether it was done, but others have changed links of the cycle since as if it was not.

        `was_kept`: this broker has the exchange as not done. Otherwise it may have done its part,
        and forgotten that; unless it is an end of the new link, for which it has done nothing.
        """
        standing, latest_us = self._memory.standing, decision.latest_us + 1  # as it was kept
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

    def revised(
        self, ring: ExchangeRing, decision: ExchangeDecision, now_us: int, out: list[Effect]
    ) -> None:
        """The links were exchanged, which is news."""
        self._memory.became(decision)
        # First the new one: a broker that has just started waits for its tables instead of the
        # others.
        if ring.opens_link:
            self._settle(ring.opposite, LinkStanding(True, decision.at_us), now_us, out)
        if ring.ends_link:
            self._settle(ring.before, LinkStanding(False, decision.at_us), now_us, out)

    def _settle(
        self, neighbour: BrokerId, standing: LinkStanding, now_us: int, out: list[Effect]
    ) -> None:
        if self._memory.standing(neighbour).since_us < standing.since_us:
            self._put(neighbour, standing, now_us, out)

    def undone(
        self,
        ring: ExchangeRing,
        done: ExchangeDecision | None,
        void: ExchangeDecision,
        now_us: int,
        out: list[Effect],
    ) -> None:
        """The exchange is void: undo this broker's part, if it is known here."""
        self._memory.became(void)
        if ring.ends_link and self._is_of(ring.before, False, done, void):
            since_us = self._memory.standing(ring.before).since_us
            standing = LinkStanding(True, max(void.at_us, since_us + 1))
            self._put(ring.before, standing, now_us, out)
        if ring.opens_link:
            new = self._memory.standing(ring.opposite)
            if not new.is_in or self._is_of(ring.opposite, True, done, void):
                standing = LinkStanding(False, max(void.at_us, new.since_us + 1))
                self._put(ring.opposite, standing, now_us, out)

    def _is_of(
        self,
        neighbour: BrokerId,
        is_in: bool,
        done: ExchangeDecision | None,
        void: ExchangeDecision,
    ) -> bool:
        """Whether a link is as the exchange has left it."""
        standing = self._memory.standing(neighbour)
        if done is None or standing.is_in != is_in:
            return False
        return done.latest_us < standing.since_us <= max(done.at_us, void.at_us - 1)


def _has_gone(standing: LinkStanding) -> bool:
    return not standing.is_in and standing.since_us > 0
