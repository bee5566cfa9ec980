"""What a door is delivered a second time: a broker may have died just after passing it on.

Such publications are marked as sent before, which does not say that they came before.

>>> from shoal.broker.custody import marked
>>> repeats = UnorderedRepeats()
>>> seventh = Publication(
...     publisher="p", sequence=7, published_us=0, attributes={}, assured=True
... )
>>> [repeats.take(publication) for publication in (seventh, marked(seventh))]
[True, False]
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from shoal.model import ClientId, Publication

# Publishers whose last publication is remembered; those not heard of for longest go.
MAX_PUBLISHERS = 100_000
# Publications that are remembered one by one: some seconds' of a busy broker.
MAX_PUBLICATIONS = 100_000


class Taker(Protocol):
    """Takes everything once."""

    def take(self, publication: Publication) -> bool:
        """Whether this publication has not been delivered before."""


class Repeats:
    """Where a publisher's order is kept.

    Every publisher counts its publications up.  So what is marked
    as sent before and is not above the last one is a repeat; and what comes, not marked, behind
    such as were taken and were above it has been overtaken by its own repeat.
    """

    def __init__(self, last: Mapping[ClientId, int]) -> None:
        """`last` is what is known from before the broker started."""
        self._last: dict[ClientId, int] = dict(last)
        self._last_marked: dict[ClientId, int] = {}

    def take(self, publication: Publication) -> bool:
        """Whether this publication has not been delivered before."""
        publisher, sequence = publication.publisher, publication.sequence
        last = self._last.pop(publisher, -1)
        self._last[publisher] = max(last, sequence)
        if len(self._last) > MAX_PUBLISHERS:
            oldest = next(iter(self._last))
            del self._last[oldest]
            self._last_marked.pop(oldest, None)
        if publication.again:
            if sequence > last:
                self._last_marked[publisher] = sequence
            return sequence > last
        return not self._last_marked or sequence > self._last_marked.get(publisher, -1)


class UnorderedRepeats:
    """Where publications of one publisher go different ways: each is remembered, for a while.

    Of those that nobody waits for none is sent again.
    """

    def __init__(self) -> None:
        self._taken: dict[tuple[ClientId, int], None] = {}

    def take(self, publication: Publication) -> bool:
        """Whether this publication has not been delivered before."""
        if not publication.assured:
            return True
        key = publication.key
        if key in self._taken:
            return False
        self._taken[key] = None
        if len(self._taken) > MAX_PUBLICATIONS:
            del self._taken[next(iter(self._taken))]
        return True
