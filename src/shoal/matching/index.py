"""The match index: which of many filters match a publication, or each of a batch.

One publication at a time is looked up among filters that are filed by their demands (see `filed`).
Batches, filters loaded from arrays, and publications for which too many filters would have to be
tested one by one, go through compiled parts (see `parts`), which are made, and numba imported, when
they are first needed; numpy columns then match without a Python object per publication, and other
threads run meanwhile.

>>> from shoal.language import parse
>>> index = MatchIndex()
>>> index.add("s1", parse("carrier = 'UA' AND dep_delay > 30"))
>>> index.add("s2", parse("dep_delay > 40 OR cancelled"))
>>> index.match({"carrier": "UA", "dep_delay": 45})
['s1', 's2']
>>> import numpy as np
>>> offsets, ids = index.match_batch({"carrier": ["UA", "AA"], "dep_delay": np.array([35, 45])})
>>> offsets.tolist(), ids.tolist()
([0, 1, 2], ['s1', 's2'])
>>> index.matches_any({"dep_delay": 41}), index.matches_any({"dep_delay": 40})
(True, False)
>>> index.add_ranges([7], ("dep_delay",), low=[[30.0]], high=[[float("inf")]])
>>> index.match({"carrier": "DL", "dep_delay": 36}), len(index)
([7], 3)
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from shoal.matching.filed.filters import FiledFilters
from shoal.matching.given import checked, columns_of
from shoal.model import Attributes, Filter

# Attributes one after the other, columns by attribute, or a table.
Publications = Any

if TYPE_CHECKING:
    from shoal.matching.compiled.batches import CompiledFilters
    from shoal.matching.compiled.columns import ColumnBatch
    from shoal.matching.compiled.part import CompiledRows

# Lists of fewer publications are matched one at a time: making columns of them takes longer.
BATCH_MINIMUM = 128
# More tests than these, one by one, take longer than the compiled parts do with one batch.
TESTS_MAXIMUM = 1_000
# The compiled parts look at a column of each attribute that filters name, in every batch: of more
# of them that takes longer, and to make the parts takes seconds.
ATTRIBUTES_MAXIMUM = 256


class MatchIndex(FiledFilters):
    """Filters by id, and the question which of them match.

    Ids are any hashable values; adding an id again replaces its filter. The order of the ids in an
    answer depends only on the sequence of additions and removals.
    """

    # True if an answer about one publication, or some, may wait until parts are made, and numba is
    # imported; a live broker would serve nothing else meanwhile.
    may_wait: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()
        self._compiled: CompiledFilters | None = None

    def __len__(self) -> int:
        return len(self._filters) + (0 if self._compiled is None else len(self._compiled))

    def __contains__(self, id: Hashable) -> bool:
        return id in self._filters or (self._compiled is not None and self._compiled.has_loaded(id))

    def ids_from(self, place: int, most: int) -> list[Any]:
        """So many ids of filters that were added, from this place on; it takes as long to reach."""
        return list(islice(self._filters, place, place + most))

    def add(self, id: Hashable, filter: Filter, destination: Hashable = None) -> None:
        """File a filter under an id, in place of the one that was there.

        A filter without a destination is one of its own, named by its id; so are those loaded.
        """
        super().add(id, filter, destination)
        if self._compiled is not None:
            self._compiled.unload(id)
            self._compiled.add(id)

    def remove(self, id: Hashable) -> None:
        """Forget a filter; KeyError if there is none under this id."""
        if self._compiled is None:
            super().remove(id)
        elif id in self._filters:
            super().remove(id)
            self._compiled.remove(id)
        elif not self._compiled.unload(id):
            raise KeyError(id)

    def add_ranges(
        self,
        ids: npt.ArrayLike,
        attributes: Sequence[str],
        low: npt.ArrayLike,
        high: npt.ArrayLike,
    ) -> None:
        """Load filters `low <= attribute <= high AND ...` from arrays, without making objects.

        `ids` are n integers; `low` and `high` are (n, attributes) doubles.  An infinite bound is
        an open side, and an attribute with two open sides is not asked for at all.  ValueError,
        which changes nothing, for arrays of other types or shapes.
        """
        from shoal.matching.compiled.sources import ids_of, rows_of_ranges

        rows = rows_of_ranges(attributes, low, high)
        self._load(ids_of(ids), rows)

    def add_table(self, table: Any) -> None:
        """Load conjunctions from an Arrow table, one filter a row.

        Column `id` has integers.  A value in column `price` demands `price = value`; columns
        `price.low` and `price.high` have the bounds of a closed range.  A null, or an infinite
        bound, asks for nothing.  ValueError, which changes nothing, for columns of other types.
        """
        from shoal.matching.compiled.sources import rows_of_table

        self._load(*rows_of_table(table, self._compile().vocabularies))

    def match(self, attributes: Attributes) -> list[Any]:
        """The ids of the filters that match a publication with these attributes, each once."""
        return self.match_checked(checked(attributes))

    def match_checked(self, attributes: Attributes) -> list[Any]:
        """As `match`, without a check of the values' types."""
        if self.derived:
            attributes = self._shared.extended(attributes)
        if (
            self._work > TESTS_MAXIMUM
            and self._may_compile
            and self._tests_for(attributes) > TESTS_MAXIMUM
        ):
            return self._match_compiled([attributes])[0]
        found = self._matched(attributes)
        if self._compiled is not None:
            found += self._compiled.match_loaded(attributes)
        return found

    def match_each(self, publications: Sequence[Attributes]) -> list[list[Any]]:
        """As `match`, for each of many, in whichever way is faster."""
        return self.match_each_checked([checked(attributes) for attributes in publications])

    def match_each_checked(self, publications: Sequence[Attributes]) -> list[list[Any]]:
        """As `match_each`, without a check of the values' types."""
        count = len(publications)
        if self.derived:
            publications = list(map(self.extended, publications))
        if self._work * count > TESTS_MAXIMUM and count > 1 and self._may_compile:
            # A few stand for all.
            some = {0, count // 2, count - 1}
            tests = sum(self._tests_for(publications[at]) for at in sorted(some))
            if tests * count > TESTS_MAXIMUM * len(some):
                return self._match_compiled(publications)
        if self._compiled is None and self._work <= TESTS_MAXIMUM:
            match = self._matched
            return [match(attributes) for attributes in publications]
        return [self.match_checked(attributes) for attributes in publications]

    def answer_order(self, attributes: Attributes) -> list[Any] | None:
        """As for filters that were added; None where compiled parts may answer."""
        if self._compiled is not None or self._tests_for(attributes) > TESTS_MAXIMUM:
            return None
        return super().answer_order(attributes)

    @property
    def _may_compile(self) -> bool:
        return self.may_wait and len(self._named) <= ATTRIBUTES_MAXIMUM

    def _match_compiled(self, publications: Sequence[Attributes]) -> list[list[Any]]:
        from shoal.matching.compiled.columns import ColumnBatch

        batch = ColumnBatch.of_publications(publications)
        offsets, ids = self._compile().match(batch, self._filters)
        found, ends = ids.tolist(), offsets.tolist()
        return [found[start:end] for start, end in pairwise(ends)]

    @property
    def most_candidates(self) -> int:
        """As for filters that were added; all that were loaded count."""
        loaded = 0 if self._compiled is None else len(self._compiled)
        return super().most_candidates + loaded

    def matches_any_checked(self, attributes: Attributes) -> bool:
        """As `matches_any`, without a check of the values' types."""
        if super().matches_any_checked(attributes):
            return True
        return self._compiled is not None and self._compiled.matches_any_loaded(attributes)

    def match_destinations(self, attributes: Attributes) -> list[Any]:
        """The destinations of the filters that match, each once; ends when all are known."""
        attributes = checked(attributes)
        known = super().match_destinations(attributes)
        if self._compiled is not None:
            loaded = self._compiled.match_loaded(attributes)
            known = list(dict.fromkeys([*known, *loaded])) if loaded else known
        return known

    def match_batch(
        self, publications: Publications
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any]]:
        """The matches of each publication: those of number i are `ids[offsets[i]:offsets[i + 1]]`.

        Publications are a sequence of attributes, columns by attribute, or a table of pandas,
        Polars or Arrow.  Columns are numpy arrays (masked where an attribute is missing), lists
        (None where missing), Arrow arrays or pandas series (where pandas takes NaN for missing).
        `ids` are int64 when every id of the index is such an integer, else objects.
        """
        batch = _batch_of(publications)
        if batch is not None:
            if not self._is_faster_filed(batch):
                return self._compile().match(batch, self._filters)
            publications = batch.publications()
        offsets, found = _one_by_one(self.match, publications)
        if all(type(id) is int and -(2**63) <= id < 2**63 for id in self._filters):
            return offsets, np.array(found, np.int64)
        return offsets, np.fromiter(found, object, len(found))

    def match_destinations_batch(
        self, publications: Publications
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any]]:
        """As `match_batch`, with the destinations of the filters that match, each once."""
        batch = _batch_of(publications)
        if batch is not None:
            if not self._is_faster_filed(batch):
                return self._compile().match_destinations(batch, self._filters, self._destinations)
            publications = batch.publications()
        offsets, found = _one_by_one(self.match_destinations, publications)
        return offsets, np.fromiter(found, object, len(found))

    def _is_faster_filed(self, batch: ColumnBatch) -> bool:
        """Whether compiled parts would test so many expressions one by one that a search for each
        publication is faster.
        """
        if self._expressed <= TESTS_MAXIMUM or not batch.size:
            return False
        sample = self.extended(batch.attributes(batch.size // 2))
        return 2 * self._tests_for(sample) < self._expressions_for(sample)

    def _compile(self) -> CompiledFilters:
        if self._compiled is None:
            from shoal.matching.compiled.batches import CompiledFilters

            self._compiled = CompiledFilters()
            for id in self._filters:
                self._compiled.add(id)
        return self._compiled

    def _load(self, ids: npt.NDArray[np.int64], rows: CompiledRows) -> None:
        """A loaded id takes the place of a filter of the same id."""
        compiled = self._compile()
        compiled.load(ids, rows)
        if self._filters:
            for id in set(ids.tolist()) & self._filters.keys():
                super().remove(id)
                compiled.remove(id)


def _batch_of(publications: Publications) -> ColumnBatch | None:
    """Columns, or None where making them takes longer than one publication after the other."""
    columns = columns_of(publications)
    if columns is None and len(publications) < BATCH_MINIMUM:
        return None
    from shoal.matching.compiled.columns import ColumnBatch

    return (
        ColumnBatch.of_publications(publications)
        if columns is None
        else ColumnBatch.of_columns(columns)
    )


def _one_by_one(
    match: Callable[[Attributes], list[Any]], publications: Any
) -> tuple[npt.NDArray[np.int64], list[Any]]:
    offsets = np.zeros(len(publications) + 1, np.int64)
    found: list[Any] = []
    for number, attributes in enumerate(publications, start=1):
        found += match(attributes)
        offsets[number] = len(found)
    return offsets, found
