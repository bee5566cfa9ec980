"""Filters: boolean expressions over attributes, and their normal form.

A filter is an expression of predicates, AND, OR, NOT and constants, under SQL's three-valued
logic: a predicate on a missing attribute, or across kinds, is unknown; only TRUE matches.  Its
normal form is an OR of conjunctions of predicates, at most `MAX_CONJUNCTIONS` of them.  NOT
disappears there because every operator has its complement, under which unknown stays unknown.
A test of an expression is a test of a derived attribute (`expressions`); in the normal form it is
a range of the expression's one attribute where it has such a form.

>>> late = predicate("dep_delay", Operator.GT, 30)
>>> united = predicate("carrier", Operator.EQ, "UA")
>>> Filter(Not(Or((late, united)))).normal_form == (
...     (predicate("dep_delay", Operator.LE, 30), predicate("carrier", Operator.NE, "UA")),)
True
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

import msgspec

from shoal.ledger import remembered
from shoal.model.expressions import (
    MAX_COST,
    ExpressionCostError,
    ExpressionError,
    cost_of,
    derived_expression,
    is_derived,
    references,
)
from shoal.model.expressions.plain_forms import plain_forms
from shoal.model.like import elements
from shoal.model.values import Kind, Value, check_value, kind_of

# A routing table tests every conjunction apart; past this a filter costs more than it says.
MAX_CONJUNCTIONS = 64
# Conjunctions that are compared to find a normal form: some 50 ms.  Who sends a filter decides how
# long that takes, and a broker does nothing else meanwhile.
MAX_WORK = 300_000

# Filters of many subscribers have the same few tests of expressions.
_CACHED_FORMS = 8_192
# So many characters of a text count as one test.
_TEXT_OF_A_TEST = 64


class Operator(enum.Enum):
    """The comparison that a predicate makes.  Each operator's complement is an operator too."""

    EQ = "="
    NE = "<>"
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="
    LIKE = "LIKE"
    NOT_LIKE = "NOT LIKE"
    IN = "IN"
    NOT_IN = "NOT IN"
    IS_NULL = "IS NULL"
    IS_NOT_NULL = "IS NOT NULL"

    # Members are singletons; the default hashes the name again at every dictionary look-up.
    __hash__ = object.__hash__


_PAIRS = (
    (Operator.EQ, Operator.NE),
    (Operator.LT, Operator.GE),
    (Operator.GT, Operator.LE),
    (Operator.LIKE, Operator.NOT_LIKE),
    (Operator.IN, Operator.NOT_IN),
    (Operator.IS_NULL, Operator.IS_NOT_NULL),
)
COMPLEMENT: dict[Operator, Operator] = dict(_PAIRS) | {b: a for a, b in _PAIRS}


class FilterError(ValueError):
    """A filter that cannot be: too large in normal form, or with an operand of a wrong kind."""


class FilterCostError(FilterError):
    """A filter with expressions whose evaluation may cost too much."""


class Predicate(msgspec.Struct, frozen=True, array_like=True, tag="predicate"):
    """One test of one attribute.

    `operand` is a value; for LIKE and NOT LIKE a pattern with `%`, `_` and backslash as its
    escape; for IN and NOT IN a tuple of at least one value, all of one kind; None for IS NULL
    and IS NOT NULL.  `kind` is the operand's kind (None without operand): it keeps `a = 1` and
    `a = TRUE` apart, which Python's equality would not.  Build with `predicate(...)`.
    """

    attribute: str
    operator: Operator
    operand: Value | tuple[Value, ...] | None
    kind: Kind | None


class And(msgspec.Struct, frozen=True, array_like=True, tag="and"):
    """TRUE when every operand is, FALSE when one is, else unknown."""

    operands: tuple[Expression, ...]


class Or(msgspec.Struct, frozen=True, array_like=True, tag="or"):
    """TRUE when one operand is, FALSE when every one is, else unknown."""

    operands: tuple[Expression, ...]


class Not(msgspec.Struct, frozen=True, array_like=True, tag="not"):
    """TRUE and FALSE change places; unknown stays."""

    operand: Expression


class Constant(msgspec.Struct, frozen=True, array_like=True, tag="constant"):
    """TRUE or FALSE."""

    value: bool


Expression = Predicate | And | Or | Not | Constant
Conjunction = tuple[Predicate, ...]


def predicate(
    attribute: str, operator: Operator, operand: Value | tuple[Value, ...] | None = None
) -> Predicate:
    """A validated predicate; FilterError when the operand does not suit the operator."""
    where = f"attribute {attribute!r}, operator {operator.value}"
    if is_derived(attribute):
        try:
            derived_expression(attribute)
        except ExpressionCostError as error:
            raise FilterCostError(str(error)) from None
        except ExpressionError as error:
            raise FilterError(str(error)) from None
    if operator in (Operator.IS_NULL, Operator.IS_NOT_NULL):
        if operand is not None:
            raise FilterError(f"{where}: takes no operand")
        return Predicate(attribute, operator, None, None)
    values = operand if isinstance(operand, tuple) else (operand,)
    if isinstance(operand, tuple) != (operator in (Operator.IN, Operator.NOT_IN)) or not values:
        raise FilterError(f"{where}: IN and NOT IN take a list of values, the others one value")
    kinds = set()
    for value in values:
        try:
            check_value(value, where)
        except ValueError as error:
            raise FilterError(str(error)) from None
        if value != value:
            raise FilterError(f"{where}: NaN cannot be an operand")
        kinds.add(kind_of(value))  # type: ignore[arg-type]  # checked above
    if len(kinds) > 1:
        raise FilterError(f"{where}: the values of one list must be of one kind")
    kind = kinds.pop()
    if operator in (Operator.LIKE, Operator.NOT_LIKE):
        _check_pattern(operand, where)
    return Predicate(attribute, operator, operand, kind)


def _check_pattern(operand: object, where: str) -> None:
    if not isinstance(operand, str):
        raise FilterError(f"{where}: the pattern must be a string")
    try:
        elements(operand)
    except ValueError as error:
        raise FilterError(f"{where}: {error}") from None


class Filter:
    """An immutable, hashable filter.

    Equal filters have the same expression; filters that only mean the same need not be equal
    (see `shoal.matching.relations.decisions`).  `normal_form` raises FilterError past
    MAX_CONJUNCTIONS.
    """

    def __init__(self, expression: Expression) -> None:
        self.expression = expression
        self._hash = hash(expression)

    @classmethod
    def joined(cls, tests: Sequence[Predicate], filter: Filter) -> Filter:
        """What passes all these tests, each of another attribute, and the filter too.

        Where it asks for other attributes, its normal form is not worked out once more.
        """
        found = cls(And((*tests, filter.expression)))
        names = {test.attribute for test in tests}
        parts = filter.normal_form
        if names.isdisjoint(test.attribute for part in parts for test in part):
            found.__dict__["normal_form"] = tuple((*tests, *part) for part in parts)
        return found

    @cached_property
    def normal_form(self) -> tuple[Conjunction, ...]:
        """The OR of conjunctions that is TRUE exactly when the filter is; () is FALSE."""
        return _conjunctions(self.expression)

    @cached_property
    def size(self) -> int:
        """How much there is to look at in the normal form: tests, and what their lists hold.

        A value of a list counts as a test, and so do 64 characters of a text.
        """
        return sum(size_of_test(test) for conjunction in self.normal_form for test in conjunction)

    @cached_property
    def length(self) -> int:
        """How many tests it has as it is written, which takes no normal form to say."""
        found, left = 0, [self.expression]
        while left:
            match left.pop():
                case And(operands) | Or(operands):
                    left += operands
                case Not(operand):
                    left.append(operand)
                case Predicate(operand=tuple() as values):
                    found += len(values)
                case _:
                    found += 1
        return found

    @cached_property
    def derived(self) -> frozenset[str]:
        """The names of the derived attributes that its expression tests."""
        return frozenset(filter(is_derived, _attributes(self.expression)))

    def check_cost(self) -> None:
        """FilterCostError if an evaluation of its value expressions may cost more than MAX_COST."""
        cost = sum(cost_of(derived_expression(name)) for name in self.derived)
        if cost > MAX_COST:
            raise FilterCostError(
                f"an evaluation of the filter may cost {cost} steps; at most {MAX_COST}"
            )

    @cached_property
    def attributes(self) -> tuple[str, ...]:
        """The names of the attributes the filter mentions, in expressions too, sorted."""
        names = _attributes(self.expression)
        if not self.derived:
            return tuple(sorted(names))
        inner = (references(derived_expression(name)) for name in self.derived)
        return tuple(sorted((names - self.derived).union(*inner)))

    @cached_property
    def equalities(self) -> tuple[Predicate, ...]:
        """Tests for equality that every match passes (`symbol = 'YHOO'`), one per attribute."""
        first, *others = self.normal_form or ((),)
        tests = [test for test in first if test.operator is Operator.EQ]
        common = set(tests).intersection(*others)
        return tuple({test.attribute: test for test in tests if test in common}.values())

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, Filter) and self.expression == other.expression

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"Filter({self.expression!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        # String hashes differ between processes, so the hash must not travel.
        return Filter, (self.expression,)


EVERYTHING = Filter(Constant(True))


def size_of_test(tested: Predicate) -> int:
    """1, and what its operand holds, as `Filter.size` counts it."""
    values = tested.operand if isinstance(tested.operand, tuple) else (tested.operand,)
    texts = sum(len(value) for value in values if isinstance(value, str))
    return len(values) + texts // _TEXT_OF_A_TEST


def _attributes(expression: Expression) -> set[str]:
    match expression:
        case Predicate():
            return {expression.attribute}
        case And() | Or():
            return set().union(*map(_attributes, expression.operands))
        case Not():
            return _attributes(expression.operand)
        case Constant():
            return set()


_FormsOf = Callable[[Predicate], tuple[Conjunction, ...]]

# A conjunction as bits, one for each of the distinct predicates in the order of the expression.
_Bits = int


def _conjunctions(expression: Expression) -> tuple[Conjunction, ...]:
    """The normal form.

    Conjunctions are joined and compared as whole numbers.
    """
    try:
        return _with_forms(expression, _forms_of)
    except FilterError:
        # Some tests of expressions have two forms: perhaps too many together.
        return _with_forms(expression, lambda test: ((test,),))


def _with_forms(expression: Expression, forms_of: _FormsOf) -> tuple[Conjunction, ...]:
    numbers: dict[Predicate, int] = {}
    work = _Work(forms_of)
    found = _absorb(_normalise(expression, numbers, work, negated=False), work)
    predicates = list(numbers)
    return tuple(tuple(predicates[at] for at in _ones(bits)) for bits in found)


def _made_forms(test: Predicate) -> tuple[Conjunction, ...]:
    """The conjunctions of which one is TRUE exactly when the test is: those of its attribute, if
    the test is of an expression of one attribute, and has such a form.
    """
    return tuple(
        tuple(predicate(name, Operator(sign), operand) for name, sign, operand in each)
        for each in plain_forms(test.attribute, test.operator.value, test.operand)
    )


_forms_of = remembered("forms of derived tests", most=_CACHED_FORMS, bytes_each=2_000)(_made_forms)


class _Work:
    """The work left for one normal form (MAX_WORK), and the forms of tests in it."""

    def __init__(self, forms_of: _FormsOf) -> None:
        self.forms_of = forms_of
        self._left = MAX_WORK

    def spend(self, amount: int) -> None:
        self._left -= amount
        if self._left < 0:
            raise FilterError(
                "the filter's normal form takes too long to find; split it into several "
                "subscriptions"
            )


def _ones(bits: _Bits) -> Iterator[int]:
    """The places of the ones, ascending."""
    digits = bin(bits)[:1:-1]
    at = digits.find("1")
    while at >= 0:
        yield at
        at = digits.find("1", at + 1)


def _normalise(
    expression: Expression, numbers: dict[Predicate, int], work: _Work, *, negated: bool
) -> Sequence[_Bits]:
    match expression:
        case Predicate():
            if negated:
                complement = COMPLEMENT[expression.operator]
                expression = msgspec.structs.replace(expression, operator=complement)
            if not is_derived(expression.attribute):
                return [1 << numbers.setdefault(expression, len(numbers))]
            return [
                sum(1 << numbers.setdefault(test, len(numbers)) for test in form)
                for form in work.forms_of(expression)
            ]
        case Constant():
            return [0] if expression.value is not negated else []
        case Not():
            return _normalise(expression.operand, numbers, work, negated=not negated)
        case And() | Or():
            terms = [
                _normalise(operand, numbers, work, negated=negated)
                for operand in expression.operands
            ]
            if isinstance(expression, And) is negated:
                return _absorb([conjunction for term in terms for conjunction in term], work)
            return _product(terms, work)


def _product(terms: Sequence[Sequence[_Bits]], work: _Work) -> Sequence[_Bits]:
    """What all terms say together; those of one conjunction, most of them, first and at once."""
    if not all(terms):
        return []
    demanded = 0
    for term in terms:
        if len(term) == 1:
            demanded |= term[0]
    product: Sequence[_Bits] = [demanded]
    for term in terms:
        if len(term) > 1:
            joined: list[_Bits] = []
            for left in product:
                # What a conjunction implies adds nothing to it.
                is_implied = any(left & right == right for right in term)
                joined += [left] if is_implied else [left | right for right in term]
            if joined != product:
                product = _absorb(joined, work)
    return product


def _absorb(conjunctions: Iterable[_Bits], work: _Work) -> list[_Bits]:
    """Drop conjunctions that repeat, or only add predicates to, another one."""
    kept: list[_Bits] = []
    for conjunction in conjunctions:
        work.spend(1 + len(kept))
        if any(other & conjunction == other for other in kept):
            continue
        kept = [other for other in kept if other & conjunction != conjunction]
        kept.append(conjunction)
        if len(kept) > MAX_CONJUNCTIONS:
            raise FilterError(
                f"the filter's normal form has more than {MAX_CONJUNCTIONS} conjunctions; "
                "split it into several subscriptions"
            )
    return kept
