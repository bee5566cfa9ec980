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

from collections import OrderedDict
from collections.abc import Mapping
from typing import Protocol

from shoal.ledger import Measure
from shoal.model import ClientId, Publication

# Streams whose last publication is remembered; those not heard of for longest go.
MAX_STREAMS = 100_000
# Publications that are remembered one by one: some seconds' of a busy broker.
MAX_PUBLICATIONS = 100_000
# And of those that nobody waits for, which come twice at most while the network's ways change.
MAX_UNASSURED = 10_000
# What one entry takes, about.
ENTRY_BYTES = 300


class Taker(Protocol):
    """Takes everything once."""

    def measure(self) -> Measure:
        """What is remembered."""

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

    Every publisher counts its publications up.  So what is marked
    as sent before and is not above the last one is a repeat; and what comes, not marked, behind
    such as were taken and were above it has been overtaken by its own repeat.
    """

    def __init__(self, last: Mapping[str, int], ordered_by: str | None = None) -> None:
        """`last` is what is known from before the broker started, by stream."""
        self._ordered_by = ordered_by
        self._last: OrderedDict[str, int] = OrderedDict(last)
        self._last_marked: dict[str, int] = {}

    def measure(self) -> Measure:
        return Measure(len(self._last), len(self._last) * ENTRY_BYTES, MAX_STREAMS)

    def take(self, publication: Publication) -> bool:
        """Whether this publication has not been delivered before."""
        stream, sequence = stream_of(publication, self._ordered_by), publication.sequence
        last = self._last.pop(stream, -1)
        self._last[stream] = max(last, sequence)
        if len(self._last) > MAX_STREAMS:
            oldest, _ = self._last.popitem(last=False)
            self._last_marked.pop(oldest, None)
        if publication.again:
            if sequence > last:
                self._last_marked[stream] = sequence
            return sequence > last
        return not self._last_marked or sequence > self._last_marked.get(stream, -1)


class UnorderedRepeats:
    """Where publications of one publisher go different ways: each is remembered, for a while.

    Of those that nobody waits for none is sent again; but where brokers do not agree yet on who is
    away, one may come round a circle.  Where order is kept in streams unless brokers die, what is
    not above the last one from before this broker started has been delivered then; and what was
    delivered too long ago to be remembered one by one is such, too.
    """

    def __init__(
        self, last: Mapping[str, int] | None = None, ordered_by: str | None = None
    ) -> None:
        """`last` and `ordered_by` are as in `Repeats`; without, there are no streams."""
        self._ordered_by = ordered_by
        self._last = None if last is None else OrderedDict(last)
        self._taken: OrderedDict[tuple[ClientId, int], str] = OrderedDict()
        self._unassured: OrderedDict[tuple[ClientId, int], None] = OrderedDict()

    def measure(self) -> Measure:
        count = len(self._taken) + len(self._unassured) + len(self._last or ())
        most = MAX_PUBLICATIONS + MAX_UNASSURED + MAX_STREAMS
        return Measure(count, count * ENTRY_BYTES, most)

    def take(self, publication: Publication) -> bool:
        """Whether this publication has not been delivered before."""
        if not publication.assured:
            return self._take_unassured(publication.key)
        key, stream = publication.key, ""
        if key in self._taken:
            return False
        if self._last is not None:
            stream = stream_of(publication, self._ordered_by)
            if publication.sequence <= self._last.get(stream, -1):
                return False
        self._taken[key] = stream
        if len(self._taken) > MAX_PUBLICATIONS:
            self._forget_first()
        return True

    def _take_unassured(self, key: tuple[ClientId, int]) -> bool:
        taken = self._unassured
        if key in taken:
            return False
        taken[key] = None
        if len(taken) > MAX_UNASSURED:
            taken.popitem(last=False)
        return True

    def _forget_first(self) -> None:
        key, stream = self._taken.popitem(last=False)
        if self._last is not None:
            self._last[stream] = max(self._last.pop(stream, -1), key[1])
            if len(self._last) > MAX_STREAMS:
                self._last.popitem(last=False)


def taker(
    heard: Mapping[str, int], ordered_by: str | None, *, keeps_order: bool, has_detours: bool
) -> Taker:
    """What a door of such a network needs; `heard` is as `last` in `Repeats`.

    Where the network `has_detours`, what went another way as brokers died may come later than what
    was published after it.
    """
    if not keeps_order and ordered_by is None:
        return UnorderedRepeats()
    return (UnorderedRepeats if has_detours else Repeats)(heard, ordered_by)
