"""Places of values and filters on a dimension, and the segments that they meet.

A dimension is one searchable attribute.  Every value has a place on its line, a double, and a
filter has the ranges of places that its matches can have; a filter without a test of the attribute
has the whole line.  So a publication lies in one segment of each dimension, and every filter that
matches it meets that segment: the partition of subscriptions that the paper calls mPartition.

The paper leaves open, and this module decides:

- a publication without the attribute, or with a value of another kind, lies at the lowest place;
  a filter that such a publication can match (`IS NULL`, no test, a test of another kind) has a
  range there;
- a range that is open on one side ends where the line ends; NaN is the highest number;
- an OR of conjunctions has the ranges of each; a filter that nothing matches has none;
- strings lie in their order, by their first bytes; close strings share a place, and a filter's
  range then holds a little more than it must.

Nothing here knows of brokers; a job that spreads matching over executors can use it as it is.

>>> from shoal.language import parse
>>> speed = Dimension(attribute="speed", low=0, high=120)
>>> cuts = speed.cuts(6)
>>> cuts
(20.0, 40.0, 60.0, 80.0, 100.0)
>>> segments_met(cuts, speed.ranges(parse("speed >= 0 AND speed < 25 AND lat > 70")))
(0, 1)
>>> segment_at(cuts, speed.place({"speed": 20})), segment_at(cuts, speed.place({}))
(1, 0)

Source: Li et al., BlueDove, section III-A.
"""

from __future__ import annotations

import math
import sys
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from shoal.ledger import remembered
from shoal.matching.domains import Beyond, number_predecessor
from shoal.matching.relations.decisions import Values, remembered_regions
from shoal.matching.relations.ordered_sets import OrderedSet, is_empty
from shoal.model import Attributes, Filter

LOWEST = -math.inf
# Everything above lies here too, so that a segment that ends at infinity has it.
HIGHEST = sys.float_info.max

# A subscription's ranges are asked for wherever it is stored, passed on or rebuilt.
CACHED_RANGES = 16_384
# Of larger filters they are worked out each time, so that strangers cannot fill the memory.
CACHED_SIZE = 32

# As many bytes of a string as a double holds exactly: enough to order most of them.
_STRING_BYTES = 6


class Range(NamedTuple):
    """Places from `low` to `high`, both included."""

    low: float
    high: float


EVERYWHERE = (Range(LOWEST, HIGHEST),)
_ELSEWHERE = Range(LOWEST, LOWEST)


class Dimension(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One searchable attribute.

    attribute    its name
    low, high    where most values lie, both numbers or both strings (which makes it a dimension
                 of strings); equal segments divide this, the outermost reach beyond it
    boundaries   ends of the segments, ascending, instead of equal ones
    """

    attribute: str
    low: float | str = 0.0
    high: float | str = 1000.0
    boundaries: tuple[float | str, ...] = ()

    def __post_init__(self) -> None:
        where = f"dimension {self.attribute!r}"
        if not self.attribute:
            raise ValueError("dimension without an attribute")
        for value in (self.low, self.high, *self.boundaries):
            if isinstance(value, str) is not self.is_text:
                raise ValueError(f"{where}: {value!r} is not a {self._kind} like low {self.low!r}")
            if not isinstance(value, str) and not math.isfinite(value):
                raise ValueError(f"{where}: {value!r} is no boundary")
        if not place_of(self.low) < place_of(self.high):
            raise ValueError(f"{where}: low {self.low!r} is not below high {self.high!r}")
        places = [place_of(value) for value in self.boundaries]
        if any(right <= left for left, right in pairwise(places)):
            raise ValueError(f"{where}: boundaries {list(self.boundaries)} do not ascend")

    @property
    def is_text(self) -> bool:
        return isinstance(self.low, str)

    @property
    def _kind(self) -> str:
        return "string" if self.is_text else "number"

    def place(self, attributes: Attributes) -> float:
        """Return the place of a publication."""
        value = attributes.get(self.attribute)
        kind = type(value)
        if kind is str if self.is_text else (kind is float or kind is int):
            return place_of(value)  # type: ignore[arg-type]  # neither None nor a boolean
        return LOWEST

    def ranges(self, filter: Filter) -> tuple[Range, ...]:
        """Return the ranges of a filter's publications; apart, ascending."""
        find = _cached_ranges if filter.size <= CACHED_SIZE else _ranges
        return find(filter, self.attribute, self.is_text)

    def cuts(self, count: int) -> tuple[float, ...]:
        """The places that divide the line into `count` segments: equal ones, or as given."""
        if self.boundaries:
            if len(self.boundaries) != count - 1:
                given = len(self.boundaries)
                raise ValueError(
                    f"dimension {self.attribute!r}: {given} boundaries make {given + 1} segments, "
                    f"not {count}"
                )
            return tuple(place_of(value) for value in self.boundaries)
        return uniform_cuts(place_of(self.low), place_of(self.high), count)


def _ranges(filter: Filter, attribute: str, is_text: bool) -> tuple[Range, ...]:
    found: list[Range] = []
    for region in remembered_regions(filter):
        values = region.get(attribute)
        if values is None:
            return EVERYWHERE
        found += _ranges_of_values(values, is_text)
    return _merged(found)


_cached_ranges = remembered("ranges of filters", most=CACHED_RANGES, bytes_each=1_500)(_ranges)


def _ranges_of_values(values: Values, is_text: bool) -> Iterable[Range]:
    numbers, strings = values.numbers, values.strings.ordered
    own, other = (strings, numbers) if is_text else (numbers, strings)
    if values.absent or values.booleans or not is_empty(other):
        yield _ELSEWHERE
    if own.points is not None:
        for point in own.points:
            place = place_of(point)
            yield Range(place, place)
    else:
        yield Range(place_of(own.low), _last_place(own))


def place_of(value: float | str) -> float:
    """A number's or a string's place; never lower for the greater of two."""
    if isinstance(value, str):
        # A character has at least one byte, so those beyond cannot matter.
        head = value[:_STRING_BYTES].encode("utf-8", "surrogatepass")[:_STRING_BYTES]
        return float(int.from_bytes(head.ljust(_STRING_BYTES, b"\0")))
    # NaN is not below anything, and so comes out highest.
    return float(value) if value < HIGHEST else HIGHEST


def _last_place(values: OrderedSet) -> float:
    """Of an interval that is not empty."""
    if isinstance(values.high, str):
        return place_of(values.high)  # most strings have no nearest below
    if isinstance(values.high, Beyond):
        return HIGHEST
    last = number_predecessor(values.high)
    assert last is not None
    assert not isinstance(last, Beyond)
    return place_of(last)


def _merged(ranges: list[Range]) -> tuple[Range, ...]:
    """The same places in ranges that do not meet, ascending."""
    merged: list[Range] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1].high:
            merged[-1] = Range(merged[-1].low, max(merged[-1].high, high))
        else:
            merged.append(Range(low, high))
    return tuple(merged)


# --- segments ---------------------------------------------------------------------------------


def segment_at(cuts: Sequence[float], place: float) -> int:
    """The number of the segment that has a place: segment i ends before `cuts[i]`.

    For many places at once: `numpy.searchsorted(cuts, places, side="right")`.
    """
    return bisect_right(cuts, place)


def segments_met(cuts: Sequence[float], ranges: Iterable[Range]) -> tuple[int, ...]:
    """The numbers of the segments that ranges, apart and ascending, meet; ascending."""
    met: list[int] = []
    for low, high in ranges:
        first = bisect_right(cuts, low)
        if met and met[-1] == first:
            first += 1
        met += range(first, bisect_right(cuts, high) + 1)
    return tuple(met)


def uniform_cuts(low: float, high: float, count: int) -> tuple[float, ...]:
    """The places that divide `low` to `high` into equal segments."""
    if count < 1:
        raise ValueError(f"{count} segments")
    return tuple(low + (high - low) * number / count for number in range(1, count))


def quantile_cuts(places: npt.ArrayLike, count: int) -> tuple[float, ...]:
    """The places that divide a sample into segments of equal numbers, as far as values allow.

    Cuts between many equal values would coincide: such a cut is made once, and there are fewer
    segments.

    >>> quantile_cuts([1, 2, 3, 4, 5, 6, 7, 8], 4), quantile_cuts([5, 5, 5, 5, 9], 3)
    ((3.0, 5.0, 7.0), (9.0,))
    """
    if count < 1:
        raise ValueError(f"{count} segments")
    ordered = np.sort(np.asarray(places, np.float64))
    if not len(ordered):
        raise ValueError("no places to take quantiles of")
    cuts: list[float] = []
    for number in range(1, count):
        cut = float(ordered[len(ordered) * number // count])
        if cut == ordered[0] or (cuts and cut <= cuts[-1]):
            # A cut at or before the last one would leave a segment empty: the next value up.
            above = np.searchsorted(ordered, cuts[-1] if cuts else cut, side="right")
            if above == len(ordered):
                break
            cut = float(ordered[above])
        cuts.append(cut)
    return tuple(cuts)
