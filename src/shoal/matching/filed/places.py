"""Place of a conjunction in the index: by the equalities it demands, then by its comparisons.

>>> from shoal.language import parse
>>> [(number, place)] = places_of(parse("carrier = 'UA' AND delay >= 30"))
>>> place.values, place.step.attribute, place.threshold, place.rest
('UA', 'delay', 30, ())
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from shoal.ledger import remembered
from shoal.matching.listed import ListedItem, listed_item
from shoal.matching.predicates import RISING, TYPES, alternatives, threshold
from shoal.matching.vector_forms import VectorForm, vector_form
from shoal.model import Conjunction, Filter, Kind, Operator, Predicate
from shoal.model.expressions import cost_of, derived_expression, is_derived

# A filter is filed in several indexes, of one broker or of many in one process.  The places of so
# many are remembered; of larger ones, with which strangers could fill the memory, only while there
# are such filters.
REMEMBERED = 8_192
REMEMBERED_SIZE = 32

# Steps of evaluation in the time of one test.
STEPS_A_TEST = 4

# Equalities a conjunction is filed under: attributes in order of their names, and the kinds of
# values (TRUE and 1 are one key to a dictionary).
Signature = tuple[tuple[str, Kind], ...]

# The values they must have, as `itemgetter` brings them: one bare value, or a tuple.
Values = Any


class PlaceStep(NamedTuple):
    """Names a ladder within a bucket: attribute, comparison, and whether tests remain."""

    attribute: str
    kind: Kind
    rising: bool
    tested: bool


class PlaceInterval(NamedTuple):
    """Values of some types, at least `low` and below `high`; None where it is open."""

    attribute: str
    types: tuple[type, ...]
    low: Any
    high: Any


class FilterPlace(NamedTuple):
    """Place of a conjunction in the index: a function of the conjunction alone.

    One comparison is a step of a ladder, with a threshold; several, and nothing else, are ranges.
    With expressions that are worked out for it, it may demand an `item` of a list, or have a
    `form` for vector instructions.
    """

    signature: Signature
    values: Values
    step: PlaceStep | None
    threshold: Any
    ranges: tuple[PlaceInterval, ...]
    rest: tuple[Predicate, ...]
    item: ListedItem | None = None
    form: VectorForm | None = None

    @property
    def is_tested(self) -> bool:
        """Whether a search does more for it than steps of ladders and ranges say."""
        return bool(self.rest) or self.item is not None

    @property
    def expression_work(self) -> int:
        """How many tests more its expressions count as, where they are worked out for it alone."""
        derived = [each.attribute for each in self.rest if is_derived(each.attribute)]
        return sum([cost_of(derived_expression(name)) for name in derived]) // STEPS_A_TEST

    @property
    def is_of_expressions(self) -> bool:
        """Whether it stands in the tables of expressions."""
        return self.item is not None or self.form is not None


def places_of(filter: Filter) -> tuple[tuple[int, FilterPlace], ...]:
    """The places where a filter is filed, each once, and the conjunction it is of."""
    if filter.size <= REMEMBERED_SIZE:
        return _remembered_places(filter)
    made = _large_places.get(filter)
    if made is None:
        made = _large_places[filter] = _places(filter)
    return made


def places_with(filter: Filter, evaluated: frozenset[str]) -> tuple[tuple[int, FilterPlace], ...]:
    """As `places_of`, with the tests of some derived attributes among the rest."""
    return _places(filter, evaluated) if evaluated else places_of(filter)


def _places(
    filter: Filter, evaluated: frozenset[str] = frozenset()
) -> tuple[tuple[int, FilterPlace], ...]:
    numbers: dict[FilterPlace, int] = {}
    for number, conjunction in enumerate(filter.normal_form):
        for each in alternatives(conjunction, evaluated):
            numbers.setdefault(_place(each, evaluated), number)
    return tuple((number, place) for place, number in numbers.items())


_remembered_places = remembered("places of filters", most=REMEMBERED, bytes_each=1_000)(_places)
_large_places: WeakKeyDictionary[Filter, tuple[tuple[int, FilterPlace], ...]] = WeakKeyDictionary()


def _place(conjunction: Conjunction, evaluated: frozenset[str]) -> FilterPlace:
    equalities: dict[str, Predicate] = {}
    comparisons: list[Predicate] = []
    others: list[Predicate] = []
    for tested in conjunction:
        if tested.attribute in evaluated:
            others.append(tested)
        elif tested.operator is Operator.EQ and tested.attribute not in equalities:
            equalities[tested.attribute] = tested
        elif tested.operator in RISING and tested.kind is not Kind.BOOLEAN:
            comparisons.append(tested)
        else:
            others.append(tested)
    names = sorted(equalities)
    signature = tuple((name, _kind(equalities[name])) for name in names)
    operands = [equalities[name].operand for name in names]
    values: Values = operands[0] if len(operands) == 1 else tuple(operands)
    if evaluated and others:
        place = FilterPlace(signature, values, None, None, (), (*comparisons, *others))
        items = [(each, listed_item(each)) for each in others if each.attribute in evaluated]
        for each, item in items:
            if item is not None:
                rest = tuple([other for other in place.rest if other is not each])
                return place._replace(item=item, rest=rest)
        form = vector_form(place.rest, evaluated)
        if form is not None:
            return place._replace(form=form)
    if not comparisons:
        return FilterPlace(signature, values, None, None, (), tuple(others))
    if len(comparisons) > 1 and not others:
        return FilterPlace(signature, values, None, None, _ranges(comparisons), ())
    first, *more = comparisons
    rest = (*more, *others)
    step = PlaceStep(first.attribute, _kind(first), RISING[first.operator], bool(rest))
    return FilterPlace(signature, values, step, threshold(first), (), rest)


def _ranges(comparisons: Sequence[Predicate]) -> tuple[PlaceInterval, ...]:
    """One for each attribute and kind, in the order of their names."""
    ranges: dict[tuple[str, str], PlaceInterval] = {}
    for tested in comparisons:
        kind, bound = _kind(tested), threshold(tested)
        key = (tested.attribute, kind.value)
        range = ranges.get(key) or PlaceInterval(tested.attribute, TYPES[kind], None, None)
        if RISING[tested.operator]:
            if range.low is None or range.low < bound:
                range = range._replace(low=bound)
        elif range.high is None or bound < range.high:
            range = range._replace(high=bound)
        ranges[key] = range
    return tuple(ranges[key] for key in sorted(ranges))


def _kind(tested: Predicate) -> Kind:
    assert tested.kind is not None
    return tested.kind
