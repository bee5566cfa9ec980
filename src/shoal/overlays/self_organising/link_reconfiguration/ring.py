"""The cycle of a link reconfiguration, from one broker's place on it.

>>> ring = ExchangeRing("B2", LinkExchange(cycle=("B1", "B2", "B3", "B4"), remove=1, saving=0))
>>> ring.down, ring.up, ring.before, ring.behind
('B1', 'B3', 'B3', 'B1')
>>> ring.ends_link, ring.opens_link, ring.across("B1")
(True, False, 'B3')
"""

from __future__ import annotations

from shoal.broker.strategy import ProtocolError
from shoal.model import BrokerId
from shoal.overlays.self_organising.exchanges import LinkExchange


class ExchangeRing:
    """A broker's place on the cycle.

    down, up        its neighbours towards the first broker and towards the last; None at the ends
    before, behind  its neighbours towards the removed link and towards the new one, or over it
    """

    def __init__(self, broker: BrokerId, exchange: LinkExchange) -> None:
        """ProtocolError when it is no cycle, or one without this broker."""
        cycle, remove = exchange.cycle, exchange.remove
        if len(cycle) < 3 or len({*cycle}) < len(cycle) or broker not in cycle:
            raise ProtocolError(f"{cycle} is no cycle with {broker}")
        if not 0 <= remove < len(cycle) - 1:
            raise ProtocolError(f"link {remove} of {cycle} cannot go")
        self.exchange = exchange
        self.first, self.last = cycle[0], cycle[-1]
        self.place = place = cycle.index(broker)
        self.down = cycle[place - 1] if place else None
        self.up = cycle[place + 1] if broker != self.last else None
        # Beyond the link that goes: nearer to the last broker than to the first, without it.
        self.is_beyond = place > remove
        if self.is_beyond:
            self.before, self.behind = cycle[place - 1], self.up or self.first
        else:
            self.before, self.behind = cycle[place + 1], self.down or self.last
        self.is_first, self.is_last = broker == self.first, broker == self.last
        self.opens_link = self.is_first or self.is_last
        # The other end of the new link.
        self.opposite = self.last if self.is_first else self.first
        self.ends_link = place in (remove, remove + 1)
        # Whether this broker holds input from outside the cycle.
        self.is_held = False
        # Neighbours to which the link has come up anew meanwhile.
        self.renewed: set[BrokerId] = set()
        # Whether the new link belongs to the tree already, by the other end's greeting.
        self.is_old_link = False

    @property
    def neighbours(self) -> tuple[BrokerId, BrokerId]:
        return self.before, self.behind

    @property
    def path(self) -> list[BrokerId]:
        """Its neighbours over links that are there already."""
        return [each for each in (self.down, self.up) if each is not None]

    def across(self, neighbour: BrokerId) -> BrokerId:
        """Its other neighbour on the cycle."""
        return self.behind if neighbour == self.before else self.before
