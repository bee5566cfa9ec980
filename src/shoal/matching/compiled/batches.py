"""The compiled side of a match index: batches of publications against all filters.

Filters added one at a time are compiled when a batch comes, into levels each at most half as
large as the one before, so that every filter is compiled a logarithmic number of times; rows
loaded from arrays are compiled at once.  Removing marks; when as many were removed as are left,
all are compiled anew and memory is given back.

>>> import numpy as np
>>> compiled = CompiledFilters()
>>> compiled.load(np.array([7, 8]), rows_of_ranges(("a",), [[0.0], [5.0]], [[9.0], [6.0]]))
>>> offsets, ids = compiled.match(ColumnBatch.of_columns({"a": np.array([1.0, 5.5])}), {})
>>> offsets.tolist(), ids.tolist(), len(compiled)
([0, 1, 3], [7, 7, 8], 2)
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from shoal.matching.compiled.columns import ColumnBatch
from shoal.matching.compiled.compiled_sources import (
    Answers,
    Bulk,
    CompiledSource,
    Contents,
    copy_answers,
    joined,
    offsets_of,
    recoded,
)
from shoal.matching.compiled.kernels.answers import name_once
from shoal.matching.compiled.part import CompiledRows, Numbers, Rooms, chosen_rows
from shoal.matching.compiled.sources import Vocabularies, rows_of_filters, rows_of_ranges
from shoal.model import Attributes, Filter

__all__ = ["CompiledFilters", "rows_of_ranges"]

# Publications that run through the parts together: few enough for their matches, about FOUND_AIM
# members of 4 bytes, to be still in a core's own cache when the answer is put together, and enough
# for the calls not to count.
CHUNK_FIRST = 256
CHUNK_LARGEST = 65_536
FOUND_AIM = 2**17

# A first chunk says how much all will find; this much more is set aside.
ROOM_FACTOR = 1.15


class CompiledFilters:
    """All filters of an index as parts: bulks from arrays, levels from single filters."""

    def __init__(self) -> None:
        self.vocabularies: Vocabularies = {}
        self._bulks: list[Bulk] = []
        self._levels: list[CompiledSource] = []
        self._young: dict[Hashable, None] = {}
        self._places: dict[Hashable, tuple[CompiledSource, int]] = {}
        self._chunk = CHUNK_FIRST  # as the batches before have shown it to be right
        self._rooms: list[Rooms] = []  # one for each thread that was in `match` at once
        self._names: Any = None  # the ids by their numbers, where they are objects
        self._coded: tuple[Numbers, Any] | None = None  # a code per id, and its meaning
        self._removed = 0  # since all were compiled anew

    def __len__(self) -> int:
        """Return how many ids were loaded from arrays."""
        return sum(bulk.live for bulk in self._bulks)

    def load(self, numbers: Numbers, rows: CompiledRows) -> None:
        """Add a bulk; an id given twice, or there before, stands for its last row only."""
        if numbers.shape != (rows.size,):
            raise ValueError(f"{rows.size} rows need as many ids; got an array {numbers.shape}")
        if not rows.size:
            return
        last = _last_of_equal(numbers)
        if last is not None:
            numbers, rows = numbers[last], chosen_rows(rows, last)
        loaded = Bulk(Contents(numbers, np.arange(rows.size), rows, []), self.vocabularies)
        for bulk in self._bulks:
            self._unload(bulk, bulk.find(numbers))
        self._drop_empty()
        self._bulks.append(loaded)
        self._changed()

    def has_loaded(self, id: Hashable) -> bool:
        return _equals_number(id) and any(bulk.find(_one(id)).size for bulk in self._bulks)

    def unload(self, id: Hashable) -> bool:
        """Forget a loaded id; whether there was one."""
        if not _equals_number(id):
            return False
        for bulk in self._bulks:
            found = bulk.find(_one(id))
            if found.size:
                self._unload(bulk, found)
                self._drop_empty()
                return True
        return False

    def add(self, id: Hashable) -> None:
        """Note that a filter is there, to be compiled when a batch comes."""
        self._young[id] = None

    def remove(self, id: Hashable) -> None:
        """Note that a filter is there no more."""
        place = self._places.pop(id, None)
        if place is not None:
            source, number = place
            source.forget(number)
            self._removed += 1
            if not source.live:
                self._levels.remove(source)
                self._changed()
        self._young.pop(id, None)

    def match(self, batch: ColumnBatch, filters: Mapping[Hashable, Filter]) -> tuple[Numbers, Any]:
        """Offsets and ids: an array of int64 if all ids are such numbers, else of objects."""
        self._compile(filters)
        sources: list[CompiledSource] = [*self._bulks, *self._levels]
        if all(isinstance(source.ids, np.ndarray) for source in sources):
            return self._run(batch, [source.search(batch, None) for source in sources])
        offsets, found = self._run(batch, _searches_of_numbers(batch, sources))
        if self._names is None:
            self._names = _objects(self._ids())
        return offsets, self._names[found]

    def match_destinations(
        self,
        batch: ColumnBatch,
        filters: Mapping[Hashable, Filter],
        destinations: Mapping[Hashable, Hashable],
    ) -> tuple[Numbers, Any]:
        """Offsets and destinations, each once for a publication; an id without one is its own."""
        self._compile(filters)
        sources: list[CompiledSource] = [*self._bulks, *self._levels]
        offsets, found = self._run(batch, _searches_of_numbers(batch, sources))
        if self._coded is None:
            codes: dict[Hashable, int] = {}
            coded = [codes.setdefault(destinations.get(id, id), len(codes)) for id in self._ids()]
            self._coded = np.array(coded, np.int64), _objects(list(codes))
        by_number, names = self._coded
        offsets, once = name_once(by_number[found], offsets, len(names))
        return offsets, names[once]

    def match_loaded(self, attributes: Attributes) -> list[int]:
        """The ids loaded from arrays that match one publication."""
        return [id for bulk in self._bulks for id in bulk.match(attributes)]

    def matches_any_loaded(self, attributes: Attributes) -> bool:
        """Return whether filters loaded from arrays have a match."""
        return any(bulk.match(attributes) for bulk in self._bulks)

    def _ids(self) -> list[Hashable]:
        """All ids, removed ones too, as numbers of sources count them."""
        ids: list[Hashable] = []
        for source in (*self._bulks, *self._levels):
            ids += source.ids.tolist() if isinstance(source.ids, np.ndarray) else source.ids
        return ids

    def _run(self, batch: ColumnBatch, searches: Sequence[Answers]) -> tuple[Numbers, Numbers]:
        rooms = self._rooms.pop() if self._rooms else {}
        offsets, ids, self._chunk = _match(batch, searches, rooms, self._chunk)
        self._rooms.append(rooms)
        return offsets, ids

    def _compile(self, filters: Mapping[Hashable, Filter]) -> None:
        live = sum(source.live for source in (*self._bulks, *self._levels))
        if self._removed and self._removed >= live:
            self._renew()
        if self._young:
            young = _contents_of({id: filters[id] for id in self._young}, self.vocabularies)
            contents = [young]
            size = len(young.ids)
            kept = len(self._levels)
            while kept and self._levels[kept - 1].live <= 2 * size:
                kept -= 1
                contents.insert(0, self._levels[kept].contents())
                size += self._levels[kept].live
            level = CompiledSource(joined(contents), self.vocabularies)
            # All that can fail has been done.
            self._young.clear()
            self._levels[kept:] = [level]
            self._place(level)

    def _renew(self) -> None:
        """Compile the remaining filters anew, with only the values that are demanded still."""
        vocabularies: Vocabularies = {}
        bulks, levels = (
            [recoded(source.contents(), self.vocabularies, vocabularies) for source in sources]
            for sources in (self._bulks, self._levels)
        )
        made = [Bulk(contents, vocabularies) for contents in bulks]
        together = [CompiledSource(joined(levels), vocabularies)] if levels else []
        # All that can fail has been done.
        self.vocabularies, self._bulks, self._levels = vocabularies, made, together
        self._removed = 0
        self._changed()
        for level in together:
            self._place(level)

    def _place(self, level: CompiledSource) -> None:
        self._changed()
        ids = level.ids.tolist() if isinstance(level.ids, np.ndarray) else level.ids
        self._places.update((id, (level, number)) for number, id in enumerate(ids))

    def _unload(self, bulk: Bulk, numbers: Numbers) -> None:
        self._removed += len(numbers)
        for number in numbers.tolist():
            bulk.forget(number)

    def _drop_empty(self) -> None:
        self._bulks = [bulk for bulk in self._bulks if bulk.live]
        self._changed()

    def _changed(self) -> None:
        """Drop caches of the parts and of the numbers."""
        self._rooms.clear()
        self._names = self._coded = None


def _contents_of(filters: Mapping[Hashable, Filter], vocabularies: Vocabularies) -> Contents:
    rows, tests, numbers = rows_of_filters(list(filters.values()), vocabularies)
    is_several = any(len(filter.normal_form) > 1 for filter in filters.values())
    ids = [int(id) if isinstance(id, np.integer) else id for id in filters]
    names: Numbers | list[Hashable] = ids
    if all(_is_number(id) for id in ids):
        names = np.array(ids, np.int64)
    return Contents(names, numbers, rows, tests, is_several)


def _searches_of_numbers(batch: ColumnBatch, sources: Sequence[CompiledSource]) -> list[Answers]:
    """Searches that name ids by their numbers, counted through all sources."""
    firsts = np.cumsum([0, *(len(source.ids) for source in sources)]).tolist()
    return [source.search(batch, first) for source, first in zip(sources, firsts, strict=False)]


def _objects(items: Sequence[Hashable]) -> Any:
    """An array of objects, one for each item even where items are tuples."""
    return np.fromiter(items, object, len(items))


def _match(
    batch: ColumnBatch, searches: Sequence[Answers], rooms: Rooms, chunk: int
) -> tuple[Numbers, Numbers, int]:
    """Offsets, ids, and how many publications to take at once from now on."""
    offsets = np.zeros(batch.size + 1, np.int64)
    out = np.empty(0, np.int64)
    begin, total = 0, 0
    while begin < batch.size:
        end = min(begin + chunk, batch.size)
        answers = [answer for search in searches for answer in search(begin, end, rooms)]
        ends = offsets_of(answers, end - begin)
        offsets[begin + 1 : end + 1] = ends[1:] + total
        if total + ends[-1] > len(out):
            expected = (total + int(ends[-1])) * (batch.size / end)
            grown = np.empty(int(expected * (ROOM_FACTOR if end < batch.size else 1)), np.int64)
            grown[:total] = out[:total]
            out = grown
        copy_answers(answers, ends, out[total:])
        total += int(ends[-1])
        chunk = min(max(FOUND_AIM * end // max(total, 1), CHUNK_FIRST), CHUNK_LARGEST)
        begin = end
    return offsets, out[:total], chunk


def _last_of_equal(numbers: Numbers) -> Numbers | None:
    """Return the positions of the last of equal numbers, ascending; None if no two are equal."""
    if (numbers[1:] > numbers[:-1]).all():
        return None
    _, first_from_the_end = np.unique(numbers[::-1], return_index=True)
    if len(first_from_the_end) == len(numbers):
        return None
    return np.sort(len(numbers) - 1 - first_from_the_end)


def _is_number(id: Hashable) -> bool:
    return type(id) is int and -(2**63) <= id < 2**63


def _equals_number(id: Hashable) -> bool:
    """Return whether a dictionary would take the id for one of those loaded: 1, numpy's 1, TRUE,
    1.0.
    """
    if not isinstance(id, int | float | np.integer | np.floating | np.bool_):
        return False
    return bool(-(2**63) <= id < 2**63 and id == int(id))


def _one(id: Any) -> Numbers:
    return np.array([id], np.int64)
