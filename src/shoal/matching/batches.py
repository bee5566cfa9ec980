"""The compiled side of a match index: batches of publications against all filters.

Filters added one at a time are compiled when a batch comes, into levels each at most half as
large as the one before, so that every filter is compiled a logarithmic number of times; rows
loaded from arrays are compiled at once.  Removing marks; what is mostly marked is compiled anew.

>>> import numpy as np
>>> compiled = CompiledFilters()
>>> compiled.load(np.array([7, 8]), rows_of_ranges(("a",), [[0.0], [5.0]], [[9.0], [6.0]]))
>>> offsets, ids = compiled.match(Batch.of_columns({"a": np.array([1.0, 5.5])}), {})
>>> offsets.tolist(), ids.tolist(), len(compiled)
([0, 1, 3], [7, 7, 8], 2)
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from shoal.matching.columns import Batch
from shoal.matching.compiled import Test
from shoal.matching.kernels_answers import copy_ids, drop_removed, name_once
from shoal.matching.part import Found, Numbers, Part, Rooms, Rows
from shoal.matching.parts import compile_parts
from shoal.matching.sources import Vocabularies, rows_of_filters, rows_of_ranges
from shoal.model import Filter

__all__ = ["CompiledFilters", "rows_of_ranges"]

# Publications that run through the parts together: enough to meet each other in the cells of a
# grid, few enough for what they find to stay near FOUND_AIM members, 4 bytes each.
CHUNK_FIRST = 2_048
CHUNK_LARGEST = 65_536
FOUND_AIM = 2**22

# A first chunk says how much all will find; this much more is set aside.
ROOM_FACTOR = 1.15

_Offsets = npt.NDArray[np.int64]


class _Source:
    """Rows compiled together, and the ids they stand for: `numbers[row]` counts into `ids`."""

    def __init__(
        self,
        ids: Numbers | list[Hashable],
        numbers: Numbers,
        rows: Rows,
        tests: list[Test | None],
        vocabularies: Vocabularies,
    ) -> None:
        self.ids = ids
        self.numbers = numbers
        self.kept = np.ones(len(ids), np.bool_)
        self.live = len(ids)
        self._is_several = len(numbers) > len(ids)
        self._tests = tests
        tested = np.array([test is not None for test in tests], np.bool_)
        self._parts: list[tuple[Part, bool]] = []
        for is_tested in (False, True) if tested.any() else (False,):
            members = np.flatnonzero(tested == is_tested) if len(tests) else None
            for part in compile_parts(_chosen(rows, members), vocabularies):
                if members is not None:
                    part.rows = members[part.rows]
                self._parts.append((part, is_tested))

    def forget(self, number: int) -> None:
        self.kept[number] = False
        self.live -= 1

    def compact(self) -> None:
        """Give memory back when most of the rows are of removed ids."""
        if self.live * 2 > len(self.ids):
            return
        parts = []
        for part, is_tested in self._parts:
            kept = self.kept[self.numbers[part.rows]]
            if kept.any():
                parts.append((part if kept.all() else part.restricted(kept), is_tested))
        self._parts = parts

    def match(
        self, batch: Batch, begin: int, end: int, rooms: Rooms
    ) -> list[tuple[Found, Numbers]]:
        """What each part found, and the number of the id that each of its members stands for."""
        answers = []
        for part, is_tested in self._parts:
            found = part.match(batch, begin, end, rooms)
            numbers = self.numbers[part.rows]
            if self.live < len(self.ids):
                drop_removed(self.kept[numbers], found.members, found.begins, found.counts)
            if is_tested:
                found = self._passed(batch, begin, part, found)
            answers.append((found, numbers))
        if not self._is_several or not answers:
            return answers
        offsets = _offsets(answers, end - begin)
        together = np.empty(offsets[-1], np.int64)
        _copy(answers, offsets, together)
        offsets, once = name_once(together, offsets, len(self.ids))
        order = np.arange(end - begin)
        found = Found(order, once.astype(np.int32), offsets[:-1], np.diff(offsets))
        return [(found, np.arange(len(self.ids)))]

    def _passed(self, batch: Batch, begin: int, part: Part, found: Found) -> Found:
        """The members whose tests the publications pass as well."""
        members: list[int] = []
        ends = [0]
        for point, (first, count) in enumerate(
            zip(found.begins.tolist(), found.counts.tolist(), strict=True)
        ):
            if count:
                attributes = batch.attributes(begin + point)
                for member in found.members[first : first + count].tolist():
                    test = self._tests[part.rows[member]]
                    if test is not None and test(attributes):
                        members.append(member)
            ends.append(len(members))
        offsets = np.array(ends, np.int64)
        return Found(found.order, np.array(members, np.int32), offsets[:-1], np.diff(offsets))


class _Bulk(_Source):
    """Rows loaded from arrays; ids are found by bisection."""

    def __init__(self, ids: Numbers, rows: Rows, vocabularies: Vocabularies) -> None:
        super().__init__(ids, np.arange(len(ids)), rows, [], vocabularies)
        is_ascending = bool((ids[1:] > ids[:-1]).all())
        self._order = None if is_ascending else np.argsort(ids, kind="stable")
        self._sorted = ids if self._order is None else ids[self._order]

    def find(self, ids: Numbers) -> Numbers:
        """The numbers of those of the ids that are here."""
        places = np.searchsorted(self._sorted, ids)
        places = places[places < len(self._sorted)]
        places = places[np.isin(self._sorted[places], ids)]
        numbers = np.unique(places if self._order is None else self._order[places])
        return numbers[self.kept[numbers]]


class CompiledFilters:
    """All filters of an index as parts: bulks from arrays, levels from single filters."""

    def __init__(self) -> None:
        self.vocabularies: Vocabularies = {}
        self._bulks: list[_Bulk] = []
        self._levels: list[_Source] = []
        self._young: dict[Hashable, None] = {}
        self._places: dict[Hashable, tuple[_Source, int]] = {}
        self._chunk = CHUNK_FIRST  # as the batches before have shown it to be right

    def __len__(self) -> int:
        """How many ids were loaded from arrays."""
        return sum(bulk.live for bulk in self._bulks)

    def load(self, ids: Any, rows: Rows) -> None:
        """Add a bulk; an id given twice, or there before, stands for its last row only."""
        numbers = np.ascontiguousarray(ids, dtype=np.int64)
        if numbers.shape != (rows.size,):
            raise ValueError(f"{rows.size} rows need as many ids; got an array {numbers.shape}")
        if not rows.size:
            return
        for bulk in self._bulks:
            self._forget(bulk, bulk.find(numbers))
        self._drop_empty()
        last = _last_of_equal(numbers)
        if last is not None:
            numbers, rows = numbers[last], _chosen(rows, last)
        self._bulks.append(_Bulk(numbers, rows, self.vocabularies))

    def has_loaded(self, id: Hashable) -> bool:
        return any(bulk.find(_one(id)).size for bulk in self._bulks) if _is_number(id) else False

    def unload(self, id: Hashable) -> bool:
        """Forget a loaded id; whether there was one."""
        if not _is_number(id):
            return False
        for bulk in self._bulks:
            found = bulk.find(_one(id))
            if found.size:
                self._forget(bulk, found)
                self._drop_empty()
                self._forget_values()
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
            if not source.live:
                self._levels.remove(source)
        self._young.pop(id, None)

    def match(self, batch: Batch, filters: Mapping[Hashable, Filter]) -> tuple[_Offsets, Any]:
        """Offsets and ids: an array of int64 if all ids are such numbers, else of objects."""
        self._compile(filters)
        sources: list[_Source] = [*self._bulks, *self._levels]
        spaces = [source.ids for source in sources]
        if all(isinstance(ids, np.ndarray) for ids in spaces):
            return self._run(batch, sources, spaces)
        ends = np.cumsum([0, *map(len, spaces)])
        codes = [np.arange(begin, end) for begin, end in pairwise(ends.tolist())]
        offsets, found = self._run(batch, sources, codes)
        names = np.empty(len(found), object)
        for ids, begin, end in zip(spaces, ends[:-1], ends[1:], strict=True):
            here = np.flatnonzero((found >= begin) & (found < end))
            plain = ids.tolist() if isinstance(ids, np.ndarray) else ids
            own = np.fromiter(plain, object, len(plain))
            names[here] = own[found[here] - begin]
        return offsets, names

    def match_loaded(self, batch: Batch) -> tuple[_Offsets, Numbers]:
        """As `match`, of what was loaded from arrays only."""
        return self._run(batch, self._bulks, [bulk.ids for bulk in self._bulks])

    def _run(
        self, batch: Batch, sources: Sequence[_Source], spaces: Sequence[Any]
    ) -> tuple[_Offsets, Numbers]:
        offsets, ids, self._chunk = _match(batch, sources, spaces, self._chunk)
        return offsets, ids

    def _compile(self, filters: Mapping[Hashable, Filter]) -> None:
        if self._young:
            ids = list(self._young)
            while self._levels and self._levels[-1].live <= 2 * len(ids):
                level = self._levels.pop()
                ids = [level.ids[at] for at in np.flatnonzero(level.kept).tolist()] + ids
            self._young.clear()
            self._forget_values()
            ids = [int(id) if isinstance(id, np.integer) else id for id in ids]
            chosen = [filters[id] for id in ids]
            rows, tests = rows_of_filters(chosen, self.vocabularies)
            widths = [len(filter.normal_form) for filter in chosen]
            numbers = np.repeat(np.arange(len(ids)), widths)
            names: Numbers | list[Hashable] = ids
            if all(_is_number(id) for id in ids):
                names = np.array(ids, np.int64)
            level = _Source(names, numbers, rows, tests, self.vocabularies)
            self._levels.append(level)
            self._places.update((id, (level, number)) for number, id in enumerate(ids))
        for source in (*self._bulks, *self._levels):
            source.compact()

    def _forget(self, bulk: _Bulk, numbers: Numbers) -> None:
        for number in numbers.tolist():
            bulk.forget(number)

    def _drop_empty(self) -> None:
        self._bulks = [bulk for bulk in self._bulks if bulk.live]

    def _forget_values(self) -> None:
        """Give the vocabularies back when no part uses them."""
        if not self._bulks and not self._levels:
            self.vocabularies = {}


def _match(
    batch: Batch, sources: Sequence[_Source], spaces: Sequence[Any], chunk: int
) -> tuple[_Offsets, Numbers, int]:
    """Offsets, ids, and how many publications to take at once from now on.

    `spaces[i]` are the numbers that stand for the ids of source i.
    """
    offsets = np.zeros(batch.size + 1, np.int64)
    out = np.empty(0, np.int64)
    rooms: Rooms = {}
    begin, total = 0, 0
    while begin < batch.size:
        end = min(begin + chunk, batch.size)
        answers = [
            (found, space[numbers])
            for source, space in zip(sources, spaces, strict=True)
            for found, numbers in source.match(batch, begin, end, rooms)
        ]
        ends = _offsets(answers, end - begin)
        offsets[begin + 1 : end + 1] = ends[1:] + total
        if total + ends[-1] > len(out):
            expected = (total + int(ends[-1])) * (batch.size / end)
            grown = np.empty(int(expected * (ROOM_FACTOR if end < batch.size else 1)), np.int64)
            grown[:total] = out[:total]
            out = grown
        _copy(answers, ends, out[total:])
        total += int(ends[-1])
        chunk = int(np.clip(FOUND_AIM * end // max(total, 1), CHUNK_FIRST, CHUNK_LARGEST))
        begin = end
    return offsets, out[:total], chunk


def _offsets(answers: Sequence[tuple[Found, Numbers]], size: int) -> _Offsets:
    counts = np.zeros(size, np.int64)
    for found, _ in answers:
        counts += found.counts
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(counts)))


def _copy(answers: Sequence[tuple[Found, Numbers]], offsets: _Offsets, out: Numbers) -> None:
    cursor = offsets[:-1].copy()
    for found, numbers in answers:
        copy_ids(numbers, *found, cursor, out)


def _chosen(rows: Rows, members: Numbers | None) -> Rows:
    if members is None or len(members) == rows.size:
        return rows
    return Rows(
        len(members),
        {name: codes[members] for name, codes in rows.equalities.items()},
        {name: (low[members], high[members]) for name, (low, high) in rows.ranges.items()},
    )


def _last_of_equal(numbers: Numbers) -> Numbers | None:
    """Where the last of equal numbers stand, ascending; None if no two are equal."""
    if (numbers[1:] > numbers[:-1]).all():
        return None
    _, first_from_the_end = np.unique(numbers[::-1], return_index=True)
    if len(first_from_the_end) == len(numbers):
        return None
    return np.sort(len(numbers) - 1 - first_from_the_end)


def _is_number(id: Hashable) -> bool:
    return type(id) is int and -(2**63) <= id < 2**63


def _one(id: Any) -> Numbers:
    return np.array([id], np.int64)
