"""Conjunctions compiled together, and the ids they stand for.

A source is made once, of filters or of rows from arrays.  Removing an id marks it; the contents
that are left make the next source, so that a filter is looked at only once.

>>> import numpy as np
>>> from shoal.matching.compiled.columns import ColumnBatch
>>> from shoal.matching.compiled.part import CompiledRows
>>> rows = CompiledRows(2, {}, {"a": (np.array([0.0, 5.0]), np.array([9.0, 6.0]))})
>>> source = CompiledSource(Contents(np.array([7, 8]), np.arange(2), rows, []), {})
>>> [answer] = source.search(ColumnBatch.of_columns({"a": np.array([5.5])}), None)(0, 1, {})
>>> answer.names[answer.found.members[: answer.found.counts[0]]].tolist()
[7, 8]
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

import numpy as np

from shoal.matching.compiled.columns import ColumnBatch
from shoal.matching.compiled.kernels.answers import copy_ids, drop_removed, name_once
from shoal.matching.compiled.part import (
    CompiledMatches,
    CompiledPart,
    CompiledRows,
    Kept,
    Numbers,
    Rooms,
    Search,
    chosen_rows,
    joined_rows,
)
from shoal.matching.compiled.parts import compile_parts
from shoal.matching.compiled.sources import Vocabularies, code_of
from shoal.matching.predicates import Test
from shoal.model import Attributes


class SourceAnswer(NamedTuple):
    """Result of one part; a member's name stands for its id in the whole answer."""

    found: CompiledMatches
    names: Numbers


Answers = Callable[[int, int, Rooms], list[SourceAnswer]]


class Contents(NamedTuple):
    """Conjunctions of filters: row i is one of the filter with id `ids[numbers[i]]`.

    `tests` are empty, or have one for each row that is more than a row can say; `is_several`
    where two rows of a filter may match one publication.
    """

    ids: Numbers | list[Hashable]
    numbers: Numbers
    rows: CompiledRows
    tests: list[Test | None]
    is_several: bool = False


def joined(several: Sequence[Contents]) -> Contents:
    """All of them as one, in this order."""
    ids: Numbers | list[Hashable]
    if all(isinstance(each.ids, np.ndarray) for each in several):
        ids = np.concatenate([each.ids for each in several])
    else:
        ids = [id for each in several for id in _as_list(each.ids)]
    firsts = np.cumsum([0, *(len(each.ids) for each in several)]).tolist()
    tests: list[Test | None] = []
    if any(each.tests for each in several):
        tests = [test for each in several for test in each.tests or [None] * each.rows.size]
    return Contents(
        ids,
        np.concatenate(
            [each.numbers + first for each, first in zip(several, firsts, strict=False)]
        ),
        joined_rows([each.rows for each in several]),
        tests,
        any(each.is_several for each in several),
    )


def recoded(contents: Contents, old: Vocabularies, new: Vocabularies) -> Contents:
    """The same conjunctions, with the codes that their values have in a new vocabulary."""
    equalities = {}
    for name, codes in contents.rows.equalities.items():
        values = list(old[name])  # in the order of their codes
        vocabulary = new.setdefault(name, {})
        codes_by_old = np.full(len(values) + 1, -1, np.int32)  # the last is that of no value
        for code in np.unique(codes[codes >= 0]).tolist():
            codes_by_old[code] = code_of(vocabulary, values[code])
        equalities[name] = codes_by_old[codes]
    return contents._replace(rows=contents.rows._replace(equalities=equalities))


class _SourceEntry(NamedTuple):
    """A part, the id number of each of its members, and these ids themselves if they are int64."""

    part: CompiledPart
    numbers: Numbers
    ids: Numbers | None
    tests: list[Test] | None


class CompiledSource:
    """Conjunctions compiled together."""

    def __init__(self, contents: Contents, vocabularies: Vocabularies) -> None:
        self.ids = contents.ids
        self.kept: Kept = np.ones(len(self.ids), np.bool_)
        self.live = len(self.ids)
        self._is_several = contents.is_several
        self._entries: list[_SourceEntry] = []
        tested = np.array([test is not None for test in contents.tests], np.bool_)
        for is_tested in (False, True) if tested.any() else (False,):
            members = np.flatnonzero(tested == is_tested) if len(tested) else None
            for part in compile_parts(chosen_rows(contents.rows, members), vocabularies):
                rows = part.rows if members is None else members[part.rows]
                tests = [contents.tests[row] for row in rows.tolist()] if is_tested else []
                self._enter(part, contents.numbers[rows], tests)

    def forget(self, number: int) -> None:
        """Mark an id, by its number, as removed."""
        self.kept[number] = False
        self.live -= 1

    def contents(self) -> Contents:
        """Return the members that were not removed."""
        renumbered = np.cumsum(self.kept) - 1
        pieces, numbers = [], [np.empty(0, np.int64)]
        tests: list[Test | None] = []
        is_tested = any(entry.tests for entry in self._entries)
        for part, part_numbers, _, part_tests in self._entries:
            members = np.flatnonzero(self.kept[part_numbers])
            pieces.append(chosen_rows(part.as_rows(), members))
            numbers.append(renumbered[part_numbers[members]])
            if part_tests:
                tests += [part_tests[member] for member in members.tolist()]
            elif is_tested:
                tests += [None] * len(members)
        ids: Numbers | list[Hashable]
        if isinstance(self.ids, np.ndarray):
            ids = self.ids[self.kept]
        else:
            ids = [self.ids[number] for number in np.flatnonzero(self.kept).tolist()]
        return Contents(ids, np.concatenate(numbers), joined_rows(pieces), tests, self._is_several)

    def search(self, batch: ColumnBatch, first: int | None) -> Answers:
        """Finds answers to pieces of a batch.

        Names are the ids; or, as ids may be objects, `first` + their numbers.
        """
        searches = [
            (entry, entry.part.search(batch), self._names(entry, first)) for entry in self._entries
        ]

        def find(begin: int, end: int, rooms: Rooms) -> list[SourceAnswer]:
            answers = [
                SourceAnswer(self._find(entry, search, batch, begin, end, rooms), names)
                for entry, search, names in searches
            ]
            return [self._named_once(answers, end - begin, first)] if self._is_several else answers

        return find

    def _enter(self, part: CompiledPart, numbers: Numbers, tests: list[Test | None]) -> None:
        ids = self.ids[numbers] if isinstance(self.ids, np.ndarray) else None
        present = [test for test in tests if test is not None]
        self._entries.append(_SourceEntry(part, numbers, ids, present or None))

    def _names(self, entry: _SourceEntry, first: int | None) -> Numbers:
        if self._is_several:
            return entry.numbers
        if first is None:
            assert entry.ids is not None
            return entry.ids
        return entry.numbers + first

    def _find(
        self,
        entry: _SourceEntry,
        search: Search,
        batch: ColumnBatch,
        begin: int,
        end: int,
        rooms: Rooms,
    ) -> CompiledMatches:
        found = search(begin, end, rooms)
        if self.live < len(self.ids):
            drop_removed(self.kept, entry.numbers, *found[1:])
        return found if entry.tests is None else _passed(entry.tests, batch, begin, found)

    def _named_once(
        self, answers: list[SourceAnswer], size: int, first: int | None
    ) -> SourceAnswer:
        """Each id once, though several of its conjunctions may match."""
        offsets = offsets_of(answers, size)
        together = np.empty(offsets[-1], np.int64)
        copy_answers(answers, offsets, together)
        offsets, once = name_once(together, offsets, len(self.ids))
        found = CompiledMatches(
            np.arange(size), once.astype(np.uint32), offsets[:-1], np.diff(offsets)
        )
        if first is None:
            assert isinstance(self.ids, np.ndarray)
            return SourceAnswer(found, self.ids)
        return SourceAnswer(found, np.arange(first, first + len(self.ids)))


class Bulk(CompiledSource):
    """Rows loaded from arrays; ids are found by bisection."""

    def __init__(self, contents: Contents, vocabularies: Vocabularies) -> None:
        super().__init__(contents, vocabularies)
        ids = self.ids
        assert isinstance(ids, np.ndarray)
        is_ascending = bool((ids[1:] > ids[:-1]).all())
        self._order = None if is_ascending else np.argsort(ids, kind="stable")
        self._sorted = ids if self._order is None else ids[self._order]

    def match(self, attributes: Attributes) -> list[int]:
        """The ids that match one publication."""
        matched: list[int] = []
        for entry in self._entries:
            assert entry.ids is not None
            found = entry.part.find(attributes)
            if self.live < len(self.ids):
                found = found[self.kept[entry.numbers[found]]]
            matched += entry.ids.take(found).tolist()
        return matched

    def find(self, ids: Numbers) -> Numbers:
        """The numbers of those of the ids that are here."""
        places = np.searchsorted(self._sorted, ids)
        places = places[places < len(self._sorted)]
        places = places[np.isin(self._sorted[places], ids)]
        numbers = np.unique(places if self._order is None else self._order[places])
        return numbers[self.kept[numbers]]


def offsets_of(answers: Sequence[SourceAnswer], size: int) -> Numbers:
    """Return the offset of the answer to each of `size` publications, and the end of the last."""
    offsets = np.zeros(size + 1, np.int64)
    for found, _ in answers:
        offsets[1:] += found.counts
    return np.cumsum(offsets)


def copy_answers(answers: Sequence[SourceAnswer], offsets: Numbers, out: Numbers) -> None:
    """Put all names of each publication side by side."""
    cursor = offsets[:-1].copy()
    for found, names in answers:
        copy_ids(names, *found, cursor, out)


def _as_list(ids: Numbers | list[Hashable]) -> list[Hashable]:
    return ids.tolist() if isinstance(ids, np.ndarray) else ids


def _passed(
    tests: list[Test], batch: ColumnBatch, begin: int, found: CompiledMatches
) -> CompiledMatches:
    """Keep the members with further tests that the publications pass as well."""
    members: list[int] = []
    ends = [0]
    for point, (first, count) in enumerate(
        zip(found.begins.tolist(), found.counts.tolist(), strict=True)
    ):
        if count:
            attributes = batch.attributes(begin + point)
            candidates = found.members[first : first + count].tolist()
            members += [member for member in candidates if tests[member](attributes)]
        ends.append(len(members))
    offsets = np.array(ends, np.int64)
    return CompiledMatches(
        found.order, np.array(members, np.uint32), offsets[:-1], np.diff(offsets)
    )
