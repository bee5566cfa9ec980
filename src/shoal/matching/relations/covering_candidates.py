"""Candidates of regions that may contain a region, or lie within it, without asking each.

A region that contains another fixes no attribute that the other does not fix to the same value,
asks for no attribute that the other leaves open, and has the wider bounds on every other one. So
regions are filed by the attributes they fix (`symbol = 'YHOO'`), then by those they bound, and
within those a table of bounds is compared at once. Every answer is a superset of the truth in a
definite order; `relations.regions_cover` decides about a candidate.

Finding candidates takes work, too: filters of strangers may each fix different attributes. Once the
given work is spent, no more are found.

>>> from shoal.language import parse
>>> from shoal.matching.relations.outlines import outline
>>> from shoal.matching.relations.decisions import regions
>>> table = CoveringCandidates()
>>> for text in ("symbol = 'A'", "symbol = 'A' AND price > 5", "symbol = 'B'", "price > 5"):
...     table.add(text, [outline(region) for region in regions(parse(text))])
>>> (narrow,) = [outline(region) for region in regions(parse("symbol = 'A' AND price > 6"))]
>>> list(table.containing([narrow]))
['price > 5', "symbol = 'A'", "symbol = 'A' AND price > 5"]
>>> (wide,) = [outline(region) for region in regions(parse("symbol = 'A'"))]
>>> list(table.within([wide]))
["symbol = 'A'", "symbol = 'A' AND price > 5"]
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from operator import le
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from shoal.matching.relations.outlines import (
    INFINITY,
    SHAPE,
    STRING,
    Bounds,
    Fixed,
    Outline,
    bounds_of,
    inner_bounds,
    may_fix,
    may_hold,
    suits,
)
from shoal.matching.relations.string_search import Work

Entry = TypeVar("Entry", bound=Hashable)
Key = TypeVar("Key")
Member = TypeVar("Member")


class _TableKey(NamedTuple):
    """The common part of a table's rows: attributes, and kinds of their bounds.

    One region of each entry is representative: it stands for the entry as the covered side.
    """

    is_representative: bool
    kinds: tuple[tuple[str, str], ...]


# Tables of fewer rows are not compared: asking about each row takes no longer.
COMPARED_ROWS = 16

# Work of inspecting a bucket, and a table of it; number of bounds compared in one step.
_STEPS_A_BUCKET = 6
_STEPS_A_TABLE = 12
_BOUNDS_A_STEP = 250
# Buckets that are counted, and not looked at, in one step.
_COUNTED_A_STEP = 8


class _Table(Generic[Entry]):
    """Regions that fix the same and bound the same attributes: a row of bounds each.

    A row is the lower bounds and then the negated upper ones, so that a region lies within
    another where its row is nowhere the lesser.
    """

    def __init__(self, kinds: dict[str, str]) -> None:
        self.kinds = kinds
        self.columns = {name: at for at, name in enumerate(kinds)}
        self._at: dict[tuple[Entry, int], int] = {}
        self._keys: list[tuple[Entry, int]] = []
        self._bounds: list[tuple[float, ...]] = []
        # The same bounds once more, a column per row, where there are many.
        self._array: npt.NDArray[np.float64] | None = None

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def steps(self) -> int:
        """Return the work of comparing all rows at once."""
        return (
            _STEPS_A_TABLE + len(self.kinds) + len(self._keys) * len(self.kinds) // _BOUNDS_A_STEP
        )

    def add(self, key: tuple[Entry, int], bounds: tuple[float, ...]) -> None:
        at = len(self._keys)
        self._at[key] = at
        self._keys.append(key)
        self._bounds.append(bounds)
        if self._array is not None and at < self._array.shape[1]:
            self._array[:, at] = bounds
        elif bounds and at >= COMPARED_ROWS:
            self._array = np.empty((len(bounds), 2 * at + 2))
            self._array[:, : at + 1] = np.array(self._bounds).T

    def remove(self, key: tuple[Entry, int]) -> None:
        """The last row takes the place of the one that goes."""
        at = self._at.pop(key)
        last_key, last_bounds = self._keys.pop(), self._bounds.pop()
        if last_key != key:
            self._at[last_key] = at
            self._keys[at], self._bounds[at] = last_key, last_bounds
            if self._array is not None:
                self._array[:, at] = last_bounds
        if self._array is not None and 4 * len(self._keys) < self._array.shape[1]:
            self._array = None

    def containing(self, limits: Sequence[float]) -> Iterator[Entry]:
        """The rows nowhere greater than the limits."""
        if self._array is None:
            for (entry, _), bounds in zip(self._keys, self._bounds, strict=True):
                if all(map(le, bounds, limits)):
                    yield entry
            return
        compared = self._array[:, : len(self._keys)] <= np.array(limits)[:, np.newaxis]
        for at in np.flatnonzero(compared.all(axis=0)).tolist():
            yield self._keys[at][0]

    def within(self, columns: Sequence[int], limits: Sequence[float]) -> Iterator[Entry]:
        """The rows nowhere less than the limits, of these columns."""
        if self._array is None or not columns:
            for (entry, _), bounds in zip(self._keys, self._bounds, strict=True):
                if all(bounds[at] >= limit for at, limit in zip(columns, limits, strict=True)):
                    yield entry
            return
        compared = self._array[columns, : len(self._keys)] >= np.array(limits)[:, np.newaxis]
        for at in np.flatnonzero(compared.all(axis=0)).tolist():
            yield self._keys[at][0]


class _Bucket(Generic[Entry]):
    """All regions that fix the same attributes to the same."""

    def __init__(self, fixed: dict[str, Fixed], anchor: Fixed | None) -> None:
        self.fixed = fixed
        self.anchor = anchor
        self.size = 0
        self._tables: dict[_TableKey, _Table[Entry]] = {}
        # The tables under the first name they bound, and the representative ones under each name;
        # None stands for no name, and for any.
        self._by_first: dict[str | None, dict[_TableKey, _Table[Entry]]] = {}
        self._by_name: dict[str | None, dict[_TableKey, _Table[Entry]]] = {}

    def add(self, key: _TableKey, entry: Entry, number: int, bounds: tuple[float, ...]) -> None:
        table = self._tables.get(key)
        if table is None:
            table = self._tables[key] = _Table(dict(key.kinds))
            for index, name in self._places(key):
                index.setdefault(name, {})[key] = table
        table.add((entry, number), bounds)
        self.size += 1

    def remove(self, key: _TableKey, entry: Entry, number: int) -> None:
        table = self._tables[key]
        table.remove((entry, number))
        self.size -= 1
        if not len(table):
            del self._tables[key]
            for index, name in self._places(key):
                _discard(index, name, key)

    def _places(
        self, key: _TableKey
    ) -> Iterator[tuple[dict[str | None, dict[_TableKey, _Table[Entry]]], str | None]]:
        names = [name for name, _ in key.kinds]
        yield self._by_first, names[0] if names else None
        if key.is_representative:
            for name in (None, *names):
                yield self._by_name, name

    def containing(self, inner: Outline, work: Work | None) -> Iterator[Entry]:
        """The entries of rows that may contain a region."""
        for fixed in self.fixed.values():
            if not may_fix(fixed, inner):
                return
        for first in (None, *inner.fixed, *inner.bounds):
            for table in self._by_first.get(first, {}).values():
                if not _spend(work, table.steps):
                    return
                held = [inner_bounds(inner, name) for name in table.kinds]
                if all(
                    bounds is not None and suits(kind, bounds.kind)
                    for kind, bounds in zip(table.kinds.values(), held, strict=True)
                ):
                    yield from table.containing(_row_of(bounds for bounds in held if bounds))

    def within(self, outer: Outline, work: Work | None) -> Iterator[Entry]:
        """The entries of representative rows that may lie within a region."""
        demanded = dict(outer.bounds)
        inner = Outline(self.fixed, {})
        for fixed in outer.fixed.values():
            if fixed.attribute in self.fixed or fixed.kind != SHAPE:
                if not may_fix(fixed, inner):
                    return
            else:
                demanded[fixed.attribute] = Bounds(STRING, -INFINITY, INFINITY)
        for name in [name for name in demanded if name in self.fixed]:
            if not may_hold(demanded.pop(name), bounds_of(self.fixed[name])):
                return
        limits = _row_of(demanded.values())
        named = [self._by_name.get(name, {}) for name in (None, *demanded)]
        for table in min(named, key=len).values():
            if not _spend(work, table.steps):
                return
            if all(
                name in table.kinds and suits(bounds.kind, table.kinds[name])
                for name, bounds in demanded.items()
            ):
                lows = [table.columns[name] for name in demanded]
                highs = [at + len(table.kinds) for at in lows]
                yield from table.within(lows + highs, limits)


def _spend(work: Work | None, steps: int) -> bool:
    """Return whether there was enough left, if there is a bound."""
    return work is None or work.spend(steps)


def _row_of(bounds: Iterable[Bounds]) -> tuple[float, ...]:
    together = list(bounds)
    return (*(each.low for each in together), *(-each.high for each in together))


class CoveringCandidates(Generic[Entry]):
    """Entries by the outlines of their regions, an entry having one or several."""

    def __init__(self) -> None:
        # Of each entry, that which is likely to be found least often first: the representative.
        self._outlines: dict[Entry, tuple[Outline, ...]] = {}
        self._buckets: dict[tuple[Fixed, ...], _Bucket[Entry]] = {}
        # Each bucket under everything it fixes; and under one of these, the rarest at the time.
        self._fixing: dict[Fixed, dict[_Bucket[Entry], None]] = {}
        self._anchored: dict[Fixed, dict[_Bucket[Entry], None]] = {}
        self._anchored_strings: dict[str, dict[_Bucket[Entry], None]] = {}

    def add(self, entry: Entry, outlines: Sequence[Outline]) -> None:
        """File an entry that is not there yet."""
        arranged = tuple(sorted(outlines, key=self._alike))
        self._outlines[entry] = arranged
        for number, each in enumerate(arranged):
            bucket = self._buckets.get(tuple(each.fixed.values()))
            if bucket is None:
                bucket = self._open(each.fixed)
            key = _TableKey(number == 0, _kinds(each))
            bucket.add(key, entry, number, _row_of(each.bounds.values()))

    def remove(self, entry: Entry) -> None:
        """Forget an entry."""
        for number, each in enumerate(self._outlines.pop(entry)):
            bucket = self._buckets[tuple(each.fixed.values())]
            bucket.remove(_TableKey(number == 0, _kinds(each)), entry, number)
            if not bucket.size:
                self._close(bucket)

    def containing(self, outlines: Sequence[Outline], work: Work | None = None) -> Iterator[Entry]:
        """Entries that may cover one with these outlines, some perhaps more than once."""
        inner = outlines[0] if len(outlines) == 1 else self._narrowest(outlines, work)
        for buckets in self._wide_buckets(inner):
            for bucket in buckets:
                if not _spend(work, _STEPS_A_BUCKET):
                    return
                yield from bucket.containing(inner, work)

    def within(self, outlines: Sequence[Outline], work: Work | None = None) -> Iterator[Entry]:
        """Entries that one with these outlines may cover, some perhaps more than once."""
        for outer in outlines:
            steps = _STEPS_A_BUCKET + len(outer.bounds)
            for bucket in self._narrow_buckets(outer):
                if not _spend(work, steps):
                    return
                yield from bucket.within(outer, work)

    def _alike(self, each: Outline) -> tuple[int, int]:
        """About how many regions would be found beside this one."""
        bucket = self._buckets.get(tuple(each.fixed.values()))
        counts = [len(self._fixing.get(fixed, ())) for fixed in each.fixed.values()]
        return 0 if bucket is None else bucket.size, min(counts, default=len(self._buckets))

    def _open(self, fixed: dict[str, Fixed]) -> _Bucket[Entry]:
        anchor = min(fixed.values(), key=lambda each: len(self._fixing.get(each, ())), default=None)
        bucket = self._buckets[tuple(fixed.values())] = _Bucket(fixed, anchor)
        for each in fixed.values():
            self._fixing.setdefault(each, {})[bucket] = None
        if anchor is not None:
            self._anchored.setdefault(anchor, {})[bucket] = None
            if anchor.kind in (STRING, SHAPE):
                self._anchored_strings.setdefault(anchor.attribute, {})[bucket] = None
        return bucket

    def _close(self, bucket: _Bucket[Entry]) -> None:
        del self._buckets[tuple(bucket.fixed.values())]
        for each in bucket.fixed.values():
            _discard(self._fixing, each, bucket)
        if bucket.anchor is not None:
            _discard(self._anchored, bucket.anchor, bucket)
            if bucket.anchor.kind in (STRING, SHAPE):
                _discard(self._anchored_strings, bucket.anchor.attribute, bucket)

    def _wide_buckets(self, inner: Outline) -> Iterator[Iterable[_Bucket[Entry]]]:
        """Yield all buckets with regions that may contain a region, by anchors; each bucket
        once.
        """
        nothing_fixed = self._buckets.get(())
        if nothing_fixed is not None:
            yield (nothing_fixed,)
        for fixed in inner.fixed.values():
            if fixed.kind == SHAPE and fixed.attribute not in inner.witnesses:
                yield self._anchored_strings.get(fixed.attribute, ())
                continue
            if fixed.kind == SHAPE:
                text = inner.witnesses[fixed.attribute]
                yield self._anchored.get(Fixed(fixed.attribute, STRING, text), ())
            yield self._anchored.get(fixed, ())
            if fixed.kind == STRING:
                yield self._anchored.get(Fixed(fixed.attribute, SHAPE, None), ())
        for name, bounds in inner.bounds.items():
            if bounds.kind == STRING:
                yield self._anchored.get(Fixed(name, SHAPE, None), ())

    def _narrowest(self, outlines: Sequence[Outline], work: Work | None) -> Outline:
        """Return the outline with the fewest conditions: a cover of all of them contains any
        one.
        """
        best, fewest = outlines[0], -1
        for each in outlines:
            sizes = [bucket.size for buckets in self._wide_buckets(each) for bucket in buckets]
            if fewest < 0 or sum(sizes) < fewest:
                best, fewest = each, sum(sizes)
            if not _spend(work, 1 + len(sizes) // _COUNTED_A_STEP):
                break
        return best

    def _narrow_buckets(self, outer: Outline) -> Iterable[_Bucket[Entry]]:
        """Return buckets that include all regions that may lie within a region."""
        fewest: Iterable[_Bucket[Entry]] = self._buckets.values()
        size = len(self._buckets)
        for fixed in outer.fixed.values():
            if fixed.kind == SHAPE:
                continue
            fixing = self._fixing.get(fixed, {})
            shaped = self._fixing.get(Fixed(fixed.attribute, SHAPE, None), {})
            alike = shaped if fixed.kind == STRING else {}
            if len(fixing) + len(alike) < size:
                fewest, size = (*fixing, *alike), len(fixing) + len(alike)
        return fewest


def _kinds(each: Outline) -> tuple[tuple[str, str], ...]:
    return tuple((name, bounds.kind) for name, bounds in each.bounds.items())


def _discard(index: dict[Key, dict[Member, Any]], key: Key, member: Member) -> None:
    del index[key][member]
    if not index[key]:
        del index[key]
