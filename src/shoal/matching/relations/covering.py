"""The covering set: of many filters, those that no other one covers.

A broker that forwards only these tells its neighbour all there is to know, because whatever
matches a filter also matches the one that covers it.  Each covered filter hangs under one that
covers it; when that one goes, those directly under it look for another place, and those that find
none are kept again.  Candidates come from a table of outlines (see `covering_candidates`), and
`relations.covers` has the last word.

Filters may come from strangers. With a bound on the number of filters directly under one, the
effect of its removal is bounded, too; with bounded work, a filter that cannot be placed any more is
kept, and placed when there is work to spare.

>>> from shoal.language import parse
>>> table = CoveringSet()
>>> table.add("s1", parse("symbol = 'A' AND price > 5"))
CoveringChange(kept=('s1',), dropped=())
>>> table.add("s2", parse("symbol = 'A'"))
CoveringChange(kept=('s2',), dropped=('s1',))
>>> table.coverer("s1"), len(table), list(table.kept)
('s2', 2, ['s2'])
>>> table.remove("s2")
CoveringChange(kept=('s1',), dropped=('s2',))
>>> covering_set([parse("price > 5"), parse("price > 6"), parse("price > 5.0")]) == [
...     parse("price > 5")]
True
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Iterator, Mapping
from itertools import islice
from types import MappingProxyType
from typing import Generic, NamedTuple, TypeVar

from shoal.matching.relations.covering_candidates import CoveringCandidates
from shoal.matching.relations.decisions import Region, regions_cover, remembered_regions
from shoal.matching.relations.outlines import outline
from shoal.matching.relations.string_search import MAX_WORK, Work
from shoal.model import Filter

# Work of finding a place, and of asking about a pair, beside the search.
_STEPS_A_REGION = 15
_STEPS_AN_ATTRIBUTE = 15
_STEPS_A_PAIR = 15
# Filters without a place yet: each change places up to so many, if work is left.
_PLACED_LATER = 32

Id = TypeVar("Id", bound=Hashable)


class CoveringChange(NamedTuple, Generic[Id]):
    """Change by one call: ids that are newly kept, and ids that are not kept any more.

    An id with a replaced filter may be among both.
    """

    kept: tuple[Id, ...]
    dropped: tuple[Id, ...]


def covering_set(filters: Iterable[Filter]) -> list[Filter]:
    """The filters that no other one covers, in the order given; of equal ones exactly one."""
    given = list(filters)
    table: CoveringSet[int] = CoveringSet()
    for number, filter in enumerate(given):
        table.add(number, filter)
    return [given[number] for number in sorted(table.kept)]


class _CoveringEntry(Generic[Id]):
    """One filter with all its ids, and the filters under it."""

    __slots__ = ("age", "covered", "coverer", "filter", "ids", "is_filed", "regions", "shown")

    def __init__(self, age: int, id: Id, filter: Filter) -> None:
        self.age = age
        self.filter = filter
        self.regions: tuple[Region, ...] = remembered_regions(filter)
        # the ids of this very filter; one of them is shown for all
        self.ids: dict[Id, None] = {id: None}
        self.shown = id
        self.coverer: _CoveringEntry[Id] | None = None
        self.covered: dict[_CoveringEntry[Id], None] = {}
        self.is_filed = False

    @property
    def steps(self) -> int:
        """Return the work of finding its place."""
        return sum(_STEPS_A_REGION + _STEPS_AN_ATTRIBUTE * len(each) for each in self.regions)


class CoveringSet(Generic[Id]):
    """Filters by id, of which those are kept that no other one covers.

    Of filters that cover each other exactly one is kept. The choice, and every order, depends only
    on the sequence of additions and removals. Adding takes about as long however many filters are
    covered; removing a kept one takes time for each filter directly under it.

    At most `most` filters hang directly under one, if it is given. Then, and if `work` is spent,
    one that another covers may be kept nevertheless.
    """

    def __init__(self, most: int | None = None) -> None:
        self._most = most
        self._by_id: dict[Id, _CoveringEntry[Id]] = {}
        self._by_filter: dict[Filter, _CoveringEntry[Id]] = {}
        self._kept: dict[Id, Filter] = {}
        self._candidates: CoveringCandidates[_CoveringEntry[Id]] = CoveringCandidates()
        # A filter that nothing can match is kept only while there is no other.
        self._nothing: _CoveringEntry[Id] | None = None
        # Kept filters without a place yet.
        self._unplaced: OrderedDict[_CoveringEntry[Id], None] = OrderedDict()
        self._ages = 0

    def __len__(self) -> int:
        """Return how many filters there are, kept or not."""
        return len(self._by_id)

    def __contains__(self, id: object) -> bool:
        return id in self._by_id

    def __iter__(self) -> Iterator[Id]:
        return iter(self._by_id)

    @property
    def kept(self) -> Mapping[Id, Filter]:
        """The covering set, in the order in which its members came to be kept."""
        return MappingProxyType(self._kept)

    def coverer(self, id: Id) -> Id:
        """Return the kept id with a filter that covers this one's: itself, if it is kept."""
        entry = self._by_id[id]
        while entry.coverer is not None:
            entry = entry.coverer
        return entry.shown

    def add(self, id: Id, filter: Filter, work: Work | None = None) -> CoveringChange[Id]:
        """Take in a filter, in place of the one under this id.

        FilterError for a filter with too large a normal form; nothing is changed then.
        """
        filter.normal_form  # noqa: B018  # computed here so that its error is met before any change
        changes = _Changes[Id](self._kept)
        if id in self._by_id:
            self._remove(id, changes, work)
        entry = self._by_filter.get(filter)
        if entry is not None:
            entry.ids[id] = None
        else:
            entry = _CoveringEntry(self._ages, id, filter)
            self._ages += 1
            self._by_filter[filter] = entry
            self._place(entry, changes, work)
        self._by_id[id] = entry
        self._place_later(changes, work)
        return changes.net()

    def remove(self, id: Id, work: Work | None = None) -> CoveringChange[Id]:
        """Forget a filter; KeyError if there is none under this id."""
        if id not in self._by_id:
            raise KeyError(id)
        changes = _Changes[Id](self._kept)
        self._remove(id, changes, work)
        self._place_later(changes, work)
        return changes.net()

    def _remove(self, id: Id, changes: _Changes[Id], work: Work | None) -> None:
        entry = self._by_id.pop(id)
        del entry.ids[id]
        if entry.ids:
            if entry.shown == id:
                self._show_another(entry, changes)
            return
        del self._by_filter[entry.filter]
        homeless = sorted(entry.covered, key=lambda each: each.age)
        coverer = entry.coverer
        if coverer is None:
            self._drop(entry, changes)
        else:
            del coverer.covered[entry]
        for each in homeless:
            each.coverer = None
            if coverer is not None and self._has_room(coverer):
                _hang(each, coverer)
            else:
                self._place(each, changes, work)

    def _has_room(self, entry: _CoveringEntry[Id]) -> bool:
        return self._most is None or len(entry.covered) < self._most

    def _show_another(self, entry: _CoveringEntry[Id], changes: _Changes[Id]) -> None:
        # Taken from the end: a dictionary finds its first key slowly after many removals there.
        successor, _ = entry.ids.popitem()
        entry.ids[successor] = None
        if entry.coverer is None:
            changes.drop(entry.shown)
            changes.keep(successor, entry.filter)
        entry.shown = successor

    def _place(self, entry: _CoveringEntry[Id], changes: _Changes[Id], work: Work | None) -> None:
        """Hang an entry under a kept one that covers it, or keep it and hang those under it that it
        covers.
        """
        if not entry.regions:
            self._place_nothing(entry, changes)
            return
        if work is not None and not work.spend(entry.steps):
            self._unplaced[entry] = None
            changes.keep(entry.shown, entry.filter)
            return
        outlines = tuple(map(outline, entry.regions))
        for each in self._candidates.containing(outlines, work):
            if self._has_room(each) and _covers(each, entry, work):
                _hang(entry, each)
                return
        covered: list[_CoveringEntry[Id]] = []
        for each in dict.fromkeys(self._candidates.within(outlines, work)):
            if self._most is not None and len(covered) + len(entry.covered) >= self._most:
                break
            if _covers(entry, each, work):
                covered.append(each)
        if self._nothing is not None:
            covered.append(self._nothing)
        for each in sorted(covered, key=lambda each: each.age):
            self._drop(each, changes)
            _hang(each, entry)
        self._candidates.add(entry, outlines)
        entry.is_filed = True
        changes.keep(entry.shown, entry.filter)

    def _place_later(self, changes: _Changes[Id], work: Work | None) -> None:
        """Look for places for some that had none."""
        for each in list(islice(self._unplaced, _PLACED_LATER)):
            if work is not None and work.left < each.steps:
                return
            self._drop(each, changes)
            self._place(each, changes, work)

    def _place_nothing(self, entry: _CoveringEntry[Id], changes: _Changes[Id]) -> None:
        """Hang an entry that nothing matches under whatever is kept."""
        if self._kept:
            _hang(entry, self._by_id[next(iter(self._kept))])
        else:
            self._nothing = entry
            changes.keep(entry.shown, entry.filter)

    def _drop(self, entry: _CoveringEntry[Id], changes: _Changes[Id]) -> None:
        """Take an entry out of those that are kept."""
        if entry is self._nothing:
            self._nothing = None
        elif entry.is_filed:
            self._candidates.remove(entry)
            entry.is_filed = False
        else:
            del self._unplaced[entry]
        changes.drop(entry.shown)


class _Changes(Generic[Id]):
    """Applies changes of the kept filters, and returns their net effect."""

    def __init__(self, kept: dict[Id, Filter]) -> None:
        self._kept = kept
        self._new: dict[Id, None] = {}
        self._old: dict[Id, Filter] = {}

    def keep(self, id: Id, filter: Filter) -> None:
        self._kept[id] = filter
        if self._old.get(id) == filter:
            del self._old[id]
        else:
            self._new[id] = None

    def drop(self, id: Id) -> None:
        filter = self._kept.pop(id)
        if id in self._new:
            del self._new[id]
        else:
            self._old[id] = filter

    def net(self) -> CoveringChange[Id]:
        return CoveringChange(tuple(self._new), tuple(self._old))


def _hang(entry: _CoveringEntry[Id], coverer: _CoveringEntry[Id]) -> None:
    entry.coverer = coverer
    coverer.covered[entry] = None


def _covers(one: _CoveringEntry[Id], other: _CoveringEntry[Id], work: Work | None) -> bool:
    if work is None:
        return regions_cover(one.regions, other.regions)
    if work.is_spent:
        return False
    asked = Work(min(MAX_WORK, work.left))
    answer = regions_cover(one.regions, other.regions, asked)
    work.spend(_STEPS_A_PAIR + asked.spent)
    return answer
