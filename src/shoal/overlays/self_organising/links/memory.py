"""What one broker must not forget: its links, and what became of exchanges.

Both ends of a link remember whether it belongs to the tree, and since when; of two words the later
holds.  A broker that starts anew has it from what it asked its driver to remember, and of links of
which it said nothing what its driver knows by itself: at a founder these are of before all time, at
a broker that joins of its first start, later than anything agreed with an earlier one of its name.

What became of the last exchanges with its part it can tell those who were away then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from shoal.broker.effects import Effect, Remember
from shoal.model import BrokerId
from shoal.overlays.self_organising.quiet_ring.ring_messages import (
    Standing,
    Verdict,
)

# Of a link that a broker does not remember, and of one of which it cannot know, as it has started
# anew, has been told of no links and remembers none.
UNHEARD, UNKNOWN = Standing(False, -1), Standing(False, -2)
# What is remembered goes by these names.
STANDINGS, DONE = "standings", "done"
MOST_VERDICTS = 16


class Memory:
    """One broker's; `given` are the neighbours that its driver knows.

    `also` has what else of the broker's must outlast its process.
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
        self._rows = dict.fromkeys(self._given, Standing(True, 0))
        self._unknown = UNHEARD if self._rows else UNKNOWN
        # What became of the last exchanges with a part of this broker's, oldest first.
        self.verdicts: list[Verdict] = []
        self._is_said = True

    def start(self, facts: Mapping[str, Any], now_us: int) -> list[BrokerId]:
        """What was to be remembered, if anything was; the neighbours that nobody else knows."""
        if not self._is_founder:
            self._rows = dict.fromkeys(self._given, Standing(True, now_us))
        for neighbour, row in facts.get(STANDINGS, {}).items():
            self._rows[neighbour] = msgspec.convert(row, Standing)
        # The first that is to be remembered are all that are given; so any other is none.
        self._is_said = STANDINGS in facts or not self._rows
        if self._rows:
            self._unknown = UNHEARD
        self.verdicts = msgspec.convert(facts.get(DONE, []), list[Verdict])
        return [each for each in self.neighbours if each not in self._given]

    def standing(self, neighbour: BrokerId) -> Standing:
        """Whether the link belongs to the tree."""
        return self._rows.get(neighbour, self._unknown)

    def put(self, neighbour: BrokerId, standing: Standing) -> None:
        """That is so from now on, and no earlier than anything else was, whatever clocks say."""
        known = self.standing(neighbour)
        if standing.since_us < known.since_us:
            since_us = known.since_us + (standing.is_in != known.is_in)
            standing = Standing(standing.is_in, since_us)
        self._is_said &= self._rows.get(neighbour) == standing
        self._rows[neighbour] = standing

    def settle(self, neighbour: BrokerId, at_us: int, *, is_in: bool) -> int:
        """That is so since then, or since later than before where clocks are ahead; since when."""
        since_us = self._from(neighbour, at_us)
        self.put(neighbour, Standing(is_in, since_us))
        return since_us

    def _from(self, neighbour: BrokerId, at_us: int) -> int:
        """Then, or later than all that is known of that link."""
        return max(at_us, self.standing(neighbour).since_us + 1)

    def forget(self, neighbour: BrokerId) -> None:
        """That broker is gone, and with it all that was agreed with it."""
        self._is_said &= self._rows.pop(neighbour, None) is None

    def agree(self, neighbour: BrokerId, other: Standing) -> Standing:
        """The other end says this: what both remember from now on."""
        mine = self.standing(neighbour)
        standing = max(mine, other, key=lambda each: (each.since_us, not each.is_in))
        if standing == UNKNOWN:
            standing = Standing(True, 0)
        self.put(neighbour, standing)
        return standing

    def became(self, verdict: Verdict) -> None:
        """That became of an exchange with a part of this broker's."""
        if verdict not in self.verdicts:
            others = [each for each in self.verdicts if each.key != verdict.key]
            self.verdicts = [*others, verdict][-MOST_VERDICTS:]
            self._is_said = False

    def say(self, out: list[Effect]) -> None:
        """Ask the driver to remember what is new."""
        if self._is_said:
            return
        self._is_said = True
        facts = {STANDINGS: self._rows, DONE: self.verdicts}
        own = {name: msgspec.to_builtins(each) for name, each in facts.items()}
        out.append(Remember({**own, **self._also()}))

    def say_anew(self, out: list[Effect]) -> None:
        """Something else of the broker's is new."""
        self._is_said = False
        self.say(out)

    @property
    def neighbours(self) -> Iterator[BrokerId]:
        """The brokers to which there are links of the tree's."""
        return (name for name, row in self._rows.items() if row.is_in)
