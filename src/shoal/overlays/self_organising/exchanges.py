"""Interface between the decision on a link exchange and its execution.

The decision hands over a `LinkExchange`, and a listener gets the outcome. The execution
(`link_reconfiguration`) loses, duplicates and reorders nothing.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Protocol

import msgspec

from shoal.broker.effects import Effect
from shoal.model import BrokerId


class LinkExchange(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """One link for another.

    cycle    brokers in their order, each linked to the next; the last, which decided, and the
             first, which proposed, are to be linked
    remove   the number of the link to remove: between `cycle[remove]` and `cycle[remove + 1]`
    saving   the expected saving of the cycle in an interval
    """

    cycle: tuple[BrokerId, ...]
    remove: int
    saving: float

    @property
    def links(self) -> list[tuple[BrokerId, BrokerId]]:
        """Those of the whole cycle, the new one last."""
        return [*pairwise(self.cycle), self.new_link]

    @property
    def new_link(self) -> tuple[BrokerId, BrokerId]:
        return self.cycle[0], self.cycle[-1]

    @property
    def old_link(self) -> tuple[BrokerId, BrokerId]:
        return self.cycle[self.remove], self.cycle[self.remove + 1]


class Exchanges(Protocol):
    """The part of a broker that carries exchanges out.

    It informs an `ExchangeListener` once of the outcome of each exchange that this broker began.
    """

    @property
    def busy(self) -> str:
        """Why this broker can take part in no exchange now; empty when it can.

        Decisions check it at every broker of a cycle, as the request passes.
        """

    def begin(self, exchange: LinkExchange, now_us: int, out: list[Effect]) -> None:
        """Carry it out; this broker is the cycle's last.  It may be refused on the way."""


class ExchangeListener(Protocol):
    """Gets the outcome of exchanges, at each broker of the cycle that knows it."""

    def done(self, exchange: LinkExchange, now_us: int, out: list[Effect]) -> None:
        """The links are exchanged, and this broker has done its part."""

    def refused(self, exchange: LinkExchange, reason: str, now_us: int, out: list[Effect]) -> None:
        """Nothing was changed; the broker that began the exchange is informed, others may be."""
