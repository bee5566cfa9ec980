"""How an exchange of links is carried out, as far as those who decide on it need to know.

Who decides hands over what shall be exchanged, and is told what became of it.  How the brokers of
the cycle do it without losing, doubling or reordering anything is the other side's affair.
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
    remove   the number of the link that goes: between `cycle[remove]` and `cycle[remove + 1]`
    saving   what the cycle is expected to cost less in an interval
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

    It tells a `Listener` of each that was begun at this broker, once: done or refused.
    """

    @property
    def busy(self) -> str:
        """Why this broker can take part in no exchange now; empty when it can.

        Decisions ask it of every broker of a cycle, as the request passes.
        """

    def begin(self, exchange: LinkExchange, now_us: int, out: list[Effect]) -> None:
        """Carry it out; this broker is the cycle's last.  It may be refused on the way."""


class Listener(Protocol):
    """Who wants to know what became of exchanges; told at each broker of the cycle that knows."""

    def done(self, exchange: LinkExchange, now_us: int, out: list[Effect]) -> None:
        """The links are exchanged, and this broker has done its part."""

    def refused(self, exchange: LinkExchange, reason: str, now_us: int, out: list[Effect]) -> None:
        """All is as it was, and will stay; the broker that began it is told, others may be."""
