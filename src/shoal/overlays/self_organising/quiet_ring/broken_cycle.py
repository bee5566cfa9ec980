"""What a broker knows of breaks of the cycle whose links are exchanged, and what follows.

Who has not agreed gives up by itself, and tells all: the first cannot have decided.  Who has agreed
must be told.  When a link of the cycle is gone, those at its ends ask the other way round (`Doubt`)
whoever knows, up to the first: if it has not decided it gives up.  Who is linked anew is asked,
too.  If that knows nothing, as it has started anew, the others are asked the other way round, even
if it is the first: it may have decided, told one, and forgotten.  If nobody knows, nothing was
exchanged; no more did a part that is cut off at both ends, unless it sees that the link that goes
has ended.  Should the first have decided otherwise, that holds when they meet: links then come and
go like any others, and tables are said again.
"""

from __future__ import annotations

from collections.abc import Iterable

from shoal.model import BrokerId
from shoal.overlays.self_organising.quiet_ring.ring import Ring


class BrokenCycle:
    """Breaks of one cycle, as one of its brokers has seen them or heard of them.

    gone       neighbours on the cycle to which the link is gone, or has come up anew
    askers     neighbours that have asked what became of the exchange
    ignorant   neighbours that know nothing of it, as they have started anew
    has_ended  whether the link that goes was ended on purpose
    """

    def __init__(self) -> None:
        self.gone: set[BrokerId] = set()
        self.askers: set[BrokerId] = set()
        self.ignorant: set[BrokerId] = set()
        self.has_ended = False

    def without(self, neighbours: Iterable[BrokerId]) -> list[BrokerId]:
        """Of these neighbours those to which the link is not gone."""
        return [each for each in neighbours if each not in self.gone]

    def outcome(self, ring: Ring, whom: BrokerId) -> bool | None:
        """Whether the links are exchanged; None where this neighbour is asked."""
        if ring.ends_link and whom == ring.before and self.has_ended:
            return True
        return False if whom in self.gone and not self.is_asked(ring, whom) else None

    def is_asked(self, ring: Ring, whom: BrokerId) -> bool:
        """Whether the link to it has come up anew, so that it will answer."""
        return whom in ring.renewed and whom not in self.ignorant
