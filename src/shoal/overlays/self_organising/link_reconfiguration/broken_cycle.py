"""Breaks of the cycle during a link reconfiguration, as one broker knows them.

A broker that has not agreed aborts by itself, and informs the others: the first broker cannot have
decided. A broker that has agreed needs the decision. When a link of the cycle is lost, the brokers
at its ends send `Doubt` the other way round, to brokers that may know, up to the first: the first
aborts if it has not decided. A reconnected neighbour is asked, too. If that
neighbour has restarted and knows nothing, the others are asked the other way round, even if the
neighbour is the first: it may have decided, informed one broker, and forgotten the decision. If no
reachable broker knows, the exchange counts as not done.

A part that is cut off at both ends waits for a lost neighbour, unless it sees that the removed link
has ended: the first may have written its decision to disk as it died, and its neighbours must end
alike when it is back. After `DOUBT_US` the exchange counts as not done there. If the first has
decided otherwise, its decision overrides when they meet: links then come and go like any others,
and tables are synchronised.
"""

from __future__ import annotations

from collections.abc import Iterable

from shoal.model import BrokerId
from shoal.overlays.self_organising.link_reconfiguration.ring import ExchangeRing


class BrokenCycle:
    """Breaks of one cycle, as one of its brokers has seen or received them.

    gone       neighbours on the cycle to which the link is lost, or has come up anew
    askers     neighbours that have asked for the decision
    ignorant   neighbours that know nothing of the exchange, as they have restarted
    has_ended  whether the link to remove has ended on purpose
    waits      whether it waits for a lost neighbour
    """

    def __init__(self) -> None:
        self.gone: set[BrokerId] = set()
        self.askers: set[BrokerId] = set()
        self.ignorant: set[BrokerId] = set()
        self.has_ended = False
        self.waits = False

    def without(self, neighbours: Iterable[BrokerId]) -> list[BrokerId]:
        """The neighbours without a lost link."""
        return [each for each in neighbours if each not in self.gone]

    def outcome(self, ring: ExchangeRing, whom: BrokerId) -> bool | None:
        """Whether the links are exchanged; None if the neighbour may know."""
        if ring.ends_link and whom == ring.before and self.has_ended:
            return True
        return False if whom in self.ignorant else None

    def is_away(self, ring: ExchangeRing, whom: BrokerId) -> bool:
        """Whether the link to the neighbour is lost."""
        return whom in self.gone and whom not in ring.renewed

    def is_asked(self, ring: ExchangeRing, whom: BrokerId) -> bool:
        """Whether the link to the neighbour has come up anew, so that it will answer."""
        return whom in ring.renewed and whom not in self.ignorant
