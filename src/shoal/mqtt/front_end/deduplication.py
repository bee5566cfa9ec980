"""Deduplication of the machine's deliveries to a front end, after failures of brokers.

Retransmitted publications are marked; the mark does not tell whether the first copy arrived.
>>> from shoal.broker.ack_tracker import marked
>>> repeats = UnorderedDeduplication()
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

from shoal.ledger import LedgerMeasure
from shoal.model import ClientId, Publication

# Streams whose last publication is remembered; the least recently used are dropped.
MAX_STREAMS = 100_000
# Publications that are remembered one by one: some seconds of a busy broker.
MAX_PUBLICATIONS = 100_000
# The same at QoS 0, which is repeated only while routes change.
MAX_UNASSURED = 10_000
# The approximate memory of one entry.
ENTRY_BYTES = 300


class DuplicateSink(Protocol):
    """Accepts each publication once."""

    def measure(self) -> LedgerMeasure:
        """The number of remembered entries."""

    def take(self, publication: Publication) -> bool:
        """Accept a publication; False for a duplicate."""


def stream_of(publication: Publication, ordered_by: str | None = None) -> str:
    """The stream of a publication: its publisher's, or one text of an attribute of it.

    >>> told = Publication(publisher="p", sequence=7, published_us=0, attributes={"topic": "a"})
    >>> stream_of(told), stream_of(told, "topic"), stream_of(told, "symbol")
    ('p', 'p\\x00=a', 'p\\x00')
    """
    if ordered_by is None:
        return publication.publisher
    text = publication.attributes.get(ordered_by)
    # No publisher's name contains U+0000.
    return f"{publication.publisher}\0" + (f"={text}" if isinstance(text, str) else "")


class OrderedDeduplication:
    """Deduplication where streams are in order: a publisher's, or by `ordered_by` (`stream_of`).

    Every publisher numbers its publications upwards. A publication that is marked as repeated and
    is not above the last one is a duplicate. An unmarked one is a duplicate if it is not above the
    last marked one that was accepted: its own repetition has overtaken it.
    """

    def __init__(self, last: Mapping[str, int], ordered_by: str | None = None) -> None:
        """`last` are the last numbers before the broker started, by stream."""
        self._ordered_by = ordered_by
        self._last: OrderedDict[str, int] = OrderedDict(last)
        self._last_marked: dict[str, int] = {}

    def measure(self) -> LedgerMeasure:
        return LedgerMeasure(len(self._last), len(self._last) * ENTRY_BYTES, MAX_STREAMS)

    def take(self, publication: Publication) -> bool:
        """Accept a publication; False for a duplicate."""
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


class UnorderedDeduplication:
    """Deduplication where publications of one publisher take different routes: one by one.

    Publications at QoS 0 are not retransmitted, but may travel in a circle while brokers disagree
    about failures. In a network that keeps streams in order unless brokers fail, a publication that
    is not above its stream's last one from before the start is a duplicate; the last one also
    advances over publications that are too old to be remembered one by one.
    """

    def __init__(
        self, last: Mapping[str, int] | None = None, ordered_by: str | None = None
    ) -> None:
        """`last` and `ordered_by`: see `OrderedDeduplication`; None for `last`: no streams."""
        self._ordered_by = ordered_by
        self._last = None if last is None else OrderedDict(last)
        self._taken: OrderedDict[tuple[ClientId, int], str] = OrderedDict()
        self._unassured: OrderedDict[tuple[ClientId, int], None] = OrderedDict()

    def measure(self) -> LedgerMeasure:
        count = len(self._taken) + len(self._unassured) + len(self._last or ())
        most = MAX_PUBLICATIONS + MAX_UNASSURED + MAX_STREAMS
        return LedgerMeasure(count, count * ENTRY_BYTES, most)

    def take(self, publication: Publication) -> bool:
        """Accept a publication; False for a duplicate."""
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
) -> DuplicateSink:
    """The deduplication that a front end needs; `heard` is `last` of `OrderedDeduplication`.

    In a network that `has_detours`, a publication on a detour around a failed broker may come later
    than its successors.
    """
    if not keeps_order and ordered_by is None:
        return UnorderedDeduplication()
    return (UnorderedDeduplication if has_detours else OrderedDeduplication)(heard, ordered_by)
