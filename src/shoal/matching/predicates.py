"""Predicates as small Python functions, for the parts of a filter that an index must still test.

Each function takes a publication's attributes and says whether the predicate is TRUE; unknown
counts as not TRUE, which is all that matching asks of a conjunction's parts.

>>> from shoal.model import Operator, predicate
>>> test = compile_conjunction([predicate("distance", Operator.GT, 500)])
>>> test({"distance": 500.5}), test({"distance": "far"}), test({})
(True, False, False)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from shoal.matching.derived import Reader, value_reader
from shoal.matching.domains import number_successor, string_successor
from shoal.matching.shapes import shape
from shoal.model import Attributes, Conjunction, Kind, Operator, Predicate, Value
from shoal.model.expressions import is_derived

Test = Callable[[Attributes], bool]

# A list of more values is tested as a list: each value would be a place in the index.
ALTERNATIVES_MAXIMUM = 32

NUMBERS = (int, float)
TYPES: dict[Kind, tuple[type, ...]] = {
    Kind.BOOLEAN: (bool,),
    Kind.NUMBER: NUMBERS,
    Kind.STRING: (str,),
}

# Name of a derived attribute's value where it is tested alone.
_VALUE = "value"

# Comparisons that become `at least` (True) or `below` (False), and those of them that need the
# operand's successor for that.
RISING = {Operator.GE: True, Operator.GT: True, Operator.LT: False, Operator.LE: False}
_NEEDS_SUCCESSOR = (Operator.GT, Operator.LE)


def threshold(tested: Predicate) -> Any:
    """The bound of an order comparison of numbers or strings, as `at least` or `below` it."""
    operand = tested.operand
    if tested.operator not in _NEEDS_SUCCESSOR:
        return operand
    if isinstance(operand, str):
        return string_successor(operand)
    assert isinstance(operand, int | float)
    return number_successor(operand)


def alternatives(
    conjunction: Conjunction, evaluated: frozenset[str] = frozenset()
) -> list[Conjunction]:
    """Conjunctions with one value each in place of a list of values, so that an index finds them.

    Together they match as the conjunction does, and never two of them the same publication.  One
    list is taken apart, unless another test already says which value the attribute has, or the
    attribute is not looked up (`evaluated`).

    >>> from shoal.language import parse
    >>> [whole] = parse("carrier IN ('UA', 'AA') AND cancelled").normal_form
    >>> [[str(test.operand) for test in each] for each in alternatives(whole)]
    [['UA', 'True'], ['AA', 'True']]
    """
    lists = [at for at, tested in enumerate(conjunction) if tested.operator is Operator.IN]
    if not lists:
        return [conjunction]
    fixed = {tested.attribute for tested in conjunction if tested.operator is Operator.EQ}
    for at in lists:
        tested = conjunction[at]
        assert isinstance(tested.operand, tuple)
        values = dict.fromkeys(tested.operand)
        if tested.attribute in evaluated:
            continue
        if tested.attribute not in fixed and len(values) <= ALTERNATIVES_MAXIMUM:
            before, after = conjunction[:at], conjunction[at + 1 :]
            equal = (Predicate(tested.attribute, Operator.EQ, each, tested.kind) for each in values)
            return [(*before, each, *after) for each in equal]
    return [conjunction]


def compile_conjunction(predicates: Sequence[Predicate]) -> Test:
    """One function that is TRUE when every predicate is."""
    tests = tuple(map(compile_predicate, predicates))
    if len(tests) == 1:
        return tests[0]

    def test(attributes: Attributes) -> bool:
        for each in tests:  # noqa: SIM110  # all() would build a generator for each publication
            if not each(attributes):
                return False
        return True

    return test


def compile_predicate(tested: Predicate) -> Test:
    """One predicate as a function."""
    name = tested.attribute
    if is_derived(name):
        return _derived_test(tested, value_reader(name))
    match tested.operator:
        case Operator.IS_NULL:
            return lambda attributes: attributes.get(name) is None
        case Operator.IS_NOT_NULL:
            return lambda attributes: attributes.get(name) is not None
    assert tested.kind is not None
    types = TYPES[tested.kind]
    if tested.operator in RISING and tested.kind is not Kind.BOOLEAN:
        return _order_test(name, types, threshold(tested), rising=RISING[tested.operator])
    if tested.operator in (Operator.LIKE, Operator.NOT_LIKE):
        assert isinstance(tested.operand, str)
        return _shape_test(name, tested.operand, wanted=tested.operator is Operator.LIKE)
    wanted, listed = _finite_form(tested)
    return _membership_test(name, types, listed, wanted=wanted)


def _finite_form(tested: Predicate) -> tuple[bool, Collection[Any]]:
    """Equality, lists and comparisons of booleans, as being in a set or not."""
    operand = tested.operand
    match tested.operator:
        case Operator.IN | Operator.NOT_IN:
            assert isinstance(operand, tuple)
            return tested.operator is Operator.IN, frozenset(operand)
        case Operator.EQ | Operator.NE:
            return tested.operator is Operator.EQ, (operand,)
        case Operator.LT | Operator.GE:
            below = [value for value in (False, True) if value < operand]  # type: ignore[operator]
            return tested.operator is Operator.LT, below
        case _:
            below = [value for value in (False, True) if value <= operand]  # type: ignore[operator]
            return tested.operator is Operator.LE, below


def _order_test(name: str, types: tuple[type, ...], bound: Any, *, rising: bool) -> Test:
    # NaN is below nothing in Python, which makes it at least every bound, as it should be.
    if rising:

        def at_least(attributes: Attributes) -> bool:
            value = attributes.get(name)
            return type(value) in types and not value < bound

        return at_least

    def below(attributes: Attributes) -> bool:
        value = attributes.get(name)
        return type(value) in types and value < bound

    return below


def _membership_test(
    name: str, types: tuple[type, ...], listed: Collection[Any], *, wanted: bool
) -> Test:
    def test(attributes: Attributes) -> bool:
        value = attributes.get(name)
        return type(value) in types and (value in listed) is wanted

    return test


def _shape_test(name: str, pattern: str, *, wanted: bool) -> Test:
    has_shape = shape(pattern)

    def test(attributes: Attributes) -> bool:
        value = attributes.get(name)
        return type(value) is str and has_shape(value) is wanted

    return test


def _derived_test(tested: Predicate, read: Reader) -> Test:
    """The test of a derived attribute: that of its value, which is read first."""
    test = compile_predicate(Predicate(_VALUE, tested.operator, tested.operand, tested.kind))

    def read_and_test(attributes: Attributes) -> bool:
        value: Value | None = read(attributes)
        return test({} if value is None else {_VALUE: value})

    return read_and_test
