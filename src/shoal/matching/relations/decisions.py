"""Filters against filters: does one cover another, can both match the same publication?

A conjunction is a product: each attribute it names must lie in a set of values (absent, some
booleans, some numbers, some strings), and the attributes are independent.  So it covers another
exactly if each of its sets contains the other's, and they overlap exactly if no two sets are
disjoint.  Filters with OR are compared conjunction by conjunction: `overlaps` stays exact,
`covers` stays sound but may miss that several conjunctions cover one only together.

Filters come from strangers, so the work of one question is bounded (`string_search.MAX_WORK`, some
25 ms): an undecided pair may overlap, and is not covered. For questions about many filters at once,
their total work is bounded, too (`Work`).

>>> from shoal.language import parse
>>> covers(parse("price > 5"), parse("price >= 6 AND symbol LIKE 'Y%'"))
True
>>> overlaps(parse("price > 5 AND price < 6"), parse("price = 5.5"))
True
>>> overlaps(parse("symbol LIKE '%X'"), parse("symbol LIKE 'Y%' AND symbol <> 'YX'"))
True
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from shoal.ledger import remembered
from shoal.matching.domains import END
from shoal.matching.predicates import RISING, threshold
from shoal.matching.relations.ordered_sets import (
    NUMBERS,
    STRINGS,
    Domain,
    OrderedSet,
    intersection,
    is_empty,
    is_subset,
    ordered_set,
)
from shoal.matching.relations.string_search import MAX_WORK, Work
from shoal.matching.relations.string_sets import (
    ALL_STRINGS,
    NO_STRINGS,
    Strings,
    plain_pattern,
    settle,
    share_string,
    some_string,
    strings_within,
)
from shoal.matching.semantics import evaluate_predicate
from shoal.model import Conjunction, Filter, Kind, Operator, Predicate

# Brokers ask about the same pairs again for each advertisement and subscription that comes by.
CACHED_PAIRS = 8_192
CACHED_FILTERS = 8_192
# Filters of many subscribers are made of the same few predicates.
CACHED_PREDICATES = 8_192
# Pairs of filters larger than this together are asked about anew each time, so that strangers
# cannot fill the memory with them.
CACHED_SIZE = 32
# Work of a question without a search.
_STEPS_A_PAIR = 15


def covers(f: Filter, g: Filter) -> bool:
    """Return whether every publication that matches `g` matches `f`.

    True is always right.  False is exact when `f` is one conjunction, except where the answer
    needs more than MAX_WORK.
    """
    return (_cached_covers if f.size + g.size <= CACHED_SIZE else _covers)(f, g)


def overlaps(f: Filter, g: Filter, work: Work | None = None) -> bool:
    """Return whether some publication matches both.

    False is always right.  True is exact, except where the answer needs more than MAX_WORK, or
    `work`, of which each question takes some, was spent before.
    """
    if work is not None and work.is_spent:
        return True
    answer, steps = (_cached_overlaps if f.size + g.size <= CACHED_SIZE else _overlaps)(f, g)
    if work is not None:
        # The same whether it was remembered or not.
        work.spend(_STEPS_A_PAIR + steps)
    return answer


def prepare(f: Filter) -> None:
    """Compute the parts of an answer that depend on one filter alone, before there are many
    questions.
    """
    remembered_regions(f)


def _covers(f: Filter, g: Filter) -> bool:
    return regions_cover(remembered_regions(f), remembered_regions(g))


def _overlaps(f: Filter, g: Filter) -> tuple[bool, int]:
    """The answer, and the steps of work that it took."""
    work = Work()
    # If one filter has no condition on an attribute, the two cannot differ in it.
    found = _partners(
        remembered_regions(f),
        remembered_regions(g),
        None,
        lambda one, other: _share(one, other, work),
        work,
    )
    return any(each is not False for each in found), work.spent


# A pair keeps its filters alive, one of which may have no other user.
_cached_covers = remembered("pairs that cover", most=CACHED_PAIRS, bytes_each=1_500)(_covers)
_cached_overlaps = remembered("pairs that overlap", most=CACHED_PAIRS, bytes_each=1_500)(_overlaps)


class Values(NamedTuple):
    """Possible values of an attribute: absent, or a value of the three kinds."""

    absent: bool
    booleans: frozenset[bool]
    numbers: OrderedSet
    strings: Strings


Region = Mapping[str, Values]

# So many points of a set are worth one step of work, and so many attributes of a region.
_POINTS_A_STEP = 8
_ATTRIBUTES_A_STEP = 4

_BOTH = frozenset((False, True))
_NEITHER: frozenset[bool] = frozenset()
_ALL_NUMBERS = ordered_set(NUMBERS)
_NO_NUMBERS = ordered_set(NUMBERS, points=())
_NOTHING = Values(False, _NEITHER, _NO_NUMBERS, NO_STRINGS)
_ABSENT = _NOTHING._replace(absent=True)
_PRESENT = Values(False, _BOTH, _ALL_NUMBERS, ALL_STRINGS)
_ANYTHING = _PRESENT._replace(absent=True)


def regions(filter: Filter) -> tuple[Region, ...]:
    """The product of each conjunction that some publication can match."""
    find = _cached_values if filter.size <= CACHED_SIZE else _values
    asked = list(map(_by_attribute, filter.normal_form))
    searched = {
        key for each in asked for key, tests in each.values() if any(map(_is_pattern, tests))
    }
    # The same for each, so that remembered answers about predicates depend on nothing else.
    steps = MAX_WORK >> max(0, len(searched) - 1).bit_length()
    made: dict[_Key, Values | None] = {}
    found = []
    for each in asked:
        region = {}
        for name, (key, tests) in each.items():
            if key not in made:
                made[key] = find(tests, steps if key in searched else MAX_WORK)
            values = made[key]
            if values is None:
                break
            region[name] = values
        else:
            found.append(region)
    return tuple(found)


_cached_regions = remembered("regions of filters", most=CACHED_FILTERS, bytes_each=2_000)(regions)
# Of large filters, only while there are such filters.
_large_regions: WeakKeyDictionary[Filter, tuple[Region, ...]] = WeakKeyDictionary()


def remembered_regions(filter: Filter) -> tuple[Region, ...]:
    """`regions`, made once for a filter that is asked about again."""
    if filter.size <= CACHED_SIZE:
        return _cached_regions(filter)
    made = _large_regions.get(filter)
    if made is None:
        made = _large_regions[filter] = regions(filter)
    return made


def regions_cover(
    outers: Sequence[Region], inners: Sequence[Region], work: Work | None = None
) -> bool:
    """`covers`, for filters with regions at hand, with this much work."""
    work = Work() if work is None else work
    if len(outers) == 1 and len(inners) == 1:  # most filters, so this is quick
        [outer], [inner] = outers, inners
        return all(
            _is_within(inner.get(name, _ANYTHING), values, work) for name, values in outer.items()
        )
    found = _partners(
        inners, outers, _ANYTHING, lambda inner, outer: _is_within(inner, outer, work), work
    )
    return all(each is True for each in found)


def _partners(
    lefts: Sequence[Region],
    rights: Sequence[Region],
    missing: Values | None,
    suits: Callable[[Values, Values], bool],
    work: Work,
) -> Iterator[bool | None]:
    """Return whether there is a right region, for each left one, that suits it in every attribute.

    `missing` stands for attributes that a left region leaves open; None there suits everything. The
    same two sets of values are compared once, however many regions have them. None, and no more,
    when the work is spent.
    """
    known: dict[tuple[str, int], int] = {}
    everyone = (1 << len(rights)) - 1
    # By attribute: its values, each with bits for the regions that have just these.
    values_of: dict[str, dict[int, tuple[Values, int]]] = {}
    for number, right in enumerate(rights):
        for name, values in right.items():
            same = values_of.setdefault(name, {})
            same[id(values)] = (values, same.get(id(values), (values, 0))[1] | 1 << number)
    if not work.spend(sum(map(len, rights)) // _ATTRIBUTES_A_STEP):
        yield None
        return
    for left in lefts:
        if not work.spend(1 + len(values_of) // _ATTRIBUTES_A_STEP):
            yield None
            return
        suited = everyone
        for name, several in values_of.items():
            mine = left.get(name, missing)
            if mine is None:
                continue
            found = known.get((name, id(mine)))
            if found is None:
                found = everyone
                for values, having in several.values():
                    if not suits(mine, values):
                        found &= ~having
                known[name, id(mine)] = found
                if work.is_spent:
                    yield None
                    return
            suited &= found
            if not suited:
                break
        yield bool(suited)


# Tests of one attribute, by their identities: a normal form has each predicate once.
_Key = tuple[int, ...]


def _by_attribute(conjunction: Conjunction) -> dict[str, tuple[_Key, tuple[Predicate, ...]]]:
    several: dict[str, list[Predicate]] = {}
    for tested in conjunction:
        several.setdefault(tested.attribute, []).append(tested)
    return {name: (tuple(map(id, tests)), tuple(tests)) for name, tests in several.items()}


def _is_pattern(tested: Predicate) -> bool:
    return tested.operator in (Operator.LIKE, Operator.NOT_LIKE)


def _values(predicates: tuple[Predicate, ...], steps: int) -> Values | None:
    """The values of one attribute for which all these predicates are TRUE; None for none.

    The search for strings of several patterns has so many steps of work.
    """
    work = Work(steps)
    values = _unchecked_values(predicates, work)
    return None if _is_nothing(values, work) else values


_cached_values = remembered("values of predicates", most=CACHED_PREDICATES, bytes_each=800)(_values)


def _unchecked_values(predicates: Sequence[Predicate], work: Work) -> Values:
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
            return _NOTHING._replace(strings=_strings(compared, work))
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


def _strings(predicates: Sequence[Predicate], work: Work) -> Strings:
    """LIKE becomes an interval or a point where it is one; other patterns stay as shapes."""
    simple: list[Predicate] = []
    shapes: set[tuple[str, bool]] = set()
    ordered = ALL_STRINGS.ordered
    for tested in predicates:
        if tested.operator not in (Operator.LIKE, Operator.NOT_LIKE):
            simple.append(tested)
            continue
        wanted = tested.operator is Operator.LIKE
        pattern = tested.operand
        assert isinstance(pattern, str)
        plain = plain_pattern(pattern, wanted=wanted)
        if plain is None:
            shapes.add((pattern, wanted))
        else:
            ordered = intersection(ordered, plain)
    if simple:
        ordered = intersection(ordered, _ordered(STRINGS, simple))
    return settle(Strings(ordered, frozenset(shapes)), work)


def _is_nothing(values: Values, work: Work) -> bool:
    return (
        not values.absent
        and not values.booleans
        and is_empty(values.numbers)
        and not some_string(values.strings, work)
    )


def _is_within(inner: Values, outer: Values, work: Work) -> bool:
    """Return whether the second set surely contains the first, which is not empty."""
    # Values are remembered per predicate, so the same test in both is the same object.
    return inner is outer or (
        inner.absent <= outer.absent
        and inner.booleans <= outer.booleans
        and work.spend(_size_of(inner) + _size_of(outer))
        and is_subset(inner.numbers, outer.numbers)
        and strings_within(inner.strings, outer.strings, work)
    )


def _size_of(values: Values) -> int:
    """Steps of work to go through a set once."""
    size = 0
    for ordered in (values.numbers, values.strings.ordered):
        size += len(ordered.excluded if ordered.points is None else ordered.points)
    return 1 + size // _POINTS_A_STEP


def _share(left: Values, right: Values, work: Work) -> bool:
    """Return whether two sets, neither of which is empty, may have a value in common."""
    return (
        left is right
        or (left.absent and right.absent)
        or not left.booleans.isdisjoint(right.booleans)
        or not work.spend(_size_of(left) + _size_of(right))
        or _share_number(left.numbers, right.numbers)
        or share_string(left.strings, right.strings, work)
    )


def _share_number(left: OrderedSet, right: OrderedSet) -> bool:
    if left is _NO_NUMBERS or right is _NO_NUMBERS:
        return False
    return not is_empty(intersection(left, right))
