"""Which links belong to the tree, as far as one broker knows, and since when.

Both ends of a link remember that; of two words the later holds.  A broker that starts anew has it
from what it asked its driver to remember, and of links of which it said nothing what its driver
knows by itself: these are of before all time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from shoal.broker.effects import Effect, Remember
from shoal.model import BrokerId
from shoal.overlays.self_organising.quiet_ring.ring_messages import Standing

# Of a link that a broker does not remember, and of one of which it cannot know, as it has started
# anew and been told of no links.
UNHEARD, UNKNOWN = Standing(False, -1), Standing(False, -2)
FACT = "standings"


class Standings:
    """Those of one broker; `given` are the neighbours that its driver knows."""

    def __init__(self, given: Iterable[BrokerId]) -> None:
        self._rows = dict.fromkeys(given, Standing(True, 0))
        self._unknown = UNHEARD if self._rows else UNKNOWN

    def start(self, facts: Mapping[str, Any]) -> None:
        """What was to be remembered, if anything was."""
        for neighbour, (is_in, since_us) in facts.get(FACT, {}).items():
            self._rows[neighbour] = Standing(is_in, since_us)

    def of(self, neighbour: BrokerId) -> Standing:
        return self._rows.get(neighbour, self._unknown)

    def put(self, neighbour: BrokerId, standing: Standing, out: list[Effect]) -> None:
        """It is so from now on."""
        if self._rows.get(neighbour) == standing:
            return
        self._rows[neighbour] = standing
        rows = {name: [row.is_in, row.since_us] for name, row in self._rows.items()}
        out.append(Remember({FACT: rows}))

    @property
    def neighbours(self) -> Iterator[BrokerId]:
        """The brokers to which there are links of the tree's."""
        return (name for name, row in self._rows.items() if row.is_in)
