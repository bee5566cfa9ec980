"""The naive truth: a filter evaluated on a publication, straight from the definitions.

A predicate on a missing attribute, or on a value of another kind than its operand, is unknown
(None); AND, OR and NOT are Kleene's, as in SQL; a filter matches only when it is TRUE.  Every
faster matcher is held against this one.  Patterns alone have one implementation for all (`shapes`),
which is held against a naive twin of its own.

>>> from shoal.language import parse
>>> late = parse("dep_delay > 30 OR cancelled")
>>> matches(late, {"dep_delay": 45}), matches(late, {"dep_delay": 5})
(True, False)
>>> evaluate(late, {"dep_delay": 5}) is None  # cancelled is missing, so nobody can tell
True
"""

from __future__ import annotations

from collections.abc import Callable

from shoal.matching.derived import value_reader
from shoal.matching.given import checked
from shoal.matching.shapes import shape
from shoal.model import (
    And,
    Attributes,
    Constant,
    Expression,
    Filter,
    Not,
    Operator,
    Or,
    Predicate,
    Value,
    compare,
    kind_of,
)

_BY_ORDER: dict[Operator, Callable[[int], bool]] = {
    Operator.EQ: lambda order: order == 0,
    Operator.NE: lambda order: order != 0,
    Operator.LT: lambda order: order < 0,
    Operator.LE: lambda order: order <= 0,
    Operator.GT: lambda order: order > 0,
    Operator.GE: lambda order: order >= 0,
}


def matches(filter: Filter, attributes: Attributes) -> bool:
    """Return whether a publication with these attributes is one that the filter asks for."""
    return evaluate(filter.expression, attributes) is True


def evaluate(filter: Filter | Expression, attributes: Attributes) -> bool | None:
    """TRUE, FALSE or unknown (None); TypeError names a value that is none of ours."""
    expression = filter.expression if isinstance(filter, Filter) else filter
    return _evaluate(expression, checked(attributes))


def _evaluate(expression: Expression, attributes: Attributes) -> bool | None:
    match expression:
        case Predicate():
            return evaluate_predicate(expression, value_reader(expression.attribute)(attributes))
        case Constant():
            return expression.value
        case Not():
            inner = _evaluate(expression.operand, attributes)
            return None if inner is None else not inner
        case And() | Or():
            # One FALSE decides AND, one TRUE decides OR.
            deciding = isinstance(expression, Or)
            results = {_evaluate(operand, attributes) for operand in expression.operands}
            if deciding in results:
                return deciding
            return None if None in results else not deciding


def evaluate_predicate(tested: Predicate, value: Value | None) -> bool | None:
    """One predicate on its attribute's value; None stands for a missing attribute."""
    operator = tested.operator
    if operator is Operator.IS_NULL:
        return value is None
    if operator is Operator.IS_NOT_NULL:
        return value is not None
    if value is None or kind_of(value) is not tested.kind:
        return None
    in_order = _BY_ORDER.get(operator)
    if in_order is not None:
        order = compare(value, tested.operand)  # type: ignore[arg-type]  # no tuple, see `predicate`
        return None if order is None else in_order(order)
    match operator, tested.operand:
        case ((Operator.LIKE | Operator.NOT_LIKE), str(pattern)):
            assert isinstance(value, str)
            return shape(pattern)(value) is (operator is Operator.LIKE)
        case ((Operator.IN | Operator.NOT_IN), tuple(values)):
            found = any(compare(value, each) == 0 for each in values)
            return found is (operator is Operator.IN)
    raise AssertionError(f"not a predicate: {tested}")
