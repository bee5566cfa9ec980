"""Recent interest of a broker's clients, and the summaries that brokers broadcast of it.

A broker remembers the notifications that it delivered to local clients or received from them, and
broadcasts a summary of those of the last interval: a Bloom filter, or the identifiers themselves. A
receiver counts how many of its own notifications are in there. Identifiers are 64 bits of a stable
hash, so that all brokers and all processes agree.

>>> here, there = Cache(entries=100), Cache(entries=100)
>>> for number in range(30):
...     here.add(notification_id("P", number))
>>> for number in range(20, 40):
...     there.add(notification_id("P", number))
>>> summary = bloom_filter(there.turn(), bits=10_000, hashes=5)
>>> here.common(summary), len(summary.data)
(10, 1250)
>>> here.common(exact(there.ids))
10

Source: Cost and Interest, sections 4 and 4.3.1 (the cache, the filter over what the last interval
added); Kirsch and Mitzenmacher, "Less Hashing, Same Performance" (ESA 2006): hash functions that
are sums of two.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from shoal.model import ClientId
from shoal.overlays.self_organising.parameters import (
    MAX_CACHE_ENTRIES,
    MAX_FILTER_BITS,
    MAX_FILTER_HASHES,
)

Ids = npt.NDArray[np.uint64]

ID_BYTES = 8
_LITTLE = np.dtype("<u8")
_LOW_HALF, _HALF_BITS = np.uint64(0xFFFF_FFFF), np.uint64(32)


def notification_id(publisher: ClientId, sequence: int) -> int:
    """The identifier of one notification, 64 bits, the same everywhere."""
    name = f"{sequence} {publisher}".encode(errors="surrogatepass")
    return int.from_bytes(hashlib.blake2b(name, digest_size=ID_BYTES).digest(), "little")


class InterestSummary(msgspec.Struct, frozen=True, array_like=True):
    """A broker's recent notifications: identifiers, or a Bloom filter of them.

    `bits` of a Bloom filter with so many `hashes`, the first in the lowest bit of the first byte;
    without bits, `data` is identifiers of 8 bytes, little end first.
    """

    bits: int
    hashes: int
    data: bytes

    def problem(self) -> str:
        """The error in a received summary; empty when it is valid."""
        length = len(self.data)
        if self.bits == 0:
            fits = self.hashes == 0 and length % ID_BYTES == 0
            return "" if fits and length <= MAX_CACHE_ENTRIES * ID_BYTES else "no identifiers"
        if not (0 < self.bits <= MAX_FILTER_BITS and 0 < self.hashes <= MAX_FILTER_HASHES):
            return f"no filter has {self.bits} bits and {self.hashes} hashes"
        return (
            "" if length == _filter_bytes(self.bits) else f"{length} bytes are not {self.bits} bits"
        )


def exact(ids: Ids) -> InterestSummary:
    """The identifiers themselves."""
    return InterestSummary(0, 0, ids.astype(_LITTLE).tobytes())


def bloom_filter(ids: Ids, bits: int, hashes: int) -> InterestSummary:
    """A Bloom filter of the identifiers."""
    flags = np.zeros(bits, dtype=np.uint8)
    for number in range(hashes):
        flags[_positions(ids, number, bits)] = 1
    return InterestSummary(bits, hashes, np.packbits(flags, bitorder="little").tobytes())


def smallest(ids: Ids, bits: int, hashes: int) -> InterestSummary:
    """The identifiers where these are fewer bytes than the filter, else the filter."""
    is_exact = len(ids) * ID_BYTES < _filter_bytes(bits)
    return exact(ids) if is_exact else bloom_filter(ids, bits, hashes)


def _filter_bytes(bits: int) -> int:
    return (bits + 7) // 8


def _positions(ids: Ids, number: int, bits: int) -> npt.NDArray[Any]:
    """Positions that hash function `number` gives.

    The halves of an identifier are its two hashes.
    """
    step = (ids >> _HALF_BITS) | np.uint64(1)
    return ((ids & _LOW_HALF) + np.uint64(number) * step) % np.uint64(bits)


class Cache:
    """The last notifications of local clients, first in, first out; each counts once."""

    def __init__(self, entries: int) -> None:
        self._ids: Ids = np.zeros(entries, dtype=np.uint64)
        self._known: set[int] = set()
        self._next = 0
        # The number of the last ones that were added in this interval, at most all.
        self._new = 0

    def __len__(self) -> int:
        return len(self._known)

    def add(self, id: int) -> None:
        """Remember one; the oldest makes room."""
        known, ids, place = self._known, self._ids, self._next
        if id in known:
            return
        if len(known) == len(ids):
            known.discard(int(ids[place]))
        known.add(id)
        ids[place] = id
        self._next = (place + 1) % len(ids)
        self._new = min(self._new + 1, len(ids))

    @property
    def ids(self) -> Ids:
        """All that are remembered, in no order."""
        return self._ids[: len(self._known)]

    def turn(self) -> Ids:
        """Those that were added since the last turn: an interval ends."""
        places = np.arange(self._next - self._new, self._next)
        self._new = 0
        return self._ids[places]

    def common(self, *summaries: InterestSummary) -> int:
        """Number of the remembered notifications in each of the summaries (a filter may err
        upwards).
        """
        known = self._known
        for summary in summaries:
            if not summary.bits:
                known = known.intersection(np.frombuffer(summary.data, dtype=_LITTLE).tolist())
        left = self.ids if known is self._known else np.fromiter(known, np.uint64, len(known))
        for summary in summaries:
            if summary.bits:
                left = _those_in(summary, left)
        return len(left)


def _those_in(summary: InterestSummary, ids: Ids) -> Ids:
    """The identifiers that a filter contains."""
    data = np.frombuffer(summary.data, dtype=np.uint8)
    for number in range(summary.hashes):
        places = _positions(ids, number, summary.bits)
        found = (data[places >> np.uint64(3)] >> (places & np.uint64(7)).astype(np.uint8)) & 1
        ids = ids[found.astype(bool)]
    return ids
