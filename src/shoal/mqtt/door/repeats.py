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

# Streams whose last publication is remembered; those not heard of for longest go.
MAX_STREAMS = 100_000
# Publications that are remembered one by one: some seconds' of a busy broker.
MAX_PUBLICATIONS = 100_000
# The same where streams are in order, so that what is late is seldom looked for: some 2 MB.
MAX_LOOKED_UP = 10_000


class Taker(Protocol):
    """Takes everything once."""

    def take(self, publication: Publication) -> bool:
        """Whether this publication has not been delivered before."""


def stream_of(publication: Publication, ordered_by: str | None = None) -> str:
    """What a publication is in order with: its publisher's, or those of one text of an attribute.

    >>> told = Publication(publisher="p", sequence=7, published_us=0, attributes={"topic": "a"})
    >>> stream_of(told), stream_of(told, "topic"), stream_of(told, "symbol")
    ('p', 'p\\x00=a', 'p\\x00')
    """
    if ordered_by is None:
        return publication.publisher
    text = publication.attributes.get(ordered_by)
    # No publisher's name has U+0000 in it.
    return f"{publication.publisher}\0" + (f"={text}" if isinstance(text, str) else "")


class Repeats:
    """Where order is kept in streams: a publisher's, or by `ordered_by` (see `stream_of`).

    Every publisher counts its publications up, and they come in their order; so what is not above
    the last one is a repeat if it is marked as sent before, or if that one was.  But where brokers
    on two ways died, a later one may have come first: what can be looked up is no repeat if it was
    not taken, and comes late rather than never.
    """

    def __init__(self, last: Mapping[str, int], ordered_by: str | None = None) -> None:
        """`last` is what is known from before the broker started, by stream."""
        self._ordered_by = ordered_by
        self._last: dict[str, int] = dict(last)
        self._last_marked: dict[str, int] = {}
        # Of what somebody waits for: up to where it cannot be looked up, and what was taken since.
        self._floor: dict[str, int] = dict(last)
        self._taken: dict[tuple[str, int], None] = {}

    def take(self, publication: Publication) -> bool:
        """Whether this publication has not been delivered before."""
        stream, sequence = stream_of(publication, self._ordered_by), publication.sequence
        last = self._last.pop(stream, -1)
        self._last[stream] = max(last, sequence)
        if len(self._last) > MAX_STREAMS:
            self._forget(next(iter(self._last)))
        if sequence > last:
            is_new = True
            if publication.again:
                self._last_marked[stream] = sequence
        elif publication.again or sequence <= self._last_marked.get(stream, -1):
            is_new = publication.assured and self._is_late(stream, sequence)
        else:
            is_new = True
        if is_new and publication.assured:
            self._remember(stream, sequence)
        return is_new

    def _is_late(self, stream: str, sequence: int) -> bool:
        return sequence > self._floor.get(stream, -1) and (stream, sequence) not in self._taken

    def _remember(self, stream: str, sequence: int) -> None:
        self._taken[stream, sequence] = None
        if len(self._taken) > MAX_LOOKED_UP:
            oldest, number = key = next(iter(self._taken))
            del self._taken[key]
            self._floor[oldest] = max(number, self._floor.get(oldest, -1))

    def _forget(self, stream: str) -> None:
        del self._last[stream]
        self._last_marked.pop(stream, None)
        self._floor.pop(stream, None)


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
