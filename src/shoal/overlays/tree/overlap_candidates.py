"""Which entries of a routing table may overlap a filter, without asking each of them.

Where all entries fix one attribute (every advertisement says `symbol = ...`), a filter that fixes
it too can overlap only those with the same value.  A broker with 10,000 advertisements then looks
at one per subscription.  Otherwise all entries are candidates; what a candidate really overlaps
is for `shoal.matching.overlaps` to say.

>>> from shoal.language import parse
>>> table = OverlapCandidates()
>>> for symbol in ("A", "B", "C"):
...     table.add(symbol, parse(f"symbol = '{symbol}'"))
>>> list(table.of(parse("symbol = 'B' AND price > 5"))), list(table.of(parse("price > 5")))
(['B'], ['A', 'B', 'C'])
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Hashable
from typing import Generic, TypeVar

from shoal.model import Filter, Predicate

Entry = TypeVar("Entry", bound=Hashable)


class OverlapCandidates(Generic[Entry]):
    """Entries by the values that their filters fix; every answer is oldest first."""

    def __init__(self) -> None:
        self._all: dict[Entry, None] = {}
        # By attribute, how many entries fix it; and by equality, which do.
        self._fixing: Counter[str] = Counter()
        self._equal: defaultdict[Predicate, dict[Entry, None]] = defaultdict(dict)

    def add(self, entry: Entry, filter: Filter) -> None:
        """Take in an entry that is not there yet."""
        self._all[entry] = None
        for test in filter.equalities:
            self._fixing[test.attribute] += 1
            self._equal[test][entry] = None

    def remove(self, entry: Entry, filter: Filter) -> None:
        """Undo `add`, with the same filter."""
        del self._all[entry]
        for test in filter.equalities:
            self._fixing[test.attribute] -= 1
            entries = self._equal[test]
            del entries[entry]
            if not entries:
                del self._equal[test]

    def of(self, filter: Filter) -> Collection[Entry]:
        """The entries that may overlap the filter, not to be changed while they are read."""
        fewest: Collection[Entry] = self._all
        for test in filter.equalities:
            if self._fixing[test.attribute] == len(self._all):
                entries = self._equal.get(test, {})
                if len(entries) < len(fewest):
                    fewest = entries
        return fewest
