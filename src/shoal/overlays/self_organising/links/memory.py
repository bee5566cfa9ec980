"""Durable memory of one broker: its links, and the last exchanges.

Both ends of a link keep whether it belongs to the tree, and since when; of two entries the later is
valid. A restarted broker has the entries that it wrote to disk by its driver. For other links it
uses the neighbours that its driver knows: at a founder these count as older than any entry, at a
joined broker as made at its first start, later than any agreement with an earlier broker of its
name. At that start it had no other link, so that late decisions on that one's exchanges have no
effect.

It can also send the last decisions in which it had a part to brokers that missed them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from shoal.broker.effects import Effect, Remember
from shoal.model import BrokerId
from shoal.overlays.self_organising.link_reconfiguration.ring_messages import (
    ExchangeDecision,
    LinkStanding,
)

# Standings of a link without an entry, and of one that a restarted broker without any links cannot
# know.
UNHEARD, UNKNOWN = LinkStanding(False, -1), LinkStanding(False, -2)
# Keys of the facts on disk.
STANDINGS, DONE, JOINED = "standings", "done", "joined_us"
MOST_VERDICTS = 16


class LinkMemory:
    """One broker's memory; `given` are the neighbours that its driver knows.

    `also` has the other facts of the broker that must survive a crash.
    """

    def __init__(
        self,
        given: Iterable[BrokerId],
        also: Callable[[], Mapping[str, Any]],
        *,
        is_founder: bool = True,
    ) -> None:
        self._also = also
        self._is_founder = is_founder
        self._given = tuple(given)
        self._rows = dict.fromkeys(self._given, LinkStanding(True, 0))
        self._unknown = UNHEARD if self._rows else UNKNOWN
        # Its first start; None at a founder.
        self._joined_us: int | None = None
        # Decisions on the last exchanges with this broker, oldest first.
        self.decisions: list[ExchangeDecision] = []
        self._is_said = True

    def start(self, facts: Mapping[str, Any], now_us: int) -> list[BrokerId]:
        """Restore the facts from disk, if any.

        Returns the neighbours that only the driver knows.
        """
        if not self._is_founder:
            self._rows = dict.fromkeys(self._given, LinkStanding(True, now_us))
            self._joined_us = facts.get(JOINED, None if STANDINGS in facts else now_us)
        for neighbour, row in facts.get(STANDINGS, {}).items():
            self._rows[neighbour] = msgspec.convert(row, LinkStanding)
        # The first that is to be remembered are all that are given; so any other is none.
        self._is_said = STANDINGS in facts or not self._rows
        if self._rows:
            self._unknown = UNHEARD
        self.decisions = msgspec.convert(facts.get(DONE, []), list[ExchangeDecision])
        return [each for each in self.neighbours if each not in self._given]

    def standing(self, neighbour: BrokerId) -> LinkStanding:
        """Whether the link belongs to the tree; at a joined broker's first start none did."""
        if neighbour in self._rows or self._joined_us is None:
            return self.entry(neighbour)
        return LinkStanding(False, self._joined_us)

    def entry(self, neighbour: BrokerId) -> LinkStanding:
        """Return the entry for the other end of the link, which compares it with its own.

        Without one it is older than any that the other end has: clocks of the two may differ.
        """
        return self._rows.get(neighbour, self._unknown)

    def put(self, neighbour: BrokerId, standing: LinkStanding) -> None:
        """Set the entry, with a time no earlier than that of any other, whatever clocks say."""
        known = self.standing(neighbour)
        if standing.since_us < known.since_us:
            since_us = known.since_us + (standing.is_in != known.is_in)
            standing = LinkStanding(standing.is_in, since_us)
        self._is_said &= self._rows.get(neighbour) == standing
        self._rows[neighbour] = standing

    def settle(self, neighbour: BrokerId, at_us: int, *, is_in: bool) -> int:
        """That is so since then, or since later than before where clocks are ahead; since when."""
        since_us = self._from(neighbour, at_us)
        self.put(neighbour, LinkStanding(is_in, since_us))
        return since_us

    def _from(self, neighbour: BrokerId, at_us: int) -> int:
        """Then, or later than all that is known of that link."""
        return max(at_us, self.standing(neighbour).since_us + 1)

    def unhear(self, neighbour: BrokerId) -> None:
        """The other end alone knows why the link has ended: any decision on it is news here."""
        self._is_said &= self._rows.get(neighbour) == UNHEARD
        self._rows[neighbour] = UNHEARD

    def forget(self, neighbour: BrokerId) -> None:
        """That broker is dead, and all agreements with it are void."""
        self._is_said &= self._rows.pop(neighbour, None) is None

    def agree(self, neighbour: BrokerId, other: LinkStanding) -> LinkStanding:
        """Merge the other end's entry: returns the one that both keep."""
        mine = self.entry(neighbour)
        standing = max(mine, other, key=lambda each: (each.since_us, not each.is_in))
        if standing == UNKNOWN:
            standing = LinkStanding(True, 0)
        self.put(neighbour, standing)
        return self._rows[neighbour]

    def became(self, decision: ExchangeDecision) -> None:
        """Store the decision on an exchange in which this broker had a part."""
        if decision not in self.decisions:
            others = [each for each in self.decisions if each.key != decision.key]
            self.decisions = [*others, decision][-MOST_VERDICTS:]
            self._is_said = False

    def record(self, out: list[Effect]) -> None:
        """Have the driver write new facts to disk."""
        if self._is_said:
            return
        self._is_said = True
        facts = {STANDINGS: self._rows, DONE: self.decisions}
        own = {name: msgspec.to_builtins(each) for name, each in facts.items()}
        if self._joined_us is not None:
            own[JOINED] = self._joined_us
        out.append(Remember({**own, **self._also()}))

    def record_all(self, out: list[Effect]) -> None:
        """Something else of the broker's is new."""
        self._is_said = False
        self.record(out)

    @property
    def neighbours(self) -> Iterator[BrokerId]:
        """The brokers to which there are links of the tree's."""
        return (name for name, row in self._rows.items() if row.is_in)
