"""Conjunctions of ranges, matched by bitmaps without a test of each.

A member is a bit. Bounds of the ranges on an attribute cut its values into steps, and each step has
a bitmap of the members with ranges that hold all of it, and one of those with ranges that hold any
of it; a bisection and two ANDs for each attribute leave the matches, and a few members to test
because a bound of theirs lies within a step. (Range-encoded bitmap indexes are O'Neil and Quass',
1997, with values and queries in each other's place.)

New members are tested one by one until that has cost as much as a block with them does; then they
enter one.  Members are named in the order in which they came.

>>> bitmaps = Bitmaps()
>>> bitmaps.add(("s1", 0), (PlaceInterval("a", (int, float), 1, 5),
...     PlaceInterval("b", (str,), "x", None)))
>>> bitmaps.search({"a": 4.5, "b": "y"}), bitmaps.search({"a": 5, "b": "y"})
(['s1'], [])
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Hashable, Sequence
from itertools import accumulate, islice
from math import ceil
from operator import xor
from typing import Any, NamedTuple

import numpy as np

from shoal.matching.domains import double_at_least, integer_at_least
from shoal.matching.filed.places import PlaceInterval
from shoal.matching.predicates import NUMBERS
from shoal.model import Attributes

# Members of a full block, and steps of an attribute: a step's bitmaps have 512 bytes each.
BLOCK = 4_096
STEPS = 512
# Members with many ranges stand in smaller blocks, so that none takes longer than 40 ms to make.
RANGES = 4 * BLOCK
# A range's share of that takes as long as so many tests of members.
TESTS_PER_RANGE = 6
# A block counts as so many tests when the index chooses the faster way: compiled parts, beyond 20
# blocks.
TESTS_PER_BLOCK = 50

# To look which of a block may match takes as long as so many tests of members.
TESTS_PER_LOOK = 3

# With no more bits than these, they are taken one by one.
FEW_BITS = 30

# Id of a filter, and number of the conjunction in it.
Key = tuple[Hashable, int]
_Get = Callable[[str], Any]


class _Member(NamedTuple):
    """A conjunction, and how many became members before it."""

    number: int
    id: Hashable
    ranges: tuple[PlaceInterval, ...]


class _BitmapColumn(NamedTuple):
    """An attribute: bounds of its steps by the type of values, and each step's bitmaps.

    `some` are the members with ranges that hold some values of the step, `all` those that hold all
    of it; the same list if no bound lies within a step.
    """

    name: str
    bounds: dict[type, list[Any]]
    some: list[int]
    all: list[int]


class _Block:
    """Members compiled; the bits of those that were not removed since are `live`."""

    __slots__ = ("columns", "ids", "live", "members")

    def __init__(self, members: Sequence[_Member]) -> None:
        self.members = members
        self.ids = [member.id for member in members]
        self.live = (1 << len(members)) - 1
        ranges = zip(*(member.ranges for member in members), strict=True)
        self.columns = [_column(each) for each in ranges]

    def __len__(self) -> int:
        return self.live.bit_count()

    def left(self) -> list[_Member]:
        """The members that were not removed."""
        return [self.members[bit] for bit in _bits(self.live)]

    def remove(self, number: int) -> None:
        """Remove this member from results."""
        self.live ^= 1 << bisect_left(self.members, number, key=_number)

    def found(self, get: _Get) -> int:
        """The bits of the members that match."""
        some = sure = self.live
        for name, bounds, some_of, all_of in self.columns:
            value = get(name)
            of_type = bounds.get(type(value))
            if of_type is None:
                return 0
            step = bisect_right(of_type, value)
            some &= some_of[step]
            sure &= all_of[step]
        if some != sure:
            for bit in _bits(some ^ sure):
                if _holds(self.members[bit].ranges, get):
                    sure |= 1 << bit
        return sure

    def most(self, get: _Get) -> int:
        """Return how many members match at most; none is tested."""
        some = self.live
        for name, bounds, some_of, _ in self.columns:
            value = get(name)
            of_type = bounds.get(type(value))
            if of_type is None:
                return 0
            some &= some_of[bisect_right(of_type, value)]
        return some.bit_count()

    def named(self, bits: int) -> list[Hashable]:
        """Their ids."""
        ids = self.ids
        return [ids[bit] for bit in _bits(bits)]


class _Members(NamedTuple):
    """Those compiled, and after them those to be tested one by one."""

    blocks: tuple[_Block, ...]
    young: dict[int, _Member]


class _Entering(NamedTuple):
    """The next compilation: a block that is not full, if there is one, and so many young members.

    `tests` is as how many that counts.
    """

    begun: tuple[_Block, ...]
    young: int
    tests: int


class Bitmaps:
    """Members with a range on each of the same attributes."""

    __slots__ = ("_made", "_members", "_numbers", "_spent", "_width")

    def __init__(self) -> None:
        self._width = 1
        # One value, as a search may replace it while another thread searches.
        self._members = _Members((), {})
        self._numbers: dict[Key, int] = {}
        self._made = 0
        # Tests of young members since some entered a block.
        self._spent = 0

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def _size(self) -> int:
        """Members of a full block."""
        return max(1, min(BLOCK, RANGES // self._width))

    @property
    def tests(self) -> int:
        """Return the cost of a search, in tests one by one, when all members are in blocks."""
        members = len(self._numbers)
        return min(members, TESTS_PER_BLOCK * ceil(members / self._size))

    def add(self, key: Key, ranges: tuple[PlaceInterval, ...]) -> None:
        """A conjunction that is not a member yet."""
        self._made += 1
        self._width = len(ranges)
        self._numbers[key] = self._made
        self._members.young[self._made] = _Member(self._made, key[0], ranges)

    def remove(self, key: Key) -> None:
        """KeyError if it is no member."""
        number = self._numbers.pop(key)
        blocks, young = self._members
        if young.pop(number, None) is not None:
            return
        at = bisect_right(blocks, number, key=_first) - 1
        block = blocks[at]
        block.remove(number)
        if 2 * len(block) <= len(block.members):
            # With its neighbours, as far as all fit: many blocks would be left with few members.
            end, size = at + 1, len(block)
            while at and size + len(blocks[at - 1]) <= self._size:
                at -= 1
                size += len(blocks[at])
            while end < len(blocks) and size + len(blocks[end]) <= self._size:
                size += len(blocks[end])
                end += 1
            left = [member for old in blocks[at:end] for member in old.left()]
            self._members = _Members((*blocks[:at], *_compiled(left), *blocks[end:]), young)

    def search(self, attributes: Attributes) -> list[Hashable]:
        """The ids of the members that match."""
        get = attributes.get
        if self._members.young:
            self._age()
        blocks, young = self._members
        found: list[Hashable] = []
        for block in blocks:
            bits = block.found(get)
            if bits:
                found += block.named(bits)
        if young:
            found += [member.id for member in young.values() if _holds(member.ranges, get)]
        return found

    @property
    def ids(self) -> list[Hashable]:
        """The ids of all members, in the order of an answer."""
        blocks, young = self._members
        found = [id for block in blocks for id in block.named(block.live)]
        return found + [member.id for member in young.values()]

    def weigh(self, get: _Get) -> tuple[int, int]:
        """Return how many tests a search is as much work as now, and how many it finds at most."""
        blocks, young = self._members
        entering = self._entering()
        tests = len(young) + TESTS_PER_LOOK * len(blocks)
        if young and self._spent + len(young) >= entering.tests:
            tests += entering.tests
        return tests, len(young) + sum(block.most(get) for block in blocks)

    def steps(self, get: _Get) -> list[int] | None:
        """Return a key of the matching members: equal for publications with the same matches.

        None while some are tested one by one.  Steps mean the same until a member comes or goes.
        """
        blocks, young = self._members
        return None if young else [block.found(get) for block in blocks]

    def _entering(self) -> _Entering:
        """Return the members to compile once tests of young members have cost as much."""
        blocks, young = self._members
        begun = blocks[-1:] if blocks and len(blocks[-1]) < self._size else ()
        size = sum(map(len, begun))
        count = min(len(young), self._size - size)
        return _Entering(begun, count, TESTS_PER_RANGE * self._width * (size + count))

    def _age(self) -> None:
        """Young members are to be tested; first some enter a block, if tests have cost as much."""
        blocks, young = self._members
        self._spent += len(young)
        begun, entering, tests = self._entering()
        if self._spent < tests:
            return
        self._spent = 0
        members = [member for block in begun for member in block.left()]
        members += islice(young.values(), entering)
        kept = blocks[: len(blocks) - len(begun)]
        later = dict(islice(young.items(), entering, None))
        self._members = _Members((*kept, *_compiled(members)), later)


def _compiled(members: Sequence[_Member]) -> tuple[_Block, ...]:
    return (_Block(members),) if members else ()


def _number(member: _Member) -> int:
    return member.number


def _first(block: _Block) -> int:
    return block.members[0].number


def _holds(ranges: tuple[PlaceInterval, ...], get: _Get) -> bool:
    """Return whether a publication's values lie in all ranges."""
    for name, types, low, high in ranges:
        value = get(name)
        if type(value) not in types:
            return False
        # NaN is below nothing, and so at least every bound, as it should be.
        if (low is not None and value < low) or (high is not None and not value < high):
            return False
    return True


def _column(ranges: Sequence[PlaceInterval]) -> _BitmapColumn:
    """Of the ranges on one attribute, bit by bit."""
    held = [
        (1 << bit, range.low, range.high)
        for bit, range in enumerate(ranges)
        if range.low is None or range.high is None or range.low < range.high
    ]
    every = sorted(bound for _, *both in held for bound in both if bound is not None)
    # One that many share is among them, and so does not lie within a step.
    apart = 1 if len(set(every)) <= STEPS else ceil(len(every) / STEPS)
    bounds = list(dict.fromkeys(every[::apart]))
    ends = len(bounds) + 1
    # At each step the bits that change there.
    some, all = ([0] * (ends + 1) for _ in range(2))
    for bit, low, high in held:
        some[0 if low is None else bisect_right(bounds, low)] ^= bit
        some[ends if high is None else bisect_left(bounds, high) + 1] ^= bit
        first = 0 if low is None else bisect_left(bounds, low) + 1
        last = ends if high is None else bisect_right(bounds, high)
        if first < last:
            all[first] ^= bit
            all[last] ^= bit
    name, types, _, _ = ranges[0]
    by_type: dict[type, list[Any]] = {str: bounds}
    if types == NUMBERS:
        # Each type is compared with its own: that of an integer with a double takes longer.
        by_type = {
            int: [integer_at_least(bound) for bound in bounds],
            float: [double_at_least(bound) for bound in bounds],
        }
    some_of, all_of = list(accumulate(some, xor)), list(accumulate(all, xor))
    return _BitmapColumn(name, by_type, some_of, some_of if some_of == all_of else all_of)


def _bits(bits: int) -> list[int]:
    """The numbers of the bits that are set, ascending."""
    if bits.bit_count() > FEW_BITS:
        read = np.frombuffer(bits.to_bytes(bits.bit_length() // 8 + 1, "little"), np.uint8)
        return np.flatnonzero(np.unpackbits(read, bitorder="little")).tolist()
    numbers = []
    while bits:
        lowest = bits & -bits
        numbers.append(lowest.bit_length() - 1)
        bits ^= lowest
    return numbers
