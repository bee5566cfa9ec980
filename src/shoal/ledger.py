"""The memory ledger: every cache and table that grows with use, with its bound, a row each.

The owner of a cache or of a table registers it here, where it is made: a cache of the process with
`remembered`, a table of one broker with `Ledger.register`. A row is made when it is read, in
constant time. Bytes are estimates: counted bytes if the owner counts them, else entries times the
size of one, about.

>>> @remembered("squares, for this example", most=2, bytes_each=60)
... def square(number: int) -> int:
...     return number * number
>>> [square(number) for number in (1, 2, 3, 3)]
[1, 4, 9, 9]
>>> ledger = Ledger()
>>> ledger.register("sessions", lambda: LedgerMeasure(entries=3, bytes=12_000, most_entries=100))
>>> next(row for row in ledger.rows() if row.name == "sessions")
LedgerRow(name='sessions', entries=3, bytes=12000, most_entries=100, most_bytes=None)
>>> [(row.entries, row.bytes) for row in ledger.rows() if row.name.startswith("squares")]
[(2, 120)]
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class LedgerMeasure(NamedTuple):
    """A table's current size, and its bounds; None if it has none of that kind."""

    entries: int
    bytes: int
    most_entries: int | None = None
    most_bytes: int | None = None


class LedgerRow(NamedTuple):
    """A line of the ledger."""

    name: str
    entries: int
    bytes: int
    most_entries: int | None
    most_bytes: int | None


# Of this process, by name.
_CACHES: dict[str, Callable[[], LedgerMeasure]] = {}


def remembered(
    name: str, *, most: int, bytes_each: int
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A cache of a pure function: the last `most` results, of about so many bytes each."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        cached = lru_cache(most)(function)

        def measure() -> LedgerMeasure:
            entries = cached.cache_info().currsize
            return LedgerMeasure(entries, entries * bytes_each, most)

        _CACHES[name] = measure
        return cached  # type: ignore[return-value]

    return decorate


class Ledger:
    """Of one broker; those of the process are in it, too."""

    def __init__(self) -> None:
        self._tables: dict[str, Callable[[], LedgerMeasure]] = {}

    def register(self, name: str, measure: Callable[[], LedgerMeasure]) -> None:
        """A table; `measure` is called whenever the rows are read, and must be cheap."""
        self._tables[name] = measure

    def rows(self) -> list[LedgerRow]:
        """All, the largest first."""
        found = [LedgerRow(name, *measure()) for name, measure in (self._tables | _CACHES).items()]
        return sorted(found, key=lambda row: (-row.bytes, row.name))
