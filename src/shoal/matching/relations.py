"""Filters against filters: does one cover another, can both match the same publication?

A conjunction is a product: each attribute it names must lie in a set of values (absent, some
booleans, some numbers, some strings), and the attributes are independent.  So it covers another
exactly if each of its sets contains the other's, and they overlap exactly if no two sets are
disjoint.  Filters with OR are compared conjunction by conjunction: `overlaps` stays exact,
`covers` stays sound but may miss that several conjunctions cover one only together.

>>> from shoal.language import parse
>>> covers(parse("price > 5"), parse("price >= 6 AND symbol LIKE 'Y%'"))
True
>>> overlaps(parse("price > 5 AND price < 6"), parse("price = 5.5"))
True
>>> overlaps(parse("symbol LIKE '%X'"), parse("symbol LIKE 'Y%' AND symbol <> 'YX'"))
True
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from shoal.matching.compiled import RISING, shape, threshold
from shoal.matching.domains import END, after_prefix
from shoal.matching.ordered_sets import (
    NUMBERS,
    STRINGS,
    Domain,
    OrderedSet,
    intersection,
    is_empty,
    is_subset,
    ordered_set,
)
from shoal.matching.semantics import evaluate_predicate
from shoal.matching.string_search import AtLeast, Below, Like, OneOf, Wanted, exists
from shoal.model import Conjunction, Filter, Kind, Operator, Predicate
from shoal.model.like import Wildcard, elements

# Brokers ask about the same pairs again for each advertisement and subscription that comes by.
CACHED_PAIRS = 65_536
CACHED_FILTERS = 16_384
# Filters of many subscribers are made of the same few predicates.
CACHED_PREDICATES = 65_536


@lru_cache(CACHED_PAIRS)
def covers(f: Filter, g: Filter) -> bool:
    """Whether every publication that matches `g` matches `f`.

    True is always right.  False is exact when `f` is one conjunction, except where patterns are
    too intricate for `string_search`.
    """
    return regions_cover(_regions(f), _regions(g))


@lru_cache(CACHED_PAIRS)
def overlaps(f: Filter, g: Filter) -> bool:
    """Whether some publication matches both.

    False is always right.  True is exact, except where patterns are too intricate for
    `string_search`.
    """
    return any(_meet(left, right) for left in _regions(f) for right in _regions(g))


class Strings(NamedTuple):
    """Strings of an ordered set that also have, or have not, the shape of LIKE patterns."""

    ordered: OrderedSet
    shapes: frozenset[tuple[str, bool]] = frozenset()


class Values(NamedTuple):
    """What an attribute may be: absent, or a value of the three kinds."""

    absent: bool
    booleans: frozenset[bool]
    numbers: OrderedSet
    strings: Strings


Region = Mapping[str, Values]

# What a witness has in the place of each wildcard.
_FILLED = {Wildcard.ANY_RUN: "", Wildcard.ANY_ONE: "a"}

_BOTH = frozenset((False, True))
_NEITHER: frozenset[bool] = frozenset()
_ALL_NUMBERS = ordered_set(NUMBERS)
_NO_NUMBERS = ordered_set(NUMBERS, points=())
_ALL_STRINGS = Strings(ordered_set(STRINGS))
_NO_STRINGS = Strings(ordered_set(STRINGS, points=()))
_NOTHING = Values(False, _NEITHER, _NO_NUMBERS, _NO_STRINGS)
_ABSENT = _NOTHING._replace(absent=True)
_PRESENT = Values(False, _BOTH, _ALL_NUMBERS, _ALL_STRINGS)
_ANYTHING = _PRESENT._replace(absent=True)


def regions(filter: Filter) -> tuple[Region, ...]:
    """The product of each conjunction that some publication can match."""
    made = map(_region, filter.normal_form)
    return tuple(region for region in made if region is not None)


_regions = lru_cache(CACHED_FILTERS)(regions)


def regions_cover(outers: Sequence[Region], inners: Sequence[Region]) -> bool:
    """`covers`, for filters whose regions are at hand."""
    return all(any(_includes(outer, inner) for outer in outers) for inner in inners)


def _region(conjunction: Conjunction) -> Region | None:
    by_attribute: dict[str, tuple[Predicate, ...]] = {}
    for tested in conjunction:
        by_attribute[tested.attribute] = (*by_attribute.get(tested.attribute, ()), tested)
    region = {}
    for name, predicates in by_attribute.items():
        values = _values(predicates)
        if values is None:
            return None
        region[name] = values
    return region


@lru_cache(CACHED_PREDICATES)
def _values(predicates: tuple[Predicate, ...]) -> Values | None:
    """The values of one attribute for which all these predicates are TRUE; None for none."""
    values = _unchecked_values(predicates)
    return None if _is_nothing(values) else values


def _unchecked_values(predicates: Sequence[Predicate]) -> Values:
    kinds = {tested.kind for tested in predicates} - {None}
    if any(tested.operator is Operator.IS_NULL for tested in predicates):
        alone = all(tested.operator is Operator.IS_NULL for tested in predicates)
        return _ABSENT if alone else _NOTHING
    if not kinds:
        return _PRESENT
    if len(kinds) > 1:
        return _NOTHING
    compared = [tested for tested in predicates if tested.kind is not None]
    match kinds.pop():
        case Kind.NUMBER:
            return _NOTHING._replace(numbers=_ordered(NUMBERS, compared))
        case Kind.STRING:
            return _NOTHING._replace(strings=_strings(compared))
        case _:
            allowed = (
                value for value in _BOTH if all(evaluate_predicate(p, value) for p in compared)
            )
            return _NOTHING._replace(booleans=frozenset(allowed))


def _ordered(domain: Domain, predicates: Sequence[Predicate]) -> OrderedSet:
    low: Any = domain.lowest
    high: Any = END
    points: set[Any] | None = None
    excluded: set[Any] = set()
    for tested in predicates:
        operand: Any = tested.operand
        match tested.operator:
            case Operator.EQ:
                points = {operand} if points is None else points & {operand}
            case Operator.IN:
                points = set(operand) if points is None else points & set(operand)
            case Operator.NE:
                excluded.add(operand)
            case Operator.NOT_IN:
                excluded.update(operand)
            case operator if RISING[operator]:
                low = max(low, threshold(tested))
            case _:
                high = min(high, threshold(tested))
    return ordered_set(domain, low, high, points, excluded)


def _strings(predicates: Sequence[Predicate]) -> Strings:
    """LIKE becomes an interval or a point where it is one; other patterns stay as shapes."""
    simple: list[Predicate] = []
    shapes: set[tuple[str, bool]] = set()
    ordered = _ALL_STRINGS.ordered
    for tested in predicates:
        if tested.operator not in (Operator.LIKE, Operator.NOT_LIKE):
            simple.append(tested)
            continue
        wanted = tested.operator is Operator.LIKE
        pattern = tested.operand
        assert isinstance(pattern, str)
        plain = _plain_pattern(pattern, wanted=wanted)
        if plain is None:
            shapes.add((pattern, wanted))
        else:
            ordered = intersection(ordered, plain)
    if simple:
        ordered = intersection(ordered, _ordered(STRINGS, simple))
    return _settle(Strings(ordered, frozenset(shapes)))


def _plain_pattern(pattern: str, *, wanted: bool) -> OrderedSet | None:
    """The set of a pattern that is a text, a prefix or just `%`; None for all others."""
    match elements(pattern):
        case (Wildcard.ANY_RUN,):
            return (_ALL_STRINGS if wanted else _NO_STRINGS).ordered
        case (str(prefix), Wildcard.ANY_RUN) if wanted:
            return ordered_set(STRINGS, prefix, after_prefix(prefix))
        case () | (str(),) as parts:
            text = "".join(map(str, parts))
            points, excluded = ([text], ()) if wanted else (None, [text])
            return ordered_set(STRINGS, points=points, excluded=excluded)
    return None


def _settle(strings: Strings) -> Strings:
    """Without shapes where points alone say it."""
    points = strings.ordered.points
    if points is None or not strings.shapes:
        return strings
    kept = (
        point
        for point in points
        if all(shape(pattern)(point) is wanted for pattern, wanted in strings.shapes)
    )
    return Strings(strings.ordered._replace(points=frozenset(kept)))


def _is_nothing(values: Values) -> bool:
    return (
        not values.absent
        and not values.booleans
        and is_empty(values.numbers)
        and not _some_string(values.strings)
    )


def _some_string(strings: Strings) -> bool:
    if strings.shapes and not is_empty(strings.ordered):
        return exists(_constraints(strings)) is not False
    return not is_empty(strings.ordered)


def _constraints(strings: Strings) -> list[Wanted]:
    ordered = strings.ordered
    constraints: list[Wanted] = [(Like(pattern), wanted) for pattern, wanted in strings.shapes]
    if ordered.points is not None:
        return [*constraints, (OneOf(ordered.points), True)]
    if ordered.low:
        constraints.append((AtLeast(ordered.low), True))
    if ordered.high is not END:
        constraints.append((Below(ordered.high), True))
    if ordered.excluded:
        constraints.append((OneOf(ordered.excluded), False))
    return constraints


def _includes(outer: Region, inner: Region) -> bool:
    """Whether the product `outer` contains the product `inner`, which is not empty."""
    return all(_is_within(inner.get(name, _ANYTHING), values) for name, values in outer.items())


def _is_within(inner: Values, outer: Values) -> bool:
    # Values are remembered per predicate, so the same test in both is the same object.
    return inner is outer or (
        inner.absent <= outer.absent
        and inner.booleans <= outer.booleans
        and is_subset(inner.numbers, outer.numbers)
        and _strings_within(inner.strings, outer.strings)
    )


def _strings_within(inner: Strings, outer: Strings) -> bool:
    if outer.shapes <= inner.shapes and is_subset(inner.ordered, outer.ordered):
        return True
    if not inner.shapes and not outer.shapes:
        return False
    if inner.ordered.points is not None:
        return all(_holds(outer, point) for point in inner.ordered.points)
    example = witness(inner)
    if example is not None and not _holds(outer, example):
        return False
    return exists(_constraints(inner), breaking=_constraints(outer)) is False


def _holds(strings: Strings, text: str) -> bool:
    return text in strings.ordered and all(
        shape(pattern)(text) is wanted for pattern, wanted in strings.shapes
    )


@lru_cache(CACHED_PREDICATES)
def witness(strings: Strings) -> str | None:
    """A string of the set, if one is easily found: what lacks it does not contain the set."""
    tries = [
        "".join(part if isinstance(part, str) else _FILLED[part] for part in elements(pattern))
        for pattern, wanted in sorted(strings.shapes)
        if wanted
    ]
    tries += [strings.ordered.low, strings.ordered.low + "a"]
    return next((text for text in tries if _holds(strings, text)), None)


def _meet(left: Region, right: Region) -> bool:
    """Whether the products, neither of which is empty, have a publication in common."""
    return all(_share(values, right[name]) for name, values in left.items() if name in right)


def _share(left: Values, right: Values) -> bool:
    return (
        (left.absent and right.absent)
        or not left.booleans.isdisjoint(right.booleans)
        or _share_number(left.numbers, right.numbers)
        or _share_string(left.strings, right.strings)
    )


def _share_number(left: OrderedSet, right: OrderedSet) -> bool:
    if left is _NO_NUMBERS or right is _NO_NUMBERS:
        return False
    return not is_empty(intersection(left, right))


def _share_string(left: Strings, right: Strings) -> bool:
    if left is _NO_STRINGS or right is _NO_STRINGS:
        return False
    ordered = intersection(left.ordered, right.ordered)
    return _some_string(_settle(Strings(ordered, left.shapes | right.shapes)))
